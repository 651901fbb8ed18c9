"""The figures of the page *Trust*: what was believed against what was found, and how people agree."""

from __future__ import annotations

import math
from collections.abc import Sequence

from verifier_service.dashboard import plots
from verifier_service.dashboard.plots import Spot, number
from verifier_service.dashboard.run_figures import Figure
from verifier_service.domain.digests import version_of
from verifier_service.domain.insight import PairCalibration, PayAndMerit, Rise, RunCalibration
from verifier_service.domain.models import RaisedAlarm
from verifier_service.domain.reviewer_error import Agreement

Z = 1.96  # standard errors to each side: 95 %
MOST_ROWS = 30
THIRDS = ("lowest", "middle", "highest")


def pairs_of(found: RunCalibration, ladder: str) -> list[PairCalibration]:
    """The pairs of one ladder, or of all where none is named; bounded."""
    return [pair for pair in found.pairs if not ladder or pair.ladder == ladder][:MOST_ROWS]


def pair_title(pair: PairCalibration) -> str:
    """What foretold what, on which ladder."""
    return f"{pair.ladder}: {_tier(pair.level)} foretells {_tier(pair.truth)}, by {_build(pair)}"


def bias(pairs: Sequence[PairCalibration]) -> Figure:
    """Mean error of the beliefs, with its interval, by pair and build."""
    heads = ("pair", "ladder", "from", "to", "build", "n", "audits", "bias", "± se", "rmse", "audits alone")
    rows = tuple(
        (
            f"{place}",
            pair.ladder,
            _tier(pair.level),
            _tier(pair.truth),
            _build(pair),
            f"{pair.n:,}",
            f"{pair.audits:,}",
            number(pair.bias),
            _maybe(pair.bias_se),
            number(pair.rmse),
            _maybe(pair.audit_bias),
        )
        for place, pair in enumerate(pairs, 1)
    )
    if not pairs:
        return Figure("Nothing that was believed has been compared with a truth yet.", None)
    about = (
        "Believed minus found, in units of the outcome: right of 0, beliefs were too high. Bars: 95 %. "
        "Not all were drawn by lot: those chosen because they were uncertain look worse than the average."
    )
    drawn = [
        (
            _short(place, pair),
            pair.bias,
            pair.bias - Z * (pair.bias_se or 0.0),
            pair.bias + Z * (pair.bias_se or 0.0),
        )
        for place, pair in enumerate(pairs, 1)
    ]
    return Figure(
        about, plots.whiskers("Bias by pair of tiers and build", about, drawn, "bias"), heads, rows
    )


def coverage(pairs: Sequence[PairCalibration], nominal: float) -> Figure:
    """The share of intervals that held the outcome, with its own interval, against what they promise."""
    if not pairs:
        return Figure("There is nothing to count yet.", None)
    ranges = [_wilson(pair.coverage, pair.n) for pair in pairs]
    about = (
        f"How many of the {nominal * 100:.0f} % intervals held what was found; the dashed line is what "
        "they promise. Bars: 95 %."
    )
    drawn = [
        (_short(place, pair), pair.coverage, low, high)
        for place, (pair, (low, high)) in enumerate(zip(pairs, ranges, strict=True), 1)
    ]
    rows = tuple(
        (_short(place, pair), f"{pair.n:,}", number(pair.coverage), f"{number(low)} to {number(high)}")
        for place, (pair, (low, high)) in enumerate(zip(pairs, ranges, strict=True), 1)
    )
    plot = plots.whiskers(
        "Coverage by pair of tiers and build", about, drawn, "share of intervals", guide=nominal
    )
    return Figure(about, plot, ("pair", "n", "coverage", "95 % interval"), rows)


def reliability(pair: PairCalibration) -> Figure:
    """Found against believed outcomes, by tenths of what was believed."""
    found = [
        (one, one.believed, one.found)
        for one in pair.reliability
        if one.believed is not None and one.found is not None
    ]
    spots = [
        Spot(
            f"{one.n} believed to be {number(believed)}: found {number(seen)}",
            "kind-final",
            believed,
            seen,
            max(0.0, seen - _at_most(seen, one.n)),
            min(1.0, seen + _at_most(seen, one.n)),
        )
        for one, believed, seen in found
    ]
    about = (
        f"{pair.n:,} outcomes, {pair.audits:,} of them drawn by lot. On the dashed line, what was found is "
        "what was believed. Bars: the widest that 95 % can be for outcomes in 0 to 1."
    )
    rows = tuple(
        (f"{one.low:.1f} to {one.high:.1f}", f"{one.n:,}", number(believed), number(seen))
        for one, believed, seen in found
    )
    plot = plots.spots(
        f"Reliability of {pair_title(pair)}",
        about,
        spots,
        x=(0.0, 1.0),
        y=(0.0, 1.0),
        labels=("believed", "found"),
        diagonal=True,
    )
    return Figure(about, plot, ("believed in", "n", "mean believed", "mean found"), rows)


def pay_words(found: PayAndMerit | None) -> str:
    """Whether later candidates deserve as much more as they are paid more, in words."""
    if found is None:
        return "Too few candidates have come to rest to compare pay with merit."
    begin = (
        f"From the first to the second half of the latest {found.candidates:,} candidates, pay changed "
        f"by {_rise(found.paid)} and merit, by {found.truths:,} truths that were drawn, "
        f"by {_rise(found.deserved)}."
    )
    if found.apart is None:
        return f"{begin} Too few truths were drawn to tell whether they go together."
    if found.apart:
        return f"{begin} They go apart: a policy may have learned to please a cheap verifier."
    return f"{begin} Pay has not risen beyond merit."


def stratum_words(alarm: RaisedAlarm) -> str:
    """A stratum as people say it."""
    level, _, rest = alarm.stratum.partition("|")
    build, _, third = rest.rpartition("|")
    if not third.isdigit() or int(third) >= len(THIRDS):
        return alarm.stratum
    return f"{level.replace('_', ' ')}, measured by {build}, {THIRDS[int(third)]} third of the outcomes"


def agreement(found: Agreement) -> Figure:
    """How often each reviewer of a queue is wrong, and how far they agree."""
    reviewers = found.reviewers[:MOST_ROWS]
    about = " ".join(
        (
            f"{found.items:,} items, {found.votes:,} votes. {_kappa(found)}",
            f"One vote is wrong with a probability of {number(found.mistaken)} "
            f"({number(found.mistaken_low)} to {number(found.mistaken_high)}).",
            *(
                f"Score {one.score}: {one.form} {number(one.value)} over {one.items}."
                for one in found.scores
            ),
            *(
                f"One measurement of {one.quantity} scatters by "
                + ("an unknown amount." if one.sigma is None else f"{number(one.sigma)} {one.unit}.")
                for one in found.measurements
            ),
        )
    )
    rows = tuple(
        (
            one.reviewer,
            f"{one.votes:,}",
            f"{one.gold_seen:,}",
            f"{one.gold_wrong:,} of {one.gold:,}",
            f"{one.overruled:,} of {one.judged:,}",
            number(one.mean),
            f"{number(one.low)} to {number(one.high)}",
        )
        for one in reviewers
    )
    drawn = [(one.reviewer, one.mean, one.low, one.high) for one in reviewers]
    heads = (
        "reviewer",
        "votes",
        "gold items given",
        "gold items wrong",
        "overruled",
        "wrong with probability",
        "90 % interval",
    )
    plot = plots.whiskers(f"How often reviewers of {found.queue} are wrong", about, drawn, "probability")
    return Figure(about, plot if drawn else None, heads, rows)


def _kappa(found: Agreement) -> str:
    if found.verdicts is None:
        return "No item was judged by two people."
    kind = found.verdicts.kind.capitalize()
    if found.verdicts.value is None:
        return f"{kind}'s kappa says nothing: all verdicts are the same."
    return f"{kind}'s kappa is {number(found.verdicts.value)} over {found.verdicts.items:,} items."


def _rise(one: Rise) -> str:
    return f"{number(one.mean)} ± {number(one.se)}"


def _maybe(value: float | None) -> str:
    return "–" if value is None else number(value)


def _tier(tier: str) -> str:
    return str(tier).replace("_", " ")


def _build(pair: PairCalibration) -> str:
    if pair.verifier is None:
        return "features"
    return pair.verifier if pair.version is None else f"{pair.verifier} {version_of(pair.version)}"


def _short(place: int, pair: PairCalibration) -> str:
    return f"{place}. {_build(pair)} to {_tier(pair.truth)}"


def _at_most(mean: float, n: int) -> float:
    """Half of a 95 % interval of a mean of outcomes in [0, 1], of variance mean (1 - mean) at most."""
    return Z * math.sqrt(max(0.0, mean * (1.0 - mean)) / n)


def _wilson(share: float, n: int) -> tuple[float, float]:
    """The interval of a share (E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209)."""
    middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / (1 + Z * Z / n)
    return max(0.0, middle - half), min(1.0, middle + half)
