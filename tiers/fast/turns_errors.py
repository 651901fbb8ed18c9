"""``turns.errors``: process check on what came back: errors, failed commands, pointless repeats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from tiers.fast.turns_answers import Step, pair
from verifier_service.domain.evidence import Finding, Hint, Tier, Verdict
from verifier_service.domain.trajectories import Observation
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

WINDOW = 16_384  # characters read at each end of an observation
EDGE = 400  # characters at each end where an exit code or an exception is looked for
MAX_PARSED_ARGUMENTS = 20_000
MAX_HINTS = 1_000
EXIT_KEYS = ("exit_code", "exitCode", "returncode", "return_code")

_TRACEBACK = re.compile(r"^(?:\s{0,8}\|\s)?Traceback \(most recent call last\):", re.MULTILINE)
_EXCEPTION = re.compile(
    r"(?:\w{1,60}\.){0,8}(?:\w{0,60}(?:Error|Exception):\s|(?:\w{1,60}(?:Error|Exception)"
    r"|KeyboardInterrupt|SystemExit|StopIteration)$)"
)
_EXIT = re.compile(
    r"\b(?:exit(?:ed with)?[ _]?(?:status[ _]code|code|status)|return[ _]?code)\b"
    r"[ \t]{0,3}[:=]?[ \t]{0,3}\(?(-?\d{1,10})\b",
    re.IGNORECASE,
)

TEXTS = {
    "error": "The tool reported an error: read its message and change the call before trying again.",
    "exit_code": "The command ended with a non-zero exit code: fix the cause before going on.",
    "traceback": "The code raised an exception: the last line of the traceback names what to fix.",
    "exception": "The result is an exception message: handle its cause before going on.",
    "repeated_call": "The same call was made before and brought the same result: try something else.",
    "repeated_failure": "This call had failed before and was repeated unchanged: change its arguments.",
}


@dataclass(slots=True)
class _Earlier:
    observations: list[Observation]
    failed: bool


class TurnsErrors(Verifier):
    """Score each turn by the share of its calls that neither failed nor repeated in vain.

    What a tool says outright decides: ``is_error``, an exit code or an ``error`` entry in ``data``.
    Only where it says nothing is the text read: a Python traceback at the start of a line, an exit
    code, an exception as its first or last line. These are heuristics, and a document that quotes a
    traceback looks like one. A call is a repeat when an earlier call had the same name and the same
    arguments (as JSON, keys in any order) and either failed, or brought the same observation.
    Polling that brings news is no repeat. Failures count in the turn that made the call.
    ``per_turn`` is ``None`` for turns with neither calls nor observations; there is no overall score.
    Texts beyond 32,768 characters are read at both ends and labelled ``truncated``. Linear in size.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="turns.errors",
        version="1",
        tier=Tier.FAST,
        summary="Tool errors, failed commands, tracebacks and repeats without effect",
        reads=frozenset({"turns"}),
        limits=Limits(time_s=10.0, memory_mb=1024, max_batch=64),
        typical_cpu_s=0.0002,
    )

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - the port's signature
        """Return per-turn scores; ``inconclusive`` when there is nothing to judge."""
        pairing = pair(item.turns)
        units = [0] * len(item.turns)
        good = [0] * len(item.turns)
        found: list[tuple[int, str]] = []
        earlier: dict[tuple[str, str], _Earlier] = {}
        judged = [(step.turn, _step_fault(step, earlier)) for step in pairing.steps]
        judged += [(turn, _observation_fault(seen)) for turn, seen in pairing.stray]
        for turn, fault in judged:
            units[turn] += 1
            good[turn] += fault is None
            if fault is not None:
                found.append((turn, fault))
        found.sort(key=lambda each: each[0])
        cut = any(_is_long(seen.text) for turn in item.turns for seen in turn.observations)
        return Finding(
            verdict=Verdict.ACCEPT if judged else Verdict.INCONCLUSIVE,
            per_turn=tuple(ok / count if count else None for ok, count in zip(good, units, strict=True)),
            hints=_hints(found),
            labels={"truncated": "true"} if cut else {},
        )


def _hints(found: list[tuple[int, str]]) -> tuple[Hint, ...]:
    hints = [Hint(turn=turn, kind=kind, text=TEXTS[kind]) for turn, kind in found[:MAX_HINTS]]
    if len(found) > MAX_HINTS:
        hints.append(Hint(kind="truncated", text=f"{len(found) - MAX_HINTS} more findings are not listed."))
    return tuple(hints)


def _step_fault(step: Step, earlier: dict[tuple[str, str], _Earlier]) -> str | None:
    fault = _first_fault(step.observations)
    if not step.call.name or not step.observations:
        return fault
    key = (step.call.name, _canonical(step))
    before = earlier.get(key)
    earlier[key] = _Earlier(step.observations, fault is not None)
    if before is None:
        return fault
    if before.failed and fault is not None:
        return "repeated_failure"
    same = _contents(before.observations) == _contents(step.observations)
    return "repeated_call" if same and fault is None else fault


def _contents(observations: list[Observation]) -> list[tuple[str | None, object]]:
    return [(seen.text, seen.data) for seen in observations]


def _canonical(step: Step) -> str:
    arguments = step.call.arguments
    raw = arguments.strip() if isinstance(arguments, str) else ""
    if len(raw) > MAX_PARSED_ARGUMENTS:
        return raw
    try:
        value = (json.loads(raw) if raw else {}) if isinstance(arguments, str) else arguments or {}
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return raw


def _first_fault(observations: Iterable[Observation]) -> str | None:
    for seen in observations:
        fault = _observation_fault(seen)
        if fault is not None:
            return fault
    return None


def _observation_fault(seen: Observation) -> str | None:
    if seen.is_error:
        return "error"
    if isinstance(seen.data, dict):
        code = next((seen.data[key] for key in EXIT_KEYS if seen.data.get(key) is not None), None)
        if isinstance(code, (int, str)) and not isinstance(code, bool):
            return "exit_code" if str(code).strip() not in ("0", "") else None
        error = seen.data.get("error")
        if error is True or (error and not isinstance(error, (int, float))):  # a number is a metric
            return "error"
    return _text_fault(seen.text) if seen.text else None


def _is_long(text: str | None) -> bool:
    return text is not None and len(text) > 2 * WINDOW


def _text_fault(text: str) -> str | None:
    windows = {text[:WINDOW], text[-WINDOW:]} if _is_long(text) else {text}
    opening, ending = text[:WINDOW].lstrip()[:EDGE], text[-WINDOW:].rstrip()[-EDGE:]
    edges = (opening, ending) if opening != ending else (ending,)
    codes = [match.group(1) for edge in edges for match in _EXIT.finditer(edge)]
    if codes and not int(codes[-1]):
        return None
    if any("Traceback" in window and _TRACEBACK.search(window) for window in windows):
        return "traceback"
    if codes:
        return "exit_code"
    lines = (opening.split("\n", 1)[0], ending.rsplit("\n", 1)[-1])
    return "exception" if any(_EXCEPTION.match(line) for line in lines) else None
