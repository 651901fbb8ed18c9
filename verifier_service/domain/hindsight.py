"""Hindsight: what went wrong in a trajectory and where, to train on. Never holds the reference."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from verifier_service.domain.cases import Body
from verifier_service.domain.evidence import Hint
from verifier_service.domain.records import JsonObject, JsonValue, Record
from verifier_service.domain.rewards import RewardCode, RewardRecord
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.trajectories import Turn

REVIEWER = "reviewer_rejected"
SHORTEST_SECRET = 5


class HindsightRecord(Record):
    """A trajectory up to its first mistake, and what the verifiers say about that.

    ``mistake`` is the index of the first turn that a hint names; ``turns`` end with it. It is null where
    no hint names a turn: then the mistake is the answer, ``turns`` has all of them, and ``answer`` is
    given. ``hints`` are those on that turn and those on no turn; a rejection's reason is the last of them
    (``kind`` = its detail). ``withheld`` counts hints that were left out because they repeat the reference.
    ``seq``, ``revision``, ``status``, ``reward`` and ``supersedes`` are those of the reward record.
    """

    seq: int
    run: str
    trajectory: str
    multiplicity: int = 1
    group: str | None = None
    policy_version: str | None = None
    ladder: str
    revision: int
    status: RewardStatus
    reward: float | None = None
    supersedes: int | None = None
    prompt: str | list[JsonObject] = ""
    turns: Annotated[tuple[Turn, ...], Field(strict=False)] = ()
    mistake: int | None = None
    answer: str | JsonObject | None = None
    hints: tuple[Hint, ...]
    withheld: int = 0


class HindsightPage(Record):
    """A stretch of the run's feed, in feed order; each trajectory once, by its newest record.

    ``withdrawn``: trajectories whose newest record supersedes another and has nothing to learn from; who
    keeps an example of one drops it. ``cursor`` is what to pass as ``after`` next; ``more`` says that the
    feed already goes on beyond it.
    """

    records: tuple[HindsightRecord, ...]
    withdrawn: tuple[str, ...] = ()
    cursor: int
    more: bool = False


def teaches(record: RewardRecord) -> bool:
    """Whether there is something to learn from: hints, or a rejection with its reason."""
    if record.status is RewardStatus.RETRACTED:
        return False
    return bool(record.hints) or _rejected(record)


def hindsight(record: RewardRecord, body: Body) -> HindsightRecord:
    """The export of one trajectory."""
    placed = [_placed(hint, len(body.turns)) for hint in record.hints]
    named = [hint.turn for hint in placed if hint.turn is not None]
    mistake = min(named) if named else None
    about = [hint for hint in placed if hint.turn in (mistake, None)]
    reason = record.reason
    if _rejected(record) and reason is not None:
        about.append(Hint(kind=reason.detail or str(reason.code), text=reason.message))
    said = _said(about, body.reference)
    known = _shown(body) if said else ""
    told = [hint for hint in about if not _repeats(hint, said, known)]
    return HindsightRecord(
        seq=record.seq,
        run=record.run,
        trajectory=record.trajectory,
        multiplicity=record.multiplicity,
        group=record.group,
        policy_version=record.policy_version,
        ladder=record.ladder,
        revision=record.revision,
        status=record.status,
        reward=record.reward,
        supersedes=record.supersedes,
        prompt=body.prompt,
        turns=body.turns if mistake is None else body.turns[: mistake + 1],
        mistake=mistake,
        answer=body.answer if mistake is None else None,
        hints=tuple(told),
        withheld=len(about) - len(told),
    )


def _rejected(record: RewardRecord) -> bool:
    return record.reason is not None and record.reason.code is RewardCode.REJECTED


def _placed(hint: Hint, turns: int) -> Hint:
    """A hint on a turn that is not there is one on the whole."""
    if hint.turn is None or 0 <= hint.turn < turns:
        return hint
    return hint.model_copy(update={"turn": None})


def _said(hints: Sequence[Hint], reference: JsonObject) -> set[str]:
    """The texts of the reference that stand in any of the hints."""
    told = "\n".join({hint.text for hint in hints})
    return {text for text in _texts(reference) if text and text in told}


def _shown(body: Body) -> str:
    """All that the task and the agent said, as JSON."""
    return json.dumps(body.model_dump(mode="json", exclude={"reference", "metadata"}), ensure_ascii=False)


def _repeats(hint: Hint, said: set[str], known: str) -> bool:
    """Whether a hint says something of the reference that neither the task nor the agent said.

    Verifiers promise not to, so only what cannot be chance counts: five characters or more. A person's
    words promise nothing, so any value counts that stands there as a word of its own.
    """
    as_word = hint.kind == REVIEWER
    shortest = 1 if as_word else SHORTEST_SECRET
    return any(
        len(text) >= shortest
        and _contains(hint.text, text, as_word)
        and not _contains(known, json.dumps(text, ensure_ascii=False)[1:-1], as_word)
        for text in said
    )


def _contains(text: str, part: str, as_word: bool) -> bool:
    if not as_word or part not in text:
        return part in text
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) is not None


def _texts(root: JsonValue) -> Iterator[str]:
    """Every text and number in a value, without the names of members."""
    waiting: list[JsonValue] = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value.strip()
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield json.dumps(value)
