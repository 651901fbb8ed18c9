"""Fit a ladder's model to the evidence that there is, and look again at what it changes."""

from __future__ import annotations

from dataclasses import dataclass

from verifier_service.domain.decisions import FittedModel
from verifier_service.domain.ladders import Ladder
from verifier_service.domain.models import Alarm, Example, LadderKey
from verifier_service.domain.ports.policy import Beliefs
from verifier_service.domain.ports.store import Transaction

MOST_EXAMPLES = 1_000  # with their truth, and as many with less
LOOKED_AT = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class Lesson:
    """What a model is fitted to."""

    ladder: Ladder
    examples: tuple[Example, ...]
    previous: FittedModel | None
    alarms: tuple[Alarm, ...]


def lesson(tx: Transaction, beliefs: Beliefs, key: LadderKey) -> Lesson | None:
    """Everything that the next model of a ladder version rests on; ``None`` where there is nothing to
    learn, nor to forget: truths may all have been taken back."""
    ladder = tx.ladders.version(key.project, key.name, key.version)
    if not beliefs.learns(ladder):
        return None
    bought = tx.models.bought(key, ladder.spec.truth, MOST_EXAMPLES)
    previous = tx.models.current(key)
    if not bought.known and (previous is None or not previous.labels):
        return None
    cases = tx.trajectories.cases([*bought.known, *bought.partly])
    examples = tuple(
        Example(
            trajectory=case.standing.pk,
            ladder=ladder,
            evidence=tuple(case.rung_evidence()),
            propensity=case.standing.propensity,
            audited=case.standing.audited,
            predicted=case.standing.predicted,
        )
        for case in cases
    )
    alarms = tuple(tx.alarms.standing(key))
    return Lesson(ladder=ladder, examples=examples, previous=previous, alarms=alarms)


def keep(tx: Transaction, key: LadderKey, model: FittedModel) -> bool:
    """Store a model; false when another process was first."""
    kept = tx.models.add(key, model)
    if kept:
        tx.count("models", kind=key.name)
        tx.tell(
            "model fitted", project=key.project, ladder=key.name, number=model.number, labels=model.labels
        )
    return kept


def changed(tx: Transaction, key: LadderKey, after: int) -> tuple[list[int], int | None]:
    """The next cases whose provisional reward a new model may have moved, and where to go on; ``None`` at
    the end."""
    pks = tx.trajectories.provisional(key, after, LOOKED_AT)
    return pks, pks[-1] if len(pks) == LOOKED_AT else None
