"""Audits: whatever the candidates are, chances are known, the share holds, and a replay draws the same."""

from __future__ import annotations

import itertools
import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.audit import AuditPlan, Candidates, Chances, Lots, Propensity, draw, to_truth, uniform
from scheduler.corrections import doubly_robust
from verifier_service.domain.errors import InvalidInput

ROW = st.tuples(
    st.floats(-1e6, 1e6),
    st.one_of(st.just(0.0), st.floats(0.0, 1e300)),
    st.floats(1e-300, 1e300),
    st.one_of(st.just(0.0), st.floats(0.0, 1e300)),
)
ROWS = st.lists(ROW, min_size=1, max_size=40)
AIM = st.sampled_from(["value", "top"])
SHARE = st.floats(1e-6, 1.0)
EMPTY = Candidates.of([], [], [])


def candidates(rows: list[tuple[float, float, float, float]]) -> Candidates:
    columns = np.array(rows, dtype=np.float64).reshape(len(rows), 4).T
    return Candidates.of(*columns)


def fitted(plan: AuditPlan, recent: Candidates) -> Chances:
    chances = plan.fitted(recent)
    assert chances is not None
    return chances


@given(
    rows=ROWS,
    share=SHARE,
    aim=AIM,
    even=st.floats(0, 1),
    least=st.floats(1e-6, 1.0),
    top=st.floats(1e-3, 1),
)
def test_the_share_and_the_least_chance_hold(
    rows: list[tuple[float, float, float, float]],
    share: float,
    aim: Literal["value", "top"],
    even: float,
    least: float,
    top: float,
) -> None:
    plan = AuditPlan(share=share, aim=aim, even=even, least=least, top=top)
    recent = candidates(rows)
    chance = fitted(plan, recent).of(recent)
    assert ((chance >= least * (1 - 1e-12)) & (chance <= 1)).all()
    assert chance.mean() == pytest.approx(max(share, least), rel=1e-6)


@given(rows=ROWS, others=ROWS, share=SHARE, aim=AIM, seed=st.integers(), data=st.data())
def test_a_draw_depends_on_the_candidate_alone(
    rows: list[tuple[float, float, float, float]],
    others: list[tuple[float, float, float, float]],
    share: float,
    aim: Literal["value", "top"],
    seed: int,
    data: st.DataObject,
) -> None:
    chances = fitted(AuditPlan(share=share, aim=aim), candidates(others))
    keys = [f"t{at}" for at in range(len(rows))]
    whole = draw(chances, seed, keys, candidates(rows))
    order = data.draw(st.permutations(range(len(rows))))
    part = order[: data.draw(st.integers(1, len(rows)))]
    again = draw(chances, seed, [keys[at] for at in part], candidates([rows[at] for at in part]))
    assert whole is not None
    assert again is not None
    for ours, theirs in zip(again, Lots(*(column[part] for column in whole)), strict=True):
        assert (ours == theirs).all()


@given(rows=ROWS, share=SHARE, factor=st.floats(1.0, 1e6))
def test_a_candidate_worth_more_or_cheaper_has_no_smaller_chance(
    rows: list[tuple[float, float, float, float]], share: float, factor: float
) -> None:
    chances = fitted(AuditPlan(share=share), candidates(rows))
    score, variance, cost, weight = rows[0]
    more = candidates(
        [rows[0], (score, variance * factor, cost, weight), (score, variance, cost / factor, weight)]
    )
    chance = chances.of(more)
    assert (chance[1:] >= chance[0] * (1 - 1e-9)).all()


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=8), share=st.floats(0.05, 0.6), aim=AIM, data=st.data())
def test_over_all_draws_the_mean_of_the_doubly_robust_reward_is_the_truth(
    rows: list[tuple[float, float, float, float]],
    share: float,
    aim: Literal["value", "top"],
    data: st.DataObject,
) -> None:
    population = candidates(rows)
    chance = fitted(AuditPlan(share=share, aim=aim), population).of(population)
    number = st.floats(-100, 100)
    n = len(rows)
    believed, truth = (np.array(data.draw(st.lists(number, min_size=n, max_size=n))) for _ in range(2))
    expected, total = 0.0, 0.0
    for sent in itertools.product((False, True), repeat=n):
        drawn = np.array(sent)
        probability = float(np.where(drawn, chance, 1 - chance).prod())
        reward = doubly_robust(believed, np.where(drawn, truth, np.nan), chance, drawn)
        expected += probability * float(reward.mean())
        total += probability
    assert total == pytest.approx(1.0)
    assert expected == pytest.approx(float(truth.mean()), abs=1e-8)


def test_half_of_the_audits_are_even_and_half_go_to_the_top() -> None:
    score = np.arange(1000.0)
    recent = Candidates.of(score, np.ones(1000), np.ones(1000))
    chance = fitted(AuditPlan(share=0.1, aim="top"), recent).of(recent)
    assert (score >= 700)[chance > 0.06].all()
    assert chance[:700] == pytest.approx(0.05)
    assert chance[700:] == pytest.approx(0.05 + 0.05 / 0.3)


def test_audits_by_value_follow_the_root_of_variance_per_cost() -> None:
    recent = Candidates.of(np.zeros(4), [1.0, 4.0, 16.0, 16.0], [1.0, 1.0, 1.0, 4.0])
    chance = fitted(AuditPlan(share=0.2, even=0.5), recent).of(recent) - 0.1
    assert chance / chance[0] == pytest.approx([1.0, 2.0, 4.0, 2.0])


def test_what_is_drawn_is_uniform_and_purposes_do_not_know_each_other() -> None:
    names = [f"run/{at}" for at in range(4000)]
    audit, watch = (
        np.array([uniform(7, name, purpose) for name in names]) for purpose in ("audit", "watch")
    )
    for numbers in (audit, watch):
        assert 0.0 <= numbers.min() <= numbers.max() < 1.0
        counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
        assert ((counts - 200.0) ** 2 / 200.0).sum() < 51.7  # chi^2, 19 degrees, 1e-4
    assert abs(np.corrcoef(audit, watch)[0, 1]) < 4 / math.sqrt(4000)
    assert uniform(7, "run/0", "audit") != uniform(8, "run/0", "audit")


def test_a_replay_on_another_machine_draws_what_was_drawn_here() -> None:
    assert uniform(1, "gap-00-2", "audit") == 0.06020543258534883
    assert uniform(-3, "\ud800 any text", "watch") == 0.5479669176026966


def test_as_many_are_sent_as_the_chances_say() -> None:
    recent = Candidates.of(np.arange(5000) % 97, np.arange(5000) % 13, 1.0 + np.arange(5000) % 7)
    plan = AuditPlan(share=0.1)
    lots = draw(plan.fitted(recent), 5, [f"t{at}" for at in range(5000)], recent)
    assert lots is not None
    spread = math.sqrt(float((lots.chance * (1 - lots.chance)).sum()))
    assert abs(lots.sent.sum() - 500) < 4 * spread
    assert (lots.sent == (lots.number < lots.chance)).all()


def test_without_audits_nothing_is_drawn_and_no_propensity_is_made_up() -> None:
    chances = AuditPlan(share=0.0).fitted(EMPTY)
    assert chances is None
    assert draw(chances, 1, ["a"], Candidates.of([0.0], [1.0], [1.0])) is None
    assert to_truth(None, straight=False) is None
    assert to_truth(None, straight=True) is None


def test_before_anything_is_known_everybody_has_the_same_chance() -> None:
    one = Candidates.of([3.0, 4.0], [0.0, 9.0], [1.0, 2.0])
    assert fitted(AuditPlan(share=0.1, aim="top"), EMPTY).of(one).tolist() == [0.1, 0.1]
    assert fitted(AuditPlan(share=0.001), EMPTY).of(one).tolist() == [0.02, 0.02]
    worthless = Candidates.of([1.0, 2.0], [0.0, 0.0], [1.0, 2.0])
    assert fitted(AuditPlan(share=0.1), worthless).of(one).tolist() == [0.1, 0.1]


def test_the_propensity_of_stages_is_their_product() -> None:
    lot = Propensity((0.1,))
    assert to_truth(lot, straight=False) == 0.1
    assert to_truth(lot, straight=True) == 1.0
    assert lot.then(0.5).then(0.2).total == pytest.approx(0.01)
    assert Propensity().total == 1.0
    assert Propensity((0.5,)).or_by(0.5).total == 0.75


@settings(max_examples=25, deadline=None)
@given(first=st.floats(0.05, 0.95), second=st.floats(0.05, 0.95), side=st.floats(0.05, 0.95))
def test_a_propensity_is_how_often_the_truth_is_reached(first: float, second: float, side: float) -> None:
    names = [str(at) for at in range(3000)]
    u, v, w = ([uniform(3, name, stage) for name in names] for stage in "uvw")
    reached = np.mean([a < first and b < second for a, b in zip(u, v, strict=True)])
    joined = np.mean([(a < first and b < second) or c < side for a, b, c in zip(u, v, w, strict=True)])
    way = Propensity((first,)).then(second)
    assert abs(reached - way.total) < 5 * math.sqrt(0.25 / 3000)
    assert abs(joined - way.or_by(side).total) < 5 * math.sqrt(0.25 / 3000)


@pytest.mark.parametrize(
    "columns",
    [
        ([1.0], [1.0, 2.0], [1.0]),
        ([math.nan], [1.0], [1.0]),
        ([1.0], [-1.0], [1.0]),
        ([1.0], [1.0], [0.0]),
        ([1.0], [1.0], [1.0], [-1.0]),
    ],
)
def test_nonsense_is_refused(columns: tuple[list[float], ...]) -> None:
    with pytest.raises(InvalidInput):
        Candidates.of(*columns)


def test_impossible_plans_and_chances_are_refused() -> None:
    for impossible in (
        {"share": 1.5},
        {"share": -0.1},
        {"share": 0.1, "least": 0.0},
        {"share": 0.1, "top": 0.0},
    ):
        with pytest.raises(InvalidInput):
            AuditPlan(**impossible)
    for chance in (0.0, 1.1, math.nan):
        with pytest.raises(InvalidInput):
            Propensity((chance,))
        with pytest.raises(InvalidInput):
            Propensity((0.5,)).or_by(chance)
    with pytest.raises(InvalidInput):
        draw(Chances(high=0.1), 1, ["a", "b"], Candidates.of([0.0], [1.0], [1.0]))
