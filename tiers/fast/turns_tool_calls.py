"""``turns.tool_calls``: process check on how calls are written. Bad JSON is a finding about a turn."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, ClassVar

from tiers.fast.turns_answers import Step, pair
from verifier_service.domain.evidence import Finding, Hint, Tier, Verdict
from verifier_service.domain.trajectories import ToolCall
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

MAX_ARGUMENT_CHARS = 1_000_000
MAX_DEPTH = 64
MAX_HINTS = 1_000
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)

TEXTS = {
    "missing_name": "The call names no tool.",
    "invalid_json": "The arguments are not valid JSON: close every string, bracket and brace.",
    "not_an_object": "The arguments must be one JSON object, with names and values.",
    "extra_data": "Text follows the JSON object: make one call per object.",
    "duplicate_key": "The arguments give one name twice.",
    "non_finite": "NaN, Infinity and numbers beyond a double are not JSON.",
    "too_deep": f"The arguments nest deeper than {MAX_DEPTH} levels.",
    "too_large": f"The arguments exceed {MAX_ARGUMENT_CHARS} characters.",
    "duplicate_id": "Two calls of this turn share one id.",
    "missing_observation": "Nothing answers this call: wait for its result before going on.",
    "unknown_call": "An observation names a call that was never made.",
}


class TurnsToolCalls(Verifier):
    """Score each turn by the share of its calls that are well-formed and answered.

    ``per_turn`` is ``None`` where a turn makes no call; there is no overall score. Each finding is a
    hint whose ``kind`` is one of ``TEXTS``. A call without any other fault and without an
    observation is ``missing_observation``; missing or empty arguments mean ``{}``. Stray
    observations are the environment's doing: they are named and cost the turn nothing. Beyond 1,000
    hints only their number is given. Linear in the size of the turns.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="turns.tool_calls",
        version="1",
        tier=Tier.FAST,
        summary="Calls name a tool, carry one JSON object as arguments and are answered",
        reads=frozenset({"turns"}),
        limits=Limits(time_s=10.0, memory_mb=1024, max_batch=64),
        typical_cpu_s=0.0002,
    )

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - the port's signature
        """Return per-turn scores; ``inconclusive`` when no turn makes a call."""
        pairing = pair(item.turns)
        shared = Counter(pairing.duplicates)
        made = [0] * len(item.turns)
        good = [0] * len(item.turns)
        found: list[tuple[int, str, str | None]] = []
        for step in pairing.steps:
            faults = _faults(step, shared)
            made[step.turn] += 1
            good[step.turn] += not faults
            found += [(step.turn, fault, step.call.name) for fault in faults]
        found += [(turn, "unknown_call", None) for turn, seen in pairing.stray if seen.call is not None]
        found.sort(key=lambda each: each[0])
        per_turn = tuple(ok / all_ if all_ else None for ok, all_ in zip(good, made, strict=True))
        verdict = Verdict.ACCEPT if pairing.steps else Verdict.INCONCLUSIVE
        return Finding(verdict=verdict, per_turn=per_turn, hints=bounded(found))


def bounded(found: list[tuple[int, str, str | None]]) -> tuple[Hint, ...]:
    """Make hints of ``(turn, kind, tool)``, at most ``MAX_HINTS`` and a note of how many were cut."""
    hints = [Hint(turn=turn, kind=kind, text=_text(kind, tool)) for turn, kind, tool in found[:MAX_HINTS]]
    if len(found) > MAX_HINTS:
        hints.append(Hint(kind="truncated", text=f"{len(found) - MAX_HINTS} more findings are not listed."))
    return tuple(hints)


def _text(kind: str, tool: str | None) -> str:
    return f"{tool[:80]}: {TEXTS[kind]}" if tool else TEXTS[kind]


def _faults(step: Step, shared: Counter[tuple[int, str]]) -> list[str]:
    call = step.call
    faults = []
    if call.name is None or not call.name.strip():
        faults.append("missing_name")
    malformed = _argument_fault(call)
    if malformed is not None:
        faults.append(malformed)
    if call.id is not None and (step.turn, call.id) in shared:
        faults.append("duplicate_id")
    if not faults and not step.observations:
        faults.append("missing_observation")
    return faults


def _argument_fault(call: ToolCall) -> str | None:
    text = call.arguments
    if not isinstance(text, str):
        return None
    if len(text) > MAX_ARGUMENT_CHARS:
        return "too_large"
    text = text.strip(" \t\r\n")
    if not text or text == "{}":
        return None
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        return "too_deep"
    return _parse_fault(text)


def _depth(text: str) -> int:
    deepest = level = 0
    for match in _BRACKET.finditer(text):
        if match.group() in ("[", "{"):
            level += 1
            deepest = max(deepest, level)
        elif match.group() in ("]", "}"):
            level -= 1
    return deepest


class _Flaws(ValueError):
    """A value that JSON, or one reader of it, does not allow."""


def _parse_fault(text: str) -> str | None:
    try:
        value, end = _DECODER.raw_decode(text)
    except _Flaws as flaw:
        return str(flaw)
    except (ValueError, RecursionError):
        return "invalid_json"
    if end != len(text):
        return "extra_data"
    return None if isinstance(value, dict) else "not_an_object"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Flaws("duplicate_key")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _Flaws("non_finite")
    return value


def _constant(_: str) -> Any:
    raise _Flaws("non_finite")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_constant)
