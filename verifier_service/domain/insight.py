"""What a run's records say about its verifiers, and what its money bought."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from verifier_service.domain.evidence import Tier
from verifier_service.domain.records import Record

BINS = 10


class Foretold(NamedTuple):
    """An outcome that was believed in when the truth was asked for, and the one that was found.

    ``level`` is the tier that the belief rested on, ``verifier`` and ``version`` who had measured there.
    """

    ladder: str
    level: Tier
    truth: Tier
    verifier: str | None
    version: str | None
    outcome: float
    low: float
    high: float
    found: float
    audited: bool
    propensity: float | None


class Rested(NamedTuple):
    """A case that came to rest below the truth, or went there: the outcome that was believed, the chance of
    its reaching the truth, whether it did, and what was found if so."""

    believed: float
    propensity: float
    reached: bool
    found: float | None


class Rise(Record):
    """Change of a mean, with its standard error."""

    mean: float
    se: float


class PayAndMerit(Record):
    """The first against the second half of a run's latest candidates: how what they were paid has changed,
    and what they deserved by the truths that were drawn.

    ``apart``: pay has risen and merit by less than half of that, beyond 5 % chance, as when a policy learns
    to please a cheap verifier. Null where fewer than ten truths in either half cannot tell.
    """

    candidates: int
    truths: int
    paid: Rise
    deserved: Rise
    apart: bool | None


class ReliabilityBin(Record):
    """Candidates whose outcome was believed to lie in [``low``, ``high``)."""

    low: float
    high: float
    n: int
    believed: float | None
    found: float | None


class PairCalibration(Record):
    """How well one tier foretold another, by the verifier's build.

    ``bias`` = mean of believed - found, with its standard error; ``coverage``: share of nominal 90 %
    intervals that held the outcome. ``audits`` of the ``n`` were drawn by lot: the others were chosen
    because they were uncertain or valuable, and look worse than the average. ``audit_bias``: over the
    audits, weighted by 1 / propensity: without that choice.
    """

    ladder: str
    level: Tier
    truth: Tier
    verifier: str | None
    version: str | None
    n: int
    audits: int
    bias: float
    bias_se: float | None
    rmse: float
    coverage: float
    audit_bias: float | None = None
    reliability: tuple[ReliabilityBin, ...]


class RunCalibration(Record):
    """``GET /v1/runs/{run}/calibration``."""

    run: str
    nominal: float = 0.9
    looked_at: int
    pairs: tuple[PairCalibration, ...]
    pay_and_merit: PayAndMerit | None = None


class TierSpend(Record):
    """What decisions asked for at one tier: their number, what they were quoted at and what they were
    expected to be worth; ``paid`` is what the run was charged."""

    tier: Tier
    requests: int
    quoted: float
    worth: float
    paid: float = 0.0


class PricePoint(Record):
    """A stretch of the log: the mean price of a credit in it, and by its end the sums of what had been
    quoted, in credits, and of what that was expected to be worth, in units of the run's objective."""

    until: datetime
    price: float | None
    quoted: float
    worth: float = 0.0


class Alternative(Record):
    """What everything would have cost at one tier, at the mean quote of that tier."""

    tier: Tier
    credits: float


class RunEconomics(Record):
    """``GET /v1/runs/{run}/economics``."""

    run: str
    candidates: int
    tiers: tuple[TierSpend, ...]
    prices: tuple[PricePoint, ...]
    alternatives: tuple[Alternative, ...]


def calibration(run: str, pairs: Iterable[Foretold]) -> RunCalibration:
    """The figures of a run, by ladder, pair of tiers and build."""
    groups: dict[tuple[str, Tier, Tier, str | None, str | None], list[Foretold]] = {}
    count = 0
    for one in pairs:
        count += 1
        key = (one.ladder, one.level, one.truth, one.verifier, one.version)
        groups.setdefault(key, []).append(one)
    ordered = sorted(groups.items(), key=lambda item: tuple(str(part) for part in item[0]))
    return RunCalibration(run=run, looked_at=count, pairs=tuple(_pair(rows) for _, rows in ordered))


def _pair(rows: Sequence[Foretold]) -> PairCalibration:
    first, n = rows[0], len(rows)
    errors = [row.outcome - row.found for row in rows]
    bias = sum(errors) / n
    spread = sum((error - bias) ** 2 for error in errors) / (n - 1) if n > 1 else None
    return PairCalibration(
        ladder=first.ladder,
        level=first.level,
        truth=first.truth,
        verifier=first.verifier,
        version=first.version,
        n=n,
        audits=sum(row.audited for row in rows),
        bias=bias,
        bias_se=None if spread is None else math.sqrt(spread / n),
        rmse=math.sqrt(sum(error * error for error in errors) / n),
        coverage=sum(row.low - 1e-9 <= row.found <= row.high + 1e-9 for row in rows) / n,
        audit_bias=_audit_bias(rows),
        reliability=tuple(_bins(rows)),
    )


def _audit_bias(rows: Sequence[Foretold]) -> float | None:
    drawn = [
        (1.0 / row.propensity, row.outcome - row.found) for row in rows if row.audited and row.propensity
    ]
    weight = sum(part for part, _ in drawn)
    return sum(part * error for part, error in drawn) / weight if weight else None


def _bins(rows: Sequence[Foretold]) -> Iterable[ReliabilityBin]:
    for place in range(BINS):
        low, high = place / BINS, (place + 1) / BINS
        here = [row for row in rows if min(int(row.outcome * BINS), BINS - 1) == place]
        yield ReliabilityBin(
            low=low,
            high=high,
            n=len(here),
            believed=sum(row.outcome for row in here) / len(here) if here else None,
            found=sum(row.found for row in here) / len(here) if here else None,
        )
