"""Hindsight: what went wrong in a trajectory and where, to train on. The reference is no part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from verifier_service.domain.cases import Body
from verifier_service.domain.disclosure import repeated, shown, stands_in
from verifier_service.domain.evidence import Hint
from verifier_service.domain.records import JsonObject, JsonValue, Record
from verifier_service.domain.rewards import RewardCode, RewardRecord
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.trajectories import Turn


class HindsightRecord(Record):
    """A trajectory up to its first mistake, and what the verifiers say about that.

    ``mistake`` is the index of the first turn that a hint names; ``turns`` end with it. It is null where
    no hint names a turn: then the mistake is the answer, ``turns`` has all of them, and ``answer`` is
    given. ``hints`` are those on that turn and those on no turn; a rejection's reason is the last of them
    (``kind`` = its detail). ``withheld`` counts hints that were left out because they repeat a value of the
    reference that stands neither in the prompt nor in ``turns`` and ``answer`` (see ``disclosure``).
    ``rejected`` says that the outcome was judged and rejected. The other fields are the reward record's.
    """

    seq: int
    run: str
    trajectory: str
    multiplicity: int = 1
    group: str | None = None
    policy_version: str | None = None
    ladder: str
    ladder_version: int
    revision: int
    status: RewardStatus
    reward: float | None = None
    rejected: bool = False
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
    turns = body.turns if mistake is None else body.turns[: mistake + 1]
    answer = body.answer if mistake is None else None
    asked: JsonValue = body.prompt if isinstance(body.prompt, str) else [*body.prompt]
    told = _undisclosing(about, body.reference, [asked, *map(_plain, turns), answer])
    return HindsightRecord(
        seq=record.seq,
        run=record.run,
        trajectory=record.trajectory,
        multiplicity=record.multiplicity,
        group=record.group,
        policy_version=record.policy_version,
        ladder=record.ladder,
        ladder_version=record.ladder_version,
        revision=record.revision,
        status=record.status,
        reward=record.reward,
        rejected=_rejected(record),
        supersedes=record.supersedes,
        prompt=body.prompt,
        turns=turns,
        mistake=mistake,
        answer=answer,
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


def _plain(turn: Turn) -> JsonObject:
    plain: JsonObject = turn.model_dump(mode="json")
    return plain


def _undisclosing(hints: Sequence[Hint], reference: JsonObject, seen: Sequence[JsonValue]) -> list[Hint]:
    """The hints that repeat nothing of the reference but what was seen."""
    kinds = repeated([hint.kind for hint in hints], reference)
    texts = repeated([hint.text for hint in hints], reference)
    said = [kind | text for kind, text in zip(kinds, texts, strict=True)]
    known = shown(seen) if any(said) else ""
    return [
        hint
        for hint, values in zip(hints, said, strict=True)
        if all(stands_in(value, known) for value in values)
    ]
