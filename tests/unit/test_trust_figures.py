"""Figures of *Trust* and of a case: what they say where there is little or nothing to say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from verifier_service.dashboard import case_view, trust_figures
from verifier_service.dashboard.pages import ENVIRONMENT, case_path
from verifier_service.domain.decisions import LoggedDecision
from verifier_service.domain.evidence import Cost, Tier
from verifier_service.domain.insight import Foretold, PayAndMerit, Rise, calibration
from verifier_service.domain.models import RaisedAlarm
from verifier_service.domain.rewards import RewardCode, RewardReason, RewardRecord
from verifier_service.domain.states import RewardStatus

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PLANTED = "<script>alert(1)</script></svg>\"'{{ 7 * 7 }}"


def foretold(outcome: float, found: float, verifier: str | None = "v") -> Foretold:
    return Foretold(
        ladder=PLANTED,
        level=Tier.SIMULATION,
        truth=Tier.HIGH_FIDELITY,
        verifier=verifier,
        version="2+5a0c41de",
        outcome=outcome,
        low=outcome - 0.1,
        high=outcome + 0.1,
        found=found,
        audited=False,
        propensity=None,
    )


def alarm(stratum: str) -> RaisedAlarm:
    return RaisedAlarm(
        verifier="v",
        stratum=stratum,
        statistic=2.0,
        threshold=1.0,
        audits=9,
        id="a",
        ladder="l",
        ladder_version=1,
        raised_at=NOW,
    )


def record(revision: int, reward: float | None, after_s: float = 0.0) -> RewardRecord:
    return RewardRecord(
        seq=revision,
        run="r",
        trajectory="t",
        ladder="l",
        ladder_version=1,
        revision=revision,
        status=RewardStatus.UNSCORED if reward is None else RewardStatus.FINAL,
        reward=reward,
        variance=None if reward is None else 0.04,
        reason=RewardReason(code=RewardCode.REJECTED, detail="odd", message=PLANTED),
        issued_at=NOW + timedelta(seconds=after_s),
    )


def test_one_comparison_alone_makes_figures_without_an_error_of_the_bias() -> None:
    found = calibration("r", [foretold(1.0, 0.0)])
    pairs = trust_figures.pairs_of(found, "")
    bias, coverage = trust_figures.bias(pairs), trust_figures.coverage(pairs, 0.9)
    assert bias.rows[0][6:] == ("0", "1", "–", "1", "–")
    assert bias.rows[0][4] == "v 2"
    assert coverage.rows[0][1:] == ("1", "0", "0 to 0.793")
    diagram = trust_figures.reliability(pairs[0])
    assert diagram.rows == (("0.9 to 1.0", "1", "1", "0"),)
    for figure in (bias, coverage, diagram):
        assert figure.plot is not None
        assert "<script" not in figure.plot
        assert figure.plot.count("</svg>") == 1
        assert "nan" not in figure.plot


def test_nothing_compared_says_so_and_other_ladders_are_left_out() -> None:
    found = calibration("r", [foretold(0.5, 0.5)])
    assert trust_figures.pairs_of(found, "another") == []
    assert trust_figures.bias([]).plot is None
    assert trust_figures.coverage([], 0.9).plot is None


def test_what_only_features_foretold_says_so() -> None:
    [pair] = calibration("r", [foretold(0.5, 0.5, None)]).pairs
    assert trust_figures.pair_title(pair).endswith("simulation foretells high fidelity, by features")


@pytest.mark.parametrize(
    ("apart", "word"), [(None, "Too few truths"), (True, "They go apart"), (False, "not risen beyond")]
)
def test_pay_and_merit_in_words(apart: bool | None, word: str) -> None:
    found = PayAndMerit(
        candidates=40, truths=12, paid=Rise(mean=0.2, se=0.1), deserved=Rise(mean=0.0, se=0.1), apart=apart
    )
    assert word in trust_figures.pay_words(found)
    assert "0.2 ± 0.1" in trust_figures.pay_words(found)
    assert "Too few candidates" in trust_figures.pay_words(None)


@pytest.mark.parametrize(
    ("stratum", "words"),
    [
        (
            "high_fidelity|v 1 + w 2|2",
            "high fidelity, measured by v 1 + w 2, highest third of the outcomes",
        ),
        ("fast|a|b|0", "fast, measured by a|b, lowest third of the outcomes"),
        ("fast|features|9", "fast|features|9"),
        ("odd", "odd"),
    ],
)
def test_a_stratum_in_words(stratum: str, words: str) -> None:
    assert trust_figures.stratum_words(alarm(stratum)) == words


@pytest.mark.parametrize(
    ("after_s", "unit"),
    [(0.0, "seconds"), (90.0, "seconds"), (600.0, "minutes"), (90_000.0, "hours"), (9e5, "days")],
)
def test_the_timeline_of_a_reward(after_s: float, unit: str) -> None:
    records = [record(1, None), record(2, 0.25), record(3, 0.5, after_s)]
    figure = case_view.timeline(records)
    assert figure.plot is not None
    assert f"{unit} since the first record" in figure.plot
    assert figure.plot.count("<circle") == 2
    assert "<script" not in figure.plot
    assert [row[0] for row in figure.rows] == ["3", "2", "1"]
    assert figure.rows[0][3:5] == ("0.5", "0.2")
    shown = ENVIRONMENT.get_template("_figure.html").render(figure=figure, seen=None)
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "{{ 7 * 7 }}" in shown


def test_a_timeline_without_a_reward_has_rows_only() -> None:
    assert case_view.timeline([]).rows == ()
    assert case_view.timeline([record(1, None)]).plot is None


def test_decisions_and_costs_in_words() -> None:
    bare = LoggedDecision(trajectory="t", at=NOW, action="stop", code="c", reason="r")
    assert case_view.decision_words(bare) == ""
    full = bare.model_copy(
        update={
            "outcome": 0.5,
            "low": 0.25,
            "high": 0.75,
            "level": Tier.HIGH_FIDELITY,
            "model": 3,
            "cost": 2.0,
            "utility": 0.125,
            "price": 0.5,
            "propensity": 0.02,
            "draw": 0.01,
            "audited": True,
        }
    )
    assert case_view.decision_words(full) == (
        "believed outcome 0.5, 90 % within 0.25 to 0.75, resting on high fidelity (model 3); "
        "expected cost 2 credits; worth 0.125; a credit had to buy 0.5; chance of reaching the truth 0.02; "
        "drew 0.01, audited"
    )
    assert case_view.cost_words(Cost()) == "nothing measured"
    assert case_view.cost_words(Cost(cpu_s=1.5, human_s=60)) == "1.5 s CPU, 60 s of people"


def test_the_path_of_a_case_keeps_its_segments_apart() -> None:
    assert case_path(("a/b", "c/d+e:@f")) == "/ui/runs/a%2Fb/trajectories/c%2Fd%2Be%3A%40f"
    assert case_path(("a", "../x?y#z")) == "/ui/runs/a/trajectories/..%2Fx%3Fy%23z"
