"""The watch over audits: false alarms as seldom as promised, changes found."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.watch import (
    REFERENCE,
    RESPONSE,
    THRESHOLDS,
    Watch,
    rank,
    simulated_threshold,
    threshold_for,
    tie,
)
from verifier_service.domain.errors import InvalidInput

QUIET = np.random.default_rng(0).permutation(60) / 30.0 - 1.0


def feed(watch: Watch, errors: np.ndarray, stratum: str = "b 1|2", begin: int = 0) -> list[int]:
    """Numbers of the audits that raised an alarm."""
    places = range(len(errors))
    return [at for at in places if watch.saw(stratum, float(errors[at]), f"case {begin + at}") is not None]


@pytest.mark.parametrize("kind", ["normal", "cauchy", "ties", "constant"])
def test_ranks_are_uniform_and_independent_of_the_past(kind: str) -> None:
    rng = np.random.default_rng(3)
    ranks = []
    for stream in range(60):
        z = {
            "normal": rng.standard_normal(80),
            "cauchy": rng.standard_cauchy(80),
            "ties": rng.integers(0, 3, 80).astype(float),
            "constant": np.zeros(80),
        }[kind]
        earlier: list[float] = []
        for at, value in enumerate(z):
            u = rank(np.array(earlier), float(value), tie(f"{kind} {stream} {at}", "chart"))
            earlier.append(float(value))
            if at >= REFERENCE:
                ranks.append(u)
    counts = np.histogram(ranks, bins=10, range=(0, 1))[0]
    assert ((counts - len(ranks) / 10) ** 2 / (len(ranks) / 10)).sum() < 33.7  # chi^2, 9 degrees, 1e-4
    lagged = np.array(ranks).reshape(60, -1) - 0.5
    correlation = (lagged[:, 1:] * lagged[:, :-1]).mean() * 12
    assert abs(correlation) < 4 / len(ranks) ** 0.5


@pytest.mark.parametrize("heavy", [False, True])
def test_false_alarms_are_no_more_frequent_than_promised(heavy: bool) -> None:
    """300 streams of 2,000 candidates, a tenth of them audited, in three bins."""
    rng = np.random.default_rng(8 + heavy)
    alarms = 0
    for stream in range(300):
        watch = Watch(per_thousand=100)
        z = rng.standard_t(2, 200) if heavy else rng.standard_normal(200)
        bins = rng.integers(0, 3, 200)
        for at in range(200):
            alarms += watch.saw(f"build|{bins[at]}", z[at], f"{stream} {at}") is not None
    assert alarms / 600 < 0.05 + 3 * (0.05 / 600) ** 0.5
    assert alarms > 0


def test_a_verifier_that_is_pleased_by_some_is_noticed() -> None:
    rng = np.random.default_rng(4)
    noticed = 0
    for _ in range(100):
        z = rng.standard_normal(100)
        z[50:] += 3.0 * (rng.random(50) < 0.5)
        watch = Watch(per_thousand=100)
        raised = feed(watch, z)
        noticed += bool(raised) and raised[0] >= 50
    assert noticed >= 85


def test_a_change_in_one_bin_is_noticed_where_the_build_as_a_whole_shows_little() -> None:
    rng = np.random.default_rng(6)
    watch = Watch(per_thousand=1000)
    for at in range(2000):
        bin_ = "top" if at % 20 == 0 else "rest"
        hacked = at > 1000 and bin_ == "top"
        found = watch.saw(f"build|{bin_}", rng.standard_normal() + 4.0 * hacked, str(at))
        if found is not None:
            assert hacked
            assert found["audits"] < 200  # the bin's own chart
            return
    pytest.fail("no alarm")


def test_a_proxy_that_is_too_low_is_no_alarm_and_an_alarm_begins_anew() -> None:
    assert feed(Watch(), np.r_[QUIET, np.full(100, -5.0)]) == []
    watch = Watch()
    raised = feed(watch, np.r_[QUIET, np.full(100, 5.0)])
    assert len(raised) == 1  # what came after the alarm is the new reference
    found = Watch()
    feed(found, QUIET)
    seen = [found.saw("b 1|2", 5.0, str(at)) for at in range(100)]
    alarm = next(one for one in seen if one is not None)
    assert alarm["statistic"] > alarm["threshold"] > 0
    assert 60 < alarm["audits"] < 90


def test_no_alarm_while_the_reference_is_gathered() -> None:
    assert feed(Watch(1e-3), np.arange(float(REFERENCE))) == []
    assert feed(Watch(1e-3), np.arange(float(REFERENCE + 3))) != []


def test_builds_and_bins_do_not_touch_each_other() -> None:
    rng = np.random.default_rng(9)
    alone, mixed = Watch(), Watch()
    z, other = rng.standard_normal((2, 200))
    for at in range(200):
        alone.saw("a|1", z[at], str(at))
        mixed.saw("a|1", z[at], str(at))
        mixed.saw("b|1", other[at], str(at))
    charts = {name: rest for name, *rest in mixed.as_json()["charts"]}
    assert {name: rest for name, *rest in alone.as_json()["charts"]}.items() <= charts.items()


def test_continuing_from_json_equals_running_through() -> None:
    rng = np.random.default_rng(7)
    z = np.round(rng.standard_normal(1200), 1)
    z[900:] += 2.0
    through, first = Watch(150.0), Watch(150.0)
    expected = feed(through, z)
    before = feed(first, z[:700])
    second = Watch.from_json(json.loads(json.dumps(first.as_json())))
    after = [700 + at for at in feed(second, z[700:], begin=700)]
    assert before + after == expected != []
    assert second.as_json() == through.as_json()
    assert Watch.from_json({"format": "another"}).as_json() == Watch().as_json()


@settings(max_examples=30, deadline=None)
@given(errors=st.lists(st.floats(-9, 9), min_size=2, max_size=80), cut=st.integers(0, 80))
def test_going_on_from_the_middle_is_going_through(errors: list[float], cut: int) -> None:
    whole, first = Watch(0.5), Watch(0.5)
    seen = feed(whole, np.array(errors))
    before = feed(first, np.array(errors[:cut]))
    rest = Watch.from_json(json.loads(json.dumps(first.as_json())))
    later = [cut + at for at in feed(rest, np.array(errors[cut:]), begin=cut)]
    assert before + later == seen
    assert rest.as_json() == whole.as_json()


def test_a_refit_that_moves_many_equal_errors_by_a_trifle_is_no_alarm() -> None:
    """Half of the errors are equal, and grow by a thousandth at each refit."""
    rng = np.random.default_rng(11)
    alarms = 0
    for stream in range(60):
        z = rng.standard_normal(200)
        z[rng.random(200) < 0.5] = 0.0
        z += 0.001 * (np.arange(200) // 10)
        alarms += bool(feed(Watch(per_thousand=200), z, begin=1000 * stream))
    assert alarms <= 10  # 3 expected; without the blur more than half


def test_errors_are_ranked_among_what_the_same_belief_says_of_the_earlier_audits() -> None:
    """Every refit moves all errors up, the earlier ones as well: no change. A refit that moves them down
    hides a change from those who compare with errors as they were drawn."""
    rng = np.random.default_rng(13)
    drifting = rng.standard_normal(200)
    drift = 0.05 * (np.arange(200) // 5)
    assert feed(Watch(per_thousand=200), drifting + drift)
    watch = Watch(per_thousand=200)
    for at in range(200):
        restated = {f"case {place}": float(drifting[place] + drift[at]) for place in range(at)}
        assert watch.saw("b 1|2", float(drifting[at] + drift[at]), f"case {at}", restated) is None
    changed = drifting[:100] + 2.0 * (np.arange(100) >= 60)
    learnt = 2.0 * (np.arange(100) >= 60)
    assert feed(Watch(), changed - learnt) == []
    watch, raised = Watch(), []
    for at in range(100):
        restated = {f"case {place}": float(changed[place] - learnt[at]) for place in range(at)}
        found = watch.saw("b 1|2", float(changed[at] - learnt[at]), f"case {at}", restated)
        raised += [at] if found is not None else []
    assert raised
    assert raised[0] >= 60


def test_state_is_bounded() -> None:
    watch = Watch()
    for at in range(3000):
        watch.saw(f"build {at // 20}|{at % 2}", float(at % 7), str(at))
    for at in range(1000):
        watch.saw("one|1", float(at % 7), str(at))
    charts = watch.as_json()["charts"]
    assert len(charts) == 64
    assert max(len(chart[1]) for chart in charts) == 400
    assert charts[-1][3] == 1000


def test_infinite_errors_count_and_nonsense_is_left_out() -> None:
    watch = Watch()
    watch.saw("a|1", float("inf"), "x")
    json.dumps(watch.as_json(), allow_nan=False)
    before = watch.as_json()
    assert watch.saw("a|1", float("nan"), "y") is None
    assert watch.as_json() == before
    with pytest.raises(InvalidInput):
        Watch(per_thousand=0.0)


def test_the_table_of_thresholds_is_reproduced() -> None:
    audits, threshold = THRESHOLDS[2]
    assert audits == 100
    assert simulated_threshold(audits, streams=20_000, seed=2) == pytest.approx(threshold, rel=0.12)
    assert threshold_for(100) == pytest.approx(threshold)
    assert THRESHOLDS[2][1] < threshold_for(150) < THRESHOLDS[3][1]
    assert threshold_for(10) == pytest.approx(10 * THRESHOLDS[0][1] / 25)


def test_an_alarm_doubles_variance_and_audits_and_stops_acceptance() -> None:
    assert (RESPONSE.variance_factor, RESPONSE.audit_factor) == (2.0, 2.0)
