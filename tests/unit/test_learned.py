"""Beliefs that learn: declared first, then what the evidence says, never more than was bought."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from scheduler.beliefs import TierBeliefs
from scheduler.ladder_model import model_of
from scheduler.learned import FEWEST_UNMEASURED, LearnedBeliefs
from tests.support import noisy
from tests.support.cases import evidence, ladder
from verifier_service.domain.decisions import Estimate, FittedModel, RungEvidence
from verifier_service.domain.digests import canonical_json
from verifier_service.domain.evidence import Evidence, Measurement, Provenance, Tier, Verdict
from verifier_service.domain.maps import QuantityMap
from verifier_service.domain.models import Alarm, Example

FAST, SIM, HIGH = Tier.FAST, Tier.SIMULATION, Tier.HIGH_FIDELITY
LADDER = ladder(noisy.LADDER)


def no_map(name: str) -> QuantityMap:
    raise AssertionError(name)


BELIEFS = LearnedBeliefs(no_map)


def found(
    verifier: str, tier: Tier, key: str, value: float | None, sigma: float | None, **more: object
) -> Evidence:
    measured = (
        () if value is None else (Measurement(quantity=noisy.QUANTITY, value=value, unit="1", sigma=sigma),)
    )
    return Evidence(
        check=f"{verifier}:{key}",
        tier=tier,
        verdict=Verdict.ACCEPT if tier is FAST else Verdict.INCONCLUSIVE,
        measurements=measured,
        provenance=Provenance(verifier=verifier, version="1"),
        **more,  # type: ignore[arg-type]
    )


def evidenced(candidate: str, *tiers: Tier) -> tuple[RungEvidence, ...]:
    one, other = noisy.numbers(candidate)
    items = [
        RungEvidence(
            path="fast/0",
            evidence=found(
                "noisy.gate", FAST, candidate, None, None, features={"one": one, "other": other}
            ),
        )
    ]
    if SIM in tiers:
        rough = found("noisy.rough", SIM, candidate, noisy.rough(candidate), 2.0)
        items.append(RungEvidence(path="simulation/0", evidence=rough))
    if HIGH in tiers:
        exact = found("noisy.exact", HIGH, candidate, noisy.exact(candidate), 0.0)
        items.append(RungEvidence(path="high_fidelity/0", evidence=exact))
    return tuple(items)


def candidates(n: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [f"{rng.random():.4f} {rng.random():.4f}" for _ in range(n)]


def examples(n: int, *, known: int | None = None, seed: int = 0) -> list[Example]:
    """``n`` candidates that were simulated; the truth of the first ``known`` as well."""
    return [
        Example(
            trajectory=place + 1,
            ladder=LADDER,
            evidence=evidenced(text, SIM, *([HIGH] if known is None or place < known else [])),
        )
        for place, text in enumerate(candidates(n, seed))
    ]


def learned(n: int, **more: int) -> FittedModel:
    model = BELIEFS.learn(LADDER, examples(n, **more), None)
    assert model is not None
    return model


def believe(candidate: str, *tiers: Tier, model: FittedModel | None = None) -> Estimate | None:
    return BELIEFS.estimate(LADDER, evidenced(candidate, *tiers), model)


def test_without_a_truth_nothing_is_learned_and_what_is_declared_holds() -> None:
    assert BELIEFS.learn(LADDER, examples(20, known=0), None) is None
    items = evidenced("0.5 0.5", SIM)
    assert BELIEFS.estimate(LADDER, items) == TierBeliefs(no_map).estimate(LADDER, items)


def test_a_model_whose_truths_were_all_taken_back_is_forgotten() -> None:
    before = learned(40)
    nothing = BELIEFS.learn(LADDER, examples(40, known=0), before)
    assert nothing is not None
    assert (nothing.number, nothing.labels) == (2, 0)
    items = evidenced("0.5 0.5", SIM)
    assert BELIEFS.estimate(LADDER, items, nothing) == TierBeliefs(no_map).estimate(LADDER, items)
    assert BELIEFS.learn(LADDER, examples(40, known=0), nothing) is None, "once"
    after = BELIEFS.learn(LADDER, examples(40), nothing)
    assert after is not None
    assert (after.number, after.labels) == (3, 40)


def test_features_alone_predict_only_what_is_like_those_that_are_known() -> None:
    model = learned(60, known=60)
    inside = believe("0.5 0.5", model=model)
    assert inside is not None
    assert not inside.measured
    assert believe("0.5 1.9", model=model) is None, "far outside of every feature that had a truth"
    anchored = believe("0.5 1.9", SIM, model=model)
    assert anchored is not None
    assert anchored.measured


def test_a_biased_verifier_is_seen_through() -> None:
    """The rough value says 0.5 y + 2 within 2: truth by truth the belief comes to the truth."""
    new = candidates(200, seed=9)

    def error(model: FittedModel | None) -> float:
        beliefs = [believe(text, SIM, model=model) for text in new]
        return float(
            np.sqrt(
                np.mean([(one.mean - noisy.exact(t)) ** 2 for t, one in zip(new, beliefs, strict=True)])
            )  # type: ignore[union-attr, operator]
        )

    plain, few, many = error(None), error(learned(60, known=12)), error(learned(200, known=120))
    assert many < few < plain
    assert many < 0.35 * plain


def test_intervals_hold_what_they_say() -> None:
    model, new = learned(200, known=120), candidates(300, seed=5)
    beliefs = [(text, believe(text, SIM, model=model)) for text in new]
    inside = [one.low <= noisy.exact(text) / 10 <= one.high for text, one in beliefs if one is not None]
    assert len(inside) == 300
    assert 0.83 <= sum(inside) / 300 <= 0.97


def test_features_alone_predict_only_after_enough_truths() -> None:
    assert believe("0.5 0.5", model=learned(60, known=FEWEST_UNMEASURED - 1)) is None
    one = believe("0.5 0.5", model=learned(60, known=60))
    assert one is not None
    assert (one.tier, one.model) == (FAST, 1)
    assert one.mean == pytest.approx(noisy.exact("0.5 0.5"), abs=1.0)


def test_a_measured_truth_is_never_predicted() -> None:
    model = learned(60, known=40)
    measured = believe("0.5 0.5", SIM, HIGH, model=model)
    assert measured is not None
    assert (measured.tier, measured.mean, measured.model) == (HIGH, noisy.exact("0.5 0.5"), None)


def test_a_model_depends_on_the_evidence_alone() -> None:
    rows = examples(50, known=30)
    one = BELIEFS.learn(LADDER, rows, None)
    shuffled = rows[:]
    random.Random(3).shuffle(shuffled)
    assert BELIEFS.learn(LADDER, shuffled, None) == one
    assert one is not None
    again = BELIEFS.learn(LADDER, rows, one)
    assert again is not None
    assert (again.number, again.body) == (2, one.body)


def test_a_document_of_another_version_is_not_read() -> None:
    strange = FittedModel(number=3, labels=100, body='{"format": "ladder-model/0"}')
    assert model_of(strange.body) is None
    assert believe("0.5 0.5", SIM, model=strange) == believe("0.5 0.5", SIM)


def test_an_alarm_widens_what_rests_on_that_level() -> None:
    rows = examples(80, known=60)
    plain = BELIEFS.learn(LADDER, rows, None)
    alarm = Alarm(
        verifier="noisy.rough 1",
        stratum="simulation|noisy.rough 1|2",
        statistic=9e3,
        threshold=900,
        audits=40,
    )
    alarmed = BELIEFS.learn(LADDER, rows, None, [alarm])
    before, after = (believe("0.4 0.6", SIM, model=model) for model in (plain, alarmed))
    assert before is not None
    assert after is not None
    assert after.variance == pytest.approx(2 * (before.variance or math.nan))
    assert after.mean == before.mean


def test_a_ladder_that_judges_with_its_first_tier_has_nothing_to_learn() -> None:
    judged = ladder(
        {
            "name": "j",
            "candidate": {"kind": "text", "format": "text", "from": "answer"},
            "outcome": {"use": "a.judge"},
            "truth": "fast",
            "tiers": {"fast": [{"use": "a.judge"}]},
        }
    )
    assert not BELIEFS.learns(judged)
    assert BELIEFS.learns(LADDER)
    scored = evidence("a.judge", FAST, score=0.7)
    one = BELIEFS.estimate(judged, [RungEvidence(path="fast/0", evidence=scored)], learned(30))
    assert one is not None
    assert one.outcome == 0.7


def test_without_learning_no_model_counts() -> None:
    beliefs = LearnedBeliefs(no_map, learning=False)
    assert not beliefs.learns(LADDER)


def test_missing_features_are_stood_in_for() -> None:
    model = learned(60, known=60)
    bare = tuple(item for item in evidenced("0.5 0.5", SIM) if item.path != "fast/0")
    one = BELIEFS.estimate(LADDER, bare, model)
    assert one is not None
    assert one.tier is SIM


def by_two_builds(n: int) -> list[Example]:
    """Every other candidate was measured by a new version, which says one more than the old one."""
    made = []
    for place, text in enumerate(candidates(n, seed=3)):
        _, rough, exact = evidenced(text, SIM, HIGH)
        if place % 2:
            value = noisy.rough(text) + 1.0
            newer = found("noisy.rough", SIM, text, value, 2.0).model_copy(
                update={"provenance": Provenance(verifier="noisy.rough", version="2")}
            )
            rough = RungEvidence(path="simulation/0", evidence=newer)
        made.append(
            Example(
                trajectory=place + 1,
                ladder=LADDER,
                evidence=(rough, exact),
                propensity=0.5,
                audited=True,
            )
        )
    return made


def test_audits_correct_what_a_build_gets_wrong() -> None:
    """The regressions do not know builds; the shifts of the strata do, and only by truths with a chance."""
    seen, new = by_two_builds(160), by_two_builds(480)[160:]
    shifted = BELIEFS.learn(LADDER, seen, None)
    blind = BELIEFS.learn(LADDER, [replace(one, propensity=None) for one in seen], None)
    assert shifted is not None
    assert blind is not None

    def biases(model: FittedModel) -> dict[int, float]:
        errors: dict[int, list[float]] = {0: [], 1: []}
        for one in new:
            rough, exact = one.evidence
            belief = BELIEFS.estimate(LADDER, (rough,), model)
            assert belief is not None
            assert belief.mean is not None
            truth = exact.evidence.measurements[0].value
            errors[(one.trajectory - 1) % 2].append(belief.mean - truth)
        return {build: float(np.mean(part)) for build, part in errors.items()}

    before, after = biases(blind), biases(shifted)
    assert before[1] - before[0] > 0.15
    assert abs(after[1] - after[0]) < 0.4 * (before[1] - before[0])


JUDGING = ladder(
    {
        "name": "judging",
        "candidate": {"kind": "text", "format": "text", "from": "answer"},
        "outcome": {"use": "a.judge"},
        "truth": "high_fidelity",
        "tiers": {
            "fast": [{"use": "a.judge"}, {"use": "a.style"}],
            "high_fidelity": [{"use": "a.judge", "params": {"thorough": True}}],
        },
    }
)


def verdict(tier: Tier, key: str, score: float) -> RungEvidence:
    return RungEvidence(
        path=f"{tier.value}/0",
        evidence=found("a.judge", tier, key, None, None, score=score),
    )


def judged_examples(n: int, wrong: float = 0.2) -> list[Example]:
    """The quick judge refuses nothing good, and ``wrong`` of what it lets through is bad."""
    rng = random.Random(4)
    made = []
    for place in range(n):
        quick = float(rng.random() < 0.6)
        true = 0.0 if not quick or rng.random() < wrong else 1.0
        items = (verdict(FAST, f"{place}", quick), verdict(HIGH, f"{place}", true))
        made.append(Example(trajectory=place + 1, ladder=JUDGING, evidence=items))
    return made


def test_a_verdict_below_the_truth_is_believed_as_often_as_it_was_right() -> None:
    assert BELIEFS.learns(JUDGING)
    yes, no = (verdict(FAST, "new", score) for score in (1.0, 0.0))
    unknown = BELIEFS.estimate(JUDGING, [yes])
    assert unknown is not None
    assert (unknown.outcome, unknown.low, unknown.high) == (1.0, 0.0, 1.0)
    assert unknown.outcome_variance == pytest.approx(0.09), "wrong once in ten, until it is known"
    model = BELIEFS.learn(JUDGING, judged_examples(300), None)
    assert model is not None
    said_yes, said_no = (BELIEFS.estimate(JUDGING, [one], model) for one in (yes, no))
    assert said_yes is not None
    assert said_no is not None
    assert said_yes.outcome == pytest.approx(0.8, abs=0.07)
    assert said_yes.outcome_variance == pytest.approx(said_yes.outcome * (1 - said_yes.outcome))
    assert said_no.outcome < 0.03
    assert (said_no.low, said_no.high, said_no.mean) == (0.0, 0.0, None)
    assert said_no.model == model.number
    settled = BELIEFS.estimate(JUDGING, [yes, verdict(HIGH, "new", 0.0)], model)
    assert settled is not None
    assert (settled.tier, settled.outcome, settled.outcome_variance) == (HIGH, 0.0, 0.0)


def test_a_model_of_verdicts_is_the_same_when_it_is_read_again() -> None:
    model = BELIEFS.learn(JUDGING, judged_examples(80), None)
    assert model is not None
    read = model_of(model.body)
    assert read is not None
    assert canonical_json(read.as_json()) == canonical_json(
        {name: value for name, value in json.loads(model.body).items() if name != "fitted_on"}
    )
