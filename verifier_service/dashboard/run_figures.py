"""The figures of a run: each a plot, a table of the same numbers, and a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from verifier_service.dashboard import plots
from verifier_service.dashboard.plots import Segment, Series, counted, number
from verifier_service.domain.insight import PricePoint, RunEconomics
from verifier_service.domain.listings import RewardDistribution, RunSpending
from verifier_service.domain.runs import RunReport, TierCount

STATES = ("held", "queued", "running", "waiting_external", "succeeded", "failed", "cancelled")
WORDS = {"waiting_external": "waiting for people", "succeeded": "verified"}


class Figure(NamedTuple):
    """``plot`` is null where there is nothing to plot; then ``about`` says so."""

    about: str
    plot: Markup | None
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    legend: tuple[tuple[str, str], ...] = ()


def flow(report: RunReport) -> Figure:
    """Checks of each tier by state."""
    rows = [(tier.tier.value.replace("_", " "), _states(tier)) for tier in report.tiers]
    total = sum(part.value for _, parts in rows for part in parts)
    statuses = ", ".join(f"{count:,} {name}" for name, count in sorted(report.statuses.items()))
    about = f"{counted(report.trajectories, 'trajectory', 'trajectories')}: {statuses or 'none yet'}."
    seen = {part.kind for _, parts in rows for part in parts if part.value}
    return Figure(
        about=about,
        plot=plots.bars("Checks by tier and state", about, rows) if total else None,
        heads=("tier", *(WORDS.get(state, state) for state in STATES), "credits"),
        rows=tuple(
            (
                tier.tier.value.replace("_", " "),
                *(f"{getattr(tier, state):,}" for state in STATES),
                number(tier.credits),
            )
            for tier in report.tiers
        ),
        legend=tuple(
            (WORDS.get(state, state), f"kind-{state}") for state in STATES if f"kind-{state}" in seen
        ),
    )


def _states(tier: TierCount) -> list[Segment]:
    return [Segment(WORDS.get(state, state), f"kind-{state}", getattr(tier, state)) for state in STATES]


def rewards(found: RewardDistribution) -> Figure:
    """The histogram of rewards by status."""
    names = sorted({name for one in found.bins for name in one.counts})
    scored = sum(count for one in found.bins for count in one.counts.values())
    without = sum(found.statuses.values()) - scored
    about = f"With a reward: {counted(scored, 'trajectory', 'trajectories')}; without: {without:,}."
    bins = [
        (one.low, one.high, [Segment(name, f"kind-{name}", one.counts.get(name, 0)) for name in names])
        for one in found.bins
    ]
    return Figure(
        about=about,
        plot=plots.histogram("Rewards by status", about, bins, "reward") if scored else None,
        heads=("reward", *names),
        rows=tuple(
            (f"{one.low:.2f} to {one.high:.2f}", *(f"{one.counts.get(name, 0):,}" for name in names))
            for one in found.bins
        ),
        legend=tuple((name, f"kind-{name}") for name in names),
    )


def spend(found: RunSpending) -> Figure:
    """The accounts as the ledger holds them."""
    rows = []
    for one in found.accounts:
        left = 0.0 if one.limit is None else one.available
        parts = [
            Segment("spent", "kind-final", one.spent),
            Segment("reserved", "kind-provisional", one.reserved),
            Segment("left", "kind-pending", left),
        ]
        rows.append((one.kind, parts))
    about = "; ".join(
        f"{one.kind}: {number(one.spent)} credits spent, {number(one.reserved)} reserved, "
        + ("without a limit" if one.limit is None else f"of {number(one.limit)}")
        for one in found.accounts
    )
    any_ = any(part.value > 0 for _, parts in rows for part in parts)
    return Figure(
        about=f"{about}.",
        plot=plots.bars("Credits by account", about, rows) if any_ else None,
        heads=("account", "spent", "reserved", "limit"),
        rows=tuple(
            (
                one.kind,
                number(one.spent),
                number(one.reserved),
                "none" if one.limit is None else number(one.limit),
            )
            for one in found.accounts
        ),
        legend=(("spent", "kind-final"), ("reserved", "kind-provisional"), ("left", "kind-pending")),
    )


def price(found: RunSpending) -> Figure:
    """What a credit had to buy, over time."""
    priced = [(_minutes(found.points, one), one.price) for one in found.points if one.price is not None]
    if not priced:
        return Figure("The policy has not priced anything yet.", None)
    about = f"The last price is {number(priced[-1][1])}, in units of the objective per credit."
    plot = plots.lines(
        "Price of a credit over time",
        about,
        [Series("price", "kind-final", priced)],
        "minutes since the first decision",
        "price",
    )
    rows = tuple((number(at), number(value)) for at, value in priced)
    return Figure(about, plot, ("minutes", "price"), rows)


def curve(found: RunEconomics) -> Figure:
    """Expected worth against credits that were asked for."""
    points = [(0.0, 0.0), *((one.quoted, one.worth) for one in found.prices)]
    alternatives = "; ".join(
        f"everything at {one.tier.value.replace('_', ' ')}: {number(one.credits)} credits"
        for one in found.alternatives
    )
    if not found.prices or points[-1][0] <= 0:
        return Figure("Nothing above the fast tier was asked for yet.", None)
    about = f"{number(points[-1][0])} credits were asked for. {alternatives}."
    series = [Series("worth", "kind-good", points)]
    rows = tuple(
        (one.tier.value, f"{one.requests:,}", number(one.quoted), number(one.paid), number(one.worth))
        for one in found.tiers
    )
    plot = plots.lines("Expected worth against credits", about, series, "credits asked for", "worth")
    return Figure(about, plot, ("tier", "requests", "quoted", "paid", "worth"), rows)


def _minutes(points: Sequence[PricePoint], one: PricePoint) -> float:
    return (one.until - points[0].until).total_seconds() / 60
