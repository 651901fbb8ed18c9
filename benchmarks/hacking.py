"""Injected reward hacking: how soon the watch notices, how seldom it cries wolf, what rewards are worth.

    python -m benchmarks.hacking --data DIR [--streams 200] [--jobs 1] [--seed 0] [--only gap]

Streams of 2,000 candidates, resampled from a table with a cheap and a dear value each, come in rounds of
48. From candidate 500 the cheap value of 40 % of them is one standard deviation of the truth too high.
Beliefs are refitted before each round on what audits found; nothing but audits buys the truth, beside 30
warm labels. Every stream is also run without the injection, with the same draws.

Alarms are counted twice: on errors of the newest belief among its own held-out errors, as the service does,
and on errors as they were drawn, blurred.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.escalation.ladders import band_gaps, cofs
from scheduler.chain import Chain, fit_chain
from scheduler.corrections import corrected_means, doubly_robust, shrunken_bias
from scheduler.observations import Booleans, Declared, Floats, Observations
from scheduler.watch import Watch

CANDIDATES, INJECTED_AT, INJECTED_SHARE, SHIFT = 2000, 500, 0.4, 1.0
ROUND, WARM, FITTED_ON, WITHIN = 48, 30, 600, 250
TOP_SHARE, TOP_OF = 0.3, 300
WINDOW = 500  # candidates whose rewards are corrected together


@dataclass(frozen=True, slots=True)
class Protocol:
    """Share of candidates audited, and whether half of that goes to the top 30 % by score."""

    name: str
    share: float
    half_top: bool

    def propensity(self, score: Floats, earlier: Floats) -> Floats:
        """Chance of an audit per candidate (n,), given the scores of those before."""
        if not self.half_top or not len(earlier):
            return np.full(len(score), self.share)
        top = score > np.quantile(earlier[-TOP_OF:], 1.0 - TOP_SHARE)
        return self.share / 2 + np.where(top, self.share / 2 / TOP_SHARE, 0.0)


PROTOCOLS = (Protocol("10% half-top", 0.1, True), Protocol("20% uniform", 0.2, False))


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """n candidates: features (n, p), a cheap value and the truth (n,)."""

    name: str
    x: Floats
    cheap: Floats
    truth: Floats


@dataclass(frozen=True, slots=True)
class Outcome:
    """One stream. ``alarms``: when; ``drawn``: the same on errors as they were drawn. ``biases`` and
    ``errors`` in standard deviations of the truth."""

    alarms: list[int]
    drawn: list[int]
    biases: list[float]
    covered: list[bool]
    errors: list[float]


def tables(folder: Path) -> list[Table]:
    """Frameworks, crystals (PBE to experiment), and a table of normal numbers with r = 0.9."""
    rng = np.random.default_rng(7)
    truth = rng.standard_normal(1000)
    cheap = 0.9 * truth + np.sqrt(1 - 0.81) * rng.standard_normal(1000)
    cof, gap = cofs(folder), band_gaps(folder)
    return [
        Table("COF", np.zeros((len(cof.y), 0)), cof.y[:, 0], cof.truth),
        Table("gap", gap.x, gap.y[:, 0], gap.truth),
        Table("synthetic", np.zeros((1000, 0)), cheap, truth),
    ]


@dataclass(slots=True)
class Stream:
    """Everything about the candidates of one stream, in order of arrival; nan and False until known."""

    x: Floats
    cheap: Floats
    truth: Floats
    mean: Floats
    sd: Floats
    propensity: Floats
    audited: Booleans

    @classmethod
    def drawn(cls, table: Table, injected: bool, rng: np.random.Generator) -> Stream:
        """Warm candidates come first."""
        n = WARM + CANDIDATES
        rows = rng.integers(0, len(table.truth), n)
        cheap = table.cheap[rows].copy()
        hacked = rng.random(n) < INJECTED_SHARE
        hacked[: WARM + INJECTED_AT] = False
        cheap += SHIFT * table.truth.std() * (hacked & injected)
        audited = np.arange(n) < WARM
        empty = np.full(n, np.nan)
        propensity = np.where(audited, 1.0, np.nan)
        return cls(table.x[rows], cheap, table.truth[rows], empty, empty.copy(), propensity, audited)

    def fitted(self, begin: int, declared: Declared) -> tuple[Chain, dict[int, float]]:
        """A chain of the latest 600 truths that were bought, and its held-out errors."""
        seen = np.flatnonzero(self.audited[:begin])[-FITTED_ON:]
        y = np.column_stack([self.cheap[seen], self.truth[seen]])
        known = Observations.of(self.x[seen], y, propensity=self.propensity[seen], key=seen)
        chain, steps = fit_chain(known, declared, noise=0.0, seed=0)
        held_out = steps[(0,)]
        errors = held_out.prediction - held_out.truth
        return chain, dict(zip(held_out.key.tolist(), errors.tolist(), strict=True))

    def believe(self, chain: Chain, begin: int, end: int) -> None:
        """Beliefs about the candidates of a round."""
        cheap = np.column_stack([self.cheap[begin:end], np.full(end - begin, np.nan)])
        belief = chain.believe(self.x[begin:end], cheap)
        self.mean[begin:end], self.sd[begin:end] = belief.mean, np.sqrt(belief.variance)

    def after(self, first: int) -> Stream:
        """Without those before."""
        return Stream(*(getattr(self, name)[first:] for name in self.__slots__))


def run(
    table: Table, protocol: Protocol, seed: int, injected: bool = True, frozen: bool = False
) -> Outcome:
    """One stream from beginning to end. ``frozen``: beliefs are not refitted after candidate 500."""
    rng = np.random.default_rng((seed, len(table.truth)))
    stream = Stream.drawn(table, injected, rng)
    lots = rng.random(len(stream.truth))
    centre, width = float(table.truth.mean()), float(table.truth.std())
    declared = Declared.wide(2, mean=centre, sigma=width)
    watches = Watch(1000 * protocol.share), Watch(1000 * protocol.share)
    alarms: tuple[list[int], list[int]] = ([], [])
    for begin in range(WARM, len(stream.truth), ROUND):
        end = min(begin + ROUND, len(stream.truth))
        if not frozen or begin < WARM + INJECTED_AT:
            chain, held_out = stream.fitted(begin, declared)
            restated = {f"{seed} {at}": error / width for at, error in held_out.items()}
        stream.believe(chain, begin, end)
        score = stream.mean[begin:end]
        stream.propensity[begin:end] = protocol.propensity(score, stream.mean[WARM:begin])
        stream.audited[begin:end] = lots[begin:end] < stream.propensity[begin:end]
        thirds = thirds_of(score, centre, width)
        for at in begin + np.flatnonzero(stream.audited[begin:end]):
            error = float(stream.mean[at] - stream.truth[at]) / width
            for watch, seen, among in zip(watches, alarms, (restated, None), strict=True):
                if watch.saw(f"cheap 1|{thirds[at - begin]}", error, f"{seed} {at}", among) is not None:
                    seen.append(int(at) - WARM)
    after = stream.after(WARM)
    return Outcome(*alarms, _biases(after, centre, width), *_strata(after, centre, width))


def thirds_of(score: Floats, centre: float, width: float) -> list[int]:
    """Bin of each score: in thirds of the reward, a ramp over three standard deviations of the truth."""
    reward = np.clip((score - centre) / (3.0 * width) + 0.5, 0.0, 1.0 - 1e-9)
    return [int(value) for value in reward * 3]


def _biases(stream: Stream, centre: float, width: float) -> list[float]:
    """Mean reward - mean truth of the 500 candidates from the injection on: the belief, the naive mix, the
    shrunken reward by the audits of these candidates, and the doubly robust one."""
    rows = slice(INJECTED_AT, INJECTED_AT + WINDOW)
    m, y, pi, a = (getattr(stream, k)[rows] for k in ("mean", "truth", "propensity", "audited"))
    strata = [str(third) for third in thirds_of(m, centre, width)]
    shift = shrunken_bias(strata, np.where(a, y - m, np.nan), 1.0 / pi)
    corrected = np.where(a, y, m + np.array([shift[name].mean for name in strata]))
    rewards = (m, np.where(a, y, m), corrected, doubly_robust(m, y, pi, a))
    return [float((reward - y).mean()) / width for reward in rewards]


def _strata(stream: Stream, centre: float, width: float) -> tuple[list[bool], list[float]]:
    """Per third of the score over the whole stream: whether two standard errors of the mean of reward_dr
    cover the mean truth, and the standard error."""
    strata = [str(third) for third in thirds_of(stream.mean, centre, width)]
    means = corrected_means(strata, stream.mean, stream.truth, stream.propensity, stream.audited)
    covered = []
    for name, one in means.items():
        truth = float(stream.truth[np.array(strata) == name].mean())
        covered.append(bool(abs(one.mean - truth) <= 2 * one.se))
    return covered, [one.se / width for one in means.values()]


Triple = tuple[Outcome, Outcome, Outcome]


def _three(table: Table, protocol: Protocol, seed: int) -> Triple:
    """Injected; injected into beliefs that are no more refitted; undisturbed."""
    hacked = run(table, protocol, seed), run(table, protocol, seed, frozen=True)
    return *hacked, run(table, protocol, seed, injected=False)


def line(table: Table, protocol: Protocol, found: Sequence[Triple]) -> str:
    """A row of the table, with standard errors over streams."""
    hacked, frozen, quiet = zip(*found, strict=True)
    covered = [value for one in hacked for value in one.covered]
    errors = [value for one in hacked for value in one.errors]
    first = [min([at - INJECTED_AT for at in one.alarms if at >= INJECTED_AT] or [9999]) for one in hacked]
    biases, still = (np.array([one.biases for one in some]) for some in (hacked, frozen))
    ratios = [abs(some[:, 2].mean() / some[:, 1].mean()) for some in (biases, still)]
    cells = [
        *(table.name, protocol.name),
        *(_soon([one.alarms for one in hacked]), f"{np.median(first):.0f}"),
        _null([one.alarms for one in quiet]),
        _soon([one.drawn for one in hacked]),
        _null([one.drawn for one in quiet]),
        *(*(_mean(biases[:, k]) for k in range(4)), f"{ratios[0]:.2f}"),
        *(_mean(still[:, 1]), _mean(still[:, 2]), f"{ratios[1]:.2f}"),
        *(f"{100 * np.mean(covered):.1f}", f"{np.nanmedian(errors):.3f}"),
    ]
    return "| " + " | ".join(cells) + " |"


def _soon(alarms: Sequence[list[int]]) -> str:
    p = float(np.mean([any(0 <= at - INJECTED_AT < WITHIN for at in one) for one in alarms]))
    return f"{100 * p:.1f} ± {100 * (p * (1 - p) / len(alarms)) ** 0.5:.1f}"


def _null(alarms: Sequence[list[int]]) -> str:
    rates = np.array([len(one) * 1000 / CANDIDATES for one in alarms])
    return f"{100 * rates.mean():.1f} ± {100 * rates.std(ddof=1) / len(rates) ** 0.5:.1f}"


def _mean(values: Floats) -> str:
    return f"{values.mean():+.3f} ± {values.std(ddof=1) / len(values) ** 0.5:.3f}"


HEAD = "data|audits|alarm within 250, %|delay|null per 1,000, %|errors as drawn: alarm, %|null, %"
HEAD += "|bias of belief|naive mix|shrunken|reward_dr|ratio|frozen belief: naive mix|shrunken|ratio"
HEAD += "|strata within 2 s.e., %|median s.e."


def main(arguments: Iterable[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.hacking", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data")
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", default=["COF", "gap", "synthetic"], help="tables")
    given = parser.parse_args(list(arguments))
    print(f"| {HEAD.replace('|', ' | ')} |\n{'|---' * len(HEAD.split('|'))}|", flush=True)
    seeds = range(given.seed, given.seed + given.streams)
    with ProcessPoolExecutor(given.jobs) as pool:
        for protocol in PROTOCOLS:
            for table in (one for one in tables(given.data) if one.name in given.only):
                found = list(pool.map(partial(_three, table, protocol), seeds))
                print(line(table, protocol, found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
