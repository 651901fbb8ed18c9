"""The watch as the beliefs run it: errors of one belief, strata by build, references of audits alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scheduler.ladder_model import is_doubted, model_of
from scheduler.levels import values_of
from tests.unit.test_learned import (
    BELIEFS,
    FAST,
    HIGH,
    JUDGING,
    LADDER,
    SIM,
    examples,
    judged_examples,
    no_map,
    verdict,
)
from verifier_service.domain.decisions import RungEvidence
from verifier_service.domain.evidence import Evidence
from verifier_service.domain.models import Audited, Example


def test_audits_of_verdicts_are_watched() -> None:
    """A judge whose yes stops meaning anything raises an alarm, and then nothing rests on it."""
    good = [audited(place, believed=0.8, true=float(place % 5 > 0)) for place in range(200)]
    noted, raised = BELIEFS.watch(JUDGING, None, good)
    assert raised == []
    bad = [audited(1_000 + place, believed=0.8, true=0.0) for place in range(100)]
    _, raised = BELIEFS.watch(JUDGING, noted, bad)
    assert raised
    assert raised[0].verifier == "a.judge 1"
    model = BELIEFS.learn(JUDGING, judged_examples(300), None, raised)
    assert is_doubted(model, FAST)
    assert not is_doubted(model, HIGH)


def audited(place: int, believed: float, true: float) -> Audited:
    return Audited(
        key=f"r/{place}",
        mean=believed,
        outcome=believed,
        propensity=0.2,
        evidence=(verdict(FAST, f"{place}", 1.0), verdict(HIGH, f"{place}", true)),
    )


def test_audits_are_compared_under_one_belief() -> None:
    """The beliefs as drawn were right and are then 5 too high: the current model was not fooled by that.
    Where the rough value itself goes astray, the model is, and its error is told from its held-out ones."""
    seen = [replace(one, audited=True, propensity=0.5) for one in examples(120)]
    model = BELIEFS.learn(LADDER, seen, None)
    assert model is not None
    fitted = model_of(model.body)
    assert fitted is not None
    assert set(fitted.held_out) == {str(one.trajectory) for one in seen}
    earlier = [of_example(one, believed_too_much=0.0) for one in seen]
    noted, _ = BELIEFS.watch(LADDER, None, earlier, model)
    later = [replace(one, trajectory=1_000 + one.trajectory) for one in examples(60, seed=5)]
    wrong = [of_example(one, believed_too_much=5.0) for one in later]
    assert BELIEFS.watch(LADDER, noted, wrong)[1]
    assert BELIEFS.watch(LADDER, noted, wrong, model)[1] == []
    astray = [
        replace(of_example(one, believed_too_much=0.0), evidence=pleased(one.evidence)) for one in later
    ]
    assert BELIEFS.watch(LADDER, noted, astray)[1] == []
    assert BELIEFS.watch(LADDER, noted, astray, model)[1]


def test_only_audits_are_a_reference() -> None:
    """Truths that were bought were chosen: their errors are not like those of a lot."""
    mixed = [replace(one, audited=one.trajectory % 2 == 0) for one in examples(60, known=40)]
    model = BELIEFS.learn(LADDER, mixed, None)
    assert model is not None
    fitted = model_of(model.body)
    assert fitted is not None
    assert set(fitted.held_out) == {str(place) for place in range(2, 41, 2)}


def of_example(example: Example, believed_too_much: float) -> Audited:
    values = values_of(LADDER, example.evidence, no_map)
    return Audited(
        key=str(example.trajectory),
        mean=values[HIGH].mean + believed_too_much,
        outcome=0.9,
        propensity=0.5,
        evidence=tuple(example.evidence),
    )


def pleased(items: Sequence[RungEvidence]) -> tuple[RungEvidence, ...]:
    """The rough value is 20 too high."""
    return tuple(
        replace(item, evidence=raised(item.evidence)) if item.evidence.tier is SIM else item
        for item in items
    )


def raised(evidence: Evidence) -> Evidence:
    [one] = evidence.measurements
    return evidence.model_copy(
        update={"measurements": (one.model_copy(update={"value": one.value + 20.0}),)}
    )
