"""Alarms on audits: has a verifier drifted, or has the policy that is trained learnt to please it?

Per stratum a Shiryaev-Roberts chart (Shiryaev 1963; Roberts 1966, Technometrics 8, 411) over sequential
ranks (Gordon and Pollak 1995, Annals of Statistics 23, 1477). A rank among all earlier ones, with ties
broken at random, is uniform and independent of the others while nothing changes, whatever the errors are
distributed like. So the threshold comes from simulated uniform numbers and fits every verifier.

Errors of beliefs that are refitted are not exchangeable as they were drawn: a refit moves many of them at
once, and where many candidates have the same error (metals whose gap is 0, say) past all the earlier ones.
Hence an error is ranked among what the same belief would have said of the earlier audits, had it not seen
their truths. It also shows more: beliefs that learn to trust a verifier less no longer look as if they
had got better. Where that is not known, errors stand as they were drawn, each blurred by a quarter of the
spread of the reference, so that trifles do not change ranks.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from verifier_service.domain.errors import InvalidInput

FORMAT = "watch/4"
REFERENCE = 30  # audits of a stratum before its chart starts
REMEMBERED = 400  # errors that a new one is ranked among
BLUR = 0.25  # of the spread of the reference, as a standard deviation, where it is needed
MOST_CHARTS = 64  # the ones that were fed longest ago are forgotten
NULL_RATE = 0.05  # false alarms per 1,000 candidates
POOLED = "*"
POOLED_WEIGHT, BIN_WEIGHT = 0.8, 0.2  # how the null rate is shared out: all bins of a build, and each

# What may have happened: a share of the candidates has errors that are the largest of about k.
# Density of the rank u: 1 - share + share k u^(k - 1).
CHANGES = ((0.5, 3.0), (0.5, 8.0), (0.3, 20.0))

# Audits per 1,000 candidates, and the threshold at which 5 % of such spans see a false alarm
# (`simulated_threshold(audits, streams=100_000, seed=1)`).
THRESHOLDS: tuple[tuple[int, float], ...] = (
    (25, 234.6),
    (50, 539.2),
    (100, 1187.4),
    (200, 2517.5),
    (400, 5209.4),
    (800, 10505.2),
)


class Raised(TypedDict):
    """``statistic`` exceeded ``threshold`` after ``audits`` audits since the chart was begun."""

    statistic: float
    threshold: float
    audits: int


@dataclass(frozen=True, slots=True)
class Response:
    """What an alarm changes while it stands: factor on the variance of beliefs, factor on the share of
    audits. Besides, nothing is accepted as certain on the level it concerns."""

    variance_factor: float = 2.0
    audit_factor: float = 2.0


RESPONSE = Response()


@dataclass(slots=True)
class Chart:
    """One stratum: its latest errors and the audits they are of (at most 400), a statistic per change, how
    many audits it has seen, and half the width of the blur, known when the reference is complete."""

    name: str
    recent: list[float] = field(default_factory=list)
    statistics: list[float] = field(default_factory=lambda: [0.0] * len(CHANGES))
    audits: int = 0
    blur: float = 0.0
    keys: list[str] = field(default_factory=list)
    ties: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.ties = [tie(key, self.name) for key in self.keys]

    def saw(
        self, z: float, key: str, restated: Mapping[str, float] | None = None, least_blur: float = 0.0
    ) -> float:
        """The statistic after one more error; 0 while the reference is gathered."""
        self.audits += 1
        drawn = tie(key, self.name)
        statistic = 0.0
        if self.audits > REFERENCE:
            u = self._rank(z, drawn, restated)
            for place, (share, k) in enumerate(CHANGES):
                self.statistics[place] = (self.statistics[place] + 1.0) * _ratio(u, share, k)
            statistic = sum(self.statistics) / len(CHANGES)
        self.recent = [*self.recent, z][-REMEMBERED:]
        self.keys = [*self.keys, key][-REMEMBERED:]
        self.ties = [*self.ties, drawn][-REMEMBERED:]
        if self.audits == REFERENCE:
            self._measure(least_blur)
        return statistic

    def as_json(self) -> list[Any]:
        """Its parts in the order of the fields."""
        return [self.recent, self.statistics, self.audits, self.blur, self.keys]

    def _rank(self, z: float, drawn: float, restated: Mapping[str, float] | None) -> float:
        if restated is not None:
            earlier = [restated.get(key, error) for key, error in zip(self.keys, self.recent, strict=True)]
            return rank(np.array(earlier), z, drawn)
        blurred = np.array(self.recent) + self.blur * (2.0 * np.array(self.ties) - 1.0)
        return rank(blurred, z + self.blur * (2.0 * drawn - 1.0), drawn)

    def _measure(self, least_blur: float) -> None:
        """From the first to the ninth decile are 2.56 standard deviations of normal errors; a uniform
        number in (-1, 1) has the standard deviation 1 / sqrt 3."""
        low, high = np.quantile(self.recent, (0.1, 0.9))
        self.blur = max(least_blur, BLUR * 3.0**0.5 * float(high / 2.56 - low / 2.56))


class Watch:
    """Charts of all strata of one ladder, fed one audit at a time.

    A stratum is named ``"<build>|<bin of scores>"``. Beside each there is a chart of the build as a whole,
    which sees a change in every bin sooner; 4/5 of the false alarms are allowed to it. A new build of a
    verifier is a new stratum, hence starts anew. ``per_thousand``: audits expected per 1,000 candidates,
    which the threshold depends on; raises ``InvalidInput`` unless positive.
    """

    def __init__(self, per_thousand: float = 100.0) -> None:
        if not (math.isfinite(per_thousand) and per_thousand > 0):
            raise InvalidInput("invalid_watch", "audits per 1,000 candidates are positive")
        self.per_thousand = float(per_thousand)
        self._charts: dict[str, Chart] = {}

    def saw(
        self, stratum: str, z: float, key: str, restated: Mapping[str, float] | None = None
    ) -> Raised | None:
        """One audit: ``z`` = (believed - found) in any unit that does not change; ``key`` names the audit,
        its hash breaks ties and blurs.

        ``restated``: errors of earlier audits by their keys, as the belief whose error ``z`` is would have
        made them without their truths. Without it ``z`` and all before stand as they were drawn. Units of
        the belief's own standard deviation would show less: that grows with what is amiss.

        After an alarm the charts of the stratum and of its build begin anew, with a new reference. An
        error that is not a number is left out.
        """
        if math.isnan(z):
            return None
        error = max(-1e300, min(1e300, float(z)))  # JSON has no infinity
        raised: Raised | None = None
        charts = _charts_of(stratum)
        blur = 0.0  # of the build as a whole, which the bins' is no smaller than
        for name, weight in charts:
            chart = self._charts.pop(name, None) or Chart(name)
            self._charts[name] = chart
            statistic, threshold = chart.saw(error, key, restated, blur), self.threshold / weight
            blur = chart.blur
            if statistic > threshold and raised is None:
                raised = Raised(statistic=statistic, threshold=threshold, audits=chart.audits)
        if raised is not None:
            for name, _ in charts:
                self._charts[name] = Chart(name)
        while len(self._charts) > MOST_CHARTS:
            del self._charts[next(iter(self._charts))]
        return raised

    @property
    def threshold(self) -> float:
        """Of a single chart."""
        return threshold_for(self.per_thousand)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON from which the same watch is made."""
        charts = [[name, *one.as_json()] for name, one in self._charts.items()]
        return {"format": FORMAT, "per_thousand": self.per_thousand, "charts": charts}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Watch:
        """The watch that ``as_json`` wrote; a new one for another format."""
        if document.get("format") != FORMAT:
            return cls()
        watch = cls(document["per_thousand"])
        for name, recent, statistics, audits, blur, keys in document["charts"]:
            chart = Chart(name, list(recent), list(statistics), int(audits), blur, list(keys))
            watch._charts[name] = chart
        return watch


def rank(earlier: npt.NDArray[np.float64], z: float, tie: float) -> float:
    """Where z stands among earlier errors, in (0, 1): (how many are below + tie (equals + 1)) / (n + 1).

    Uniform where z and the earlier ones are exchangeable and ``tie`` is uniform.
    """
    below, equals = int((earlier < z).sum()), int((earlier == z).sum())
    return (below + tie * (equals + 1)) / (len(earlier) + 1)


def tie(key: str, chart: str) -> float:
    """The uniform number in (0, 1) of an audit in a chart, from a hash."""
    word = hashlib.blake2b(f"{chart}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return ((int.from_bytes(word, "big") >> 12) + 0.5) / 2.0**52


def threshold_for(per_thousand: float) -> float:
    """Threshold of a single chart with that many audits per 1,000 candidates: between the entries of the
    table, and beyond them, in proportion to the audits."""
    audits = [float(entry) for entry, _ in THRESHOLDS]
    per_audit = [threshold / entry for entry, threshold in THRESHOLDS]
    found = np.interp(math.log(per_thousand), np.log(audits), per_audit)
    return float(found) * per_thousand


def simulated_threshold(audits: int, *, streams: int, seed: int, null_rate: float = NULL_RATE) -> float:
    """The threshold at which a chart raises a false alarm at ``null_rate`` per ``audits`` audits.

    Quantile of the highest statistic over twice as many audits, where ranks are uniform; the chart
    starts at 0.
    """
    rng = np.random.default_rng(seed)
    statistics = np.zeros((len(CHANGES), streams))
    highest = np.zeros(streams)
    for _ in range(2 * audits):
        u = rng.random(streams)
        ratios = np.stack([_ratio(u, share, k) for share, k in CHANGES])
        statistics = (statistics + 1.0) * ratios
        np.maximum(highest, statistics.mean(axis=0), out=highest)
    return float(np.quantile(highest, (1.0 - null_rate) ** 2))


def _ratio(u: Any, share: float, k: float) -> Any:
    return 1.0 - share + share * k * u ** (k - 1.0)


def _charts_of(stratum: str) -> list[tuple[str, float]]:
    """The charts that an audit feeds, with their shares of the null rate."""
    build, mark, _ = stratum.rpartition("|")
    return [(f"{build}|{POOLED}", POOLED_WEIGHT), (stratum, BIN_WEIGHT)] if mark else [(stratum, 1.0)]
