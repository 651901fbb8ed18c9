"""Figures of a run: what is counted is counted in whole numbers, and only what occurs is in the legend."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from verifier_service.dashboard import plots, run_figures
from verifier_service.dashboard.plots import Scale, Segment
from verifier_service.domain.evidence import Tier
from verifier_service.domain.listings import RewardBin, RewardDistribution
from verifier_service.domain.runs import Run, RunReport, RunSpec, RunState, TierCount

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KIND = re.compile(r"kind-\w+")


def report(*tiers: TierCount, trajectories: int = 1) -> RunReport:
    run = Run(
        project="p",
        id="r",
        spec=RunSpec(),
        state=RunState.OPEN,
        ladder_versions={"l": 1},
        created_at=NOW,
    )
    return RunReport(
        run=run, trajectories=trajectories, statuses={"final": 1}, tiers=tiers, settled_per_tier={}
    )


def texts(drawn: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawn)


def test_the_legend_of_the_flow_names_what_occurs_each_in_its_own_colour() -> None:
    figure = run_figures.flow(report(TierCount(tier=Tier.FAST, held=2, queued=1, waiting_external=1)))
    assert [name for name, _ in figure.legend] == ["held", "queued", "waiting for people"]
    assert figure.plot is not None
    assert set(KIND.findall(figure.plot)) == {kind for _, kind in figure.legend}


def test_every_state_has_a_colour_of_its_own() -> None:
    styles = Path(run_figures.__file__).with_name("static") / "plots.css"
    rules = re.findall(r"^(\.kind-[^{]*)\{ color: ([^;]+);", styles.read_text(), re.MULTILINE)
    colours = {kind: colour for kinds, colour in rules for kind in KIND.findall(kinds)}
    seen = [colours[f"kind-{state}"] for state in run_figures.STATES]
    assert len(set(seen)) == len(run_figures.STATES)


def test_nothing_to_show_is_said() -> None:
    figure = run_figures.flow(report(TierCount(tier=Tier.FAST), trajectories=0))
    assert figure.plot is None
    assert figure.legend == ()


@pytest.mark.parametrize(
    ("count", "said"), [(1, "1 trajectory: 1 final."), (2, "2 trajectories: 1 final.")]
)
def test_one_is_singular(count: int, said: str) -> None:
    assert run_figures.flow(report(trajectories=count)).about == said


@pytest.mark.parametrize("count", [1, 3, 7, 40])
def test_counts_are_whole_on_their_axis(count: int) -> None:
    found = RewardDistribution(
        run="r",
        bins=(RewardBin(low=0.0, high=0.5), RewardBin(low=0.5, high=1.0, counts={"final": count})),
        statuses={"final": count},
        as_of=NOW,
    )
    figure = run_figures.rewards(found)
    assert figure.plot is not None
    up = re.findall(r'text-anchor="end">([^<]*)<', figure.plot)
    assert all(re.fullmatch(r"\d+", one) for one in up if one != "reward")
    assert "0" in up


def test_ticks_are_round_and_inside() -> None:
    for high in (0.003, 0.7, 1.0, 13.0, 12_000.0):
        ticks = Scale(0.0, high, 0.0, 100.0).ticks()
        assert 2 <= len(ticks) <= 2 * plots.TICKS
        assert ticks[0] == 0.0
        assert ticks[-1] <= high * (1 + 1e-9)


def test_names_in_bars_are_text() -> None:
    planted = "<script>alert(1)</script>"
    drawn = plots.bars("t", "a", [(planted, [Segment(planted, "kind-final", 1.0)])])
    assert "<script>" not in drawn
    assert texts(drawn) == ["&lt;script&gt;alert(1)&lt;/script&gt;"]
