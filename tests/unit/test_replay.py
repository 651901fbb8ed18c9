"""The replay of ladders: streams are paired, nothing is seen that was not bought, nothing is overspent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.escalation import table
from benchmarks.escalation.campaign import Cell, Task
from benchmarks.escalation.ladders import OWN, BadData, ReplayLadder, band_gaps, cofs, organic
from benchmarks.escalation.ledger import Ledger
from benchmarks.escalation.metrics import metrics
from benchmarks.escalation.policies import policies
from benchmarks.escalation.replay import Replay
from benchmarks.escalation.streams import PROTOCOLS, WARM, Protocol, stream
from scheduler.observations import Declared, DeclaredLine

N = 126
COST_ERRORS = ("low", "high", "mixed")
SPENDERS = ("ours (advantage)", "ours (discovery)", "EI per cost", "all rough + uncertainty")


def made(seed: int = 0) -> ReplayLadder:
    """Truth = rough + what a feature explains + noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 2))
    rough = x[:, 0] + rng.normal(0.0, 1.0, N)
    truth = rough + 0.5 * x[:, 1] + rng.normal(0.0, 0.3, N)
    costs = np.column_stack([np.full(N, 0.2), rng.lognormal(0.0, 0.4, N)])
    return ReplayLadder(
        name="made",
        about="drawn",
        unit="1",
        cost_unit="1",
        levels=("rough", "truth"),
        x=x,
        y=np.column_stack([rough, truth]),
        costs=costs,
        quoted=costs,
        declared=Declared(0.0, 2.0, (DeclaredLine(0.0, 1.0, 0.8),)),
    )


LADDER = made()
ALL = {policy.name: policy for policy in policies(LADDER.levels, LADDER.arrival)}


def play(name: str, protocol: Protocol = "free", share: float = 0.25, **how: str) -> Replay:
    return Replay(stream(LADDER, protocol, share, 5, **how), ALL[name]).run()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_has_every_row_once_and_charges_its_warm_up(protocol: Protocol) -> None:
    found = stream(LADDER, protocol, 0.25, 3)
    rows = np.concatenate([found.warm, found.rows])
    assert np.unique(rows).size == rows.size
    assert found.warm.size == (0 if protocol == "cold" else WARM)
    assert found.rows.size % 8 == 0
    assert np.concatenate(found.rounds).tolist() == list(range(found.rows.size))
    whole = 0.25 * LADDER.costs[found.rows, 1].sum()
    charged = LADDER.costs[found.warm].sum() if protocol == "charged" else 0.0
    assert found.budget == pytest.approx(max(whole - charged, 0.0))


def test_the_same_seed_is_the_same_stream_and_another_is_not() -> None:
    one, again, other = (stream(LADDER, "free", 0.1, seed).rows.tolist() for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_the_halves_share_no_row() -> None:
    tune, report = LADDER.half("tune"), LADDER.half("report")
    assert len(tune.y) + len(report.y) == N
    assert not set(tune.y[:, 1]) & set(report.y[:, 1])


@pytest.mark.parametrize("cost_error", COST_ERRORS)
@pytest.mark.parametrize("name", SPENDERS)
def test_no_policy_spends_more_than_it_has_whatever_is_quoted(name: str, cost_error: str) -> None:
    replay = play(name, "cold", cost_error=cost_error)
    assert replay.ledger.spent <= replay.stream.budget * (1 + 1e-9)
    assert metrics(replay)["overshoot"] == 0.0


@pytest.mark.parametrize("name", ["ours (advantage)", "ours (discovery)", "EI per cost"])
def test_what_was_not_bought_changes_nothing(name: str) -> None:
    """The values that a replay did not buy can be anything: it decides and believes the same."""
    replay = play(name)
    secret = np.isnan(replay.y)
    rows = replay.stream.rows
    y = LADDER.y.copy()
    y[rows] = np.where(secret, -77.0, y[rows])
    again = Replay(replace(replay.stream, ladder=replace(LADDER, y=y)), ALL[name]).run()
    assert np.array_equal(again.y, replay.y, equal_nan=True)
    assert np.array_equal(again.delivered.mean, replay.delivered.mean)


def test_a_replay_is_the_same_twice() -> None:
    for name in ("ours (advantage)", "random", "oracle (advantage)"):
        one, again = play(name), play(name)
        assert np.array_equal(one.y, again.y, equal_nan=True), name
        np.testing.assert_equal(metrics(one), metrics(again))


def test_the_ceiling_knows_everything_and_the_oracle_beats_chance() -> None:
    everything = metrics(play("all truth"))
    assert everything["advantage_r"] == pytest.approx(1.0)
    assert (everything["rmse"], everything["recall"], everything["regret"]) == (0.0, 1.0, 0.0)
    chance, best = (metrics(play(name))["advantage_r"] for name in ("random", "oracle (advantage)"))
    assert best > chance + 0.02


def test_ours_is_better_than_chance_at_what_each_objective_is_for() -> None:
    """Over several streams, because one can be lucky."""

    def mean(name: str, metric: str) -> float:
        played = (Replay(stream(LADDER, "free", 0.25, seed), ALL[name]).run() for seed in range(4))
        return float(np.mean([metrics(replay)[metric] for replay in played]))

    assert mean("ours (advantage)", "advantage_r") > mean("random", "advantage_r") + 0.01
    assert mean("ours (discovery)", "recall") > mean("random", "recall") + 0.03
    assert mean("ours (value)", "rmse") < mean("random", "rmse") - 0.01


def test_a_ledger_stops_what_has_used_up_its_reservation() -> None:
    ledger = Ledger(10.0, 1)
    assert ledger.buy(0, 1.0, 2.9) is True
    assert ledger.spent == 2.9
    assert ledger.buy(0, 1.0, 50.0) is False, "stopped at its reservation, and paid for"
    assert ledger.stopped == 1
    assert ledger.spent <= 10.0
    assert ledger.buy(0, 100.0, 1.0) is None, "its reservation does not fit"
    assert ledger.overshoot == 0.0


def test_the_table_names_the_best_baseline_and_pairs_seeds() -> None:
    def cell(policy: str, kind: str, seed: int, r: float) -> Cell:
        return Cell(Task("made", "free", 0.1, seed), policy, kind, {"advantage_r": r})

    cells = [
        cell(name, kind, seed, base + seed / 10)
        for seed in range(4)
        for name, kind, base in (
            ("ours (advantage)", "ours", 0.52),
            ("good", "baseline", 0.50),
            ("bad", "baseline", 0.30),
            ("oracle (advantage)", "oracle", 0.6),
        )
    ]
    [found] = table.compare(("made", "free", 0.1), cells)
    assert (found.baseline, found.verdict) == ("good", "ours")
    assert found.difference == pytest.approx(0.02)
    assert found.error == pytest.approx(0.0, abs=1e-9)
    assert "| made | free | 10% | advantage_r |" in table.summary(cells)


def test_our_own_ladder_is_long_enough() -> None:
    ladder = organic(OWN)
    assert len(ladder.y) >= 250
    assert (ladder.costs > 0).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is missing"),
        ("h\n1,2\n", "2 columns, expected 16"),
        ("h\n" + ",".join(["x"] * 16) + "\n", "line 2"),
        ("h\n" + ",".join(["1"] * 15 + ["nan"]) + "\n", "finite"),
        ("h\n" + ",".join(["1"] * 14 + ["-1", "1"]) + "\n", "positive"),
    ],
)
def test_data_that_cannot_be_replayed_say_why(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "cofs").mkdir()
        (tmp_path / "cofs" / "cofs.csv").write_text(content)
    with pytest.raises(BadData, match=message):
        cofs(tmp_path)
    with pytest.raises(BadData, match="all_datapairs"):
        band_gaps(tmp_path)
