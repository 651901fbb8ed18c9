"""How far reviewers agree: pure formulas over who said what of which item.

Kappas correct the observed agreement for what chance alone would give; both are undefined where everybody
always says the same. Intraclass correlations compare the spread between items with the spread within them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

TINY = 1e-12


def cohen_kappa(first: Sequence[str], second: Sequence[str]) -> float | None:
    """kappa = (p_o - p_e) / (1 - p_e) of two raters over the same items (J. Cohen, Educ. Psychol. Meas.
    1960, 20, 37); ``None`` without items, or where chance agreement is 1."""
    n = len(first)
    if n == 0 or n != len(second):
        return None
    observed = sum(a == b for a, b in zip(first, second, strict=True)) / n
    one, two = Counter(first), Counter(second)
    chance = sum(one[label] * two[label] for label in one) / (n * n)
    return _corrected(observed, chance)


def fleiss_kappa(items: Sequence[Mapping[str, int]]) -> float | None:
    """kappa of many raters; each item says how often each label was given (J. L. Fleiss, Psychol. Bull.
    1971, 76, 378).

    Items with fewer than two ratings say nothing. Where their numbers differ each item's agreement counts
    once, and labels by all their ratings; with equal numbers this is the original.
    """
    rated = [item for item in items if sum(item.values()) >= 2]
    if not rated:
        return None
    agreement, labels = 0.0, Counter[str]()
    for item in rated:
        n = sum(item.values())
        agreement += sum(count * (count - 1) for count in item.values()) / (n * (n - 1))
        labels.update(item)
    total = sum(labels.values())
    chance = sum((count / total) ** 2 for count in labels.values())
    return _corrected(agreement / len(rated), chance)


def _corrected(observed: float, chance: float) -> float | None:
    return None if 1.0 - chance < TINY else (observed - chance) / (1.0 - chance)


class Correlation(NamedTuple):
    """An intraclass correlation, its form, and how many items it rests on."""

    value: float
    form: str
    items: int


def intraclass(ratings: Mapping[str, Mapping[str, float]]) -> Correlation | None:
    """Correlation of single ratings; ``ratings`` by item, then by rater.

    ICC(2,1), two-way random effects, absolute agreement, where the same raters rated every item; else
    ICC(1,1), one-way (P. E. Shrout, J. L. Fleiss, Psychol. Bull. 1979, 86, 420), with unequal numbers of
    ratings (A. Donner, Int. Stat. Rev. 1986, 54, 67). ``None`` below two items with two ratings each, or
    where nothing varies.
    """
    rated = {item: given for item, given in ratings.items() if len(given) >= 2}
    if len(rated) < 2:
        return None
    raters = {frozenset(given) for given in rated.values()}
    if len(raters) == 1:
        names = sorted(next(iter(raters)))
        return _two_way([[given[name] for name in names] for given in rated.values()])
    return _one_way([list(given.values()) for given in rated.values()])


def _two_way(table: Sequence[Sequence[float]]) -> Correlation | None:
    n, k = len(table), len(table[0])
    grand = math.fsum(map(math.fsum, table)) / (n * k)
    rows = [math.fsum(row) / k for row in table]
    columns = [math.fsum(row[j] for row in table) / n for j in range(k)]
    between = k * math.fsum((mean - grand) ** 2 for mean in rows) / (n - 1)
    judges = n * math.fsum((mean - grand) ** 2 for mean in columns) / (k - 1)
    rest = math.fsum(
        (value - rows[i] - columns[j] + grand) ** 2
        for i, row in enumerate(table)
        for j, value in enumerate(row)
    ) / ((n - 1) * (k - 1))
    whole = between + (k - 1) * rest + k * (judges - rest) / n
    return None if whole < TINY else Correlation((between - rest) / whole, "ICC(2,1)", n)


def _one_way(groups: Sequence[Sequence[float]]) -> Correlation | None:
    n, total = len(groups), sum(map(len, groups))
    grand = math.fsum(map(math.fsum, groups)) / total
    means = [math.fsum(group) / len(group) for group in groups]
    between = math.fsum(
        len(group) * (mean - grand) ** 2 for group, mean in zip(groups, means, strict=True)
    ) / (n - 1)
    within = math.fsum(
        (value - mean) ** 2 for group, mean in zip(groups, means, strict=True) for value in group
    ) / (total - n)
    size = (total - sum(len(group) ** 2 for group in groups) / total) / (n - 1)
    whole = between + (size - 1) * within
    return None if whole < TINY else Correlation((between - within) / whole, "ICC(1,1)", n)


class Rate(NamedTuple):
    """A Beta posterior of a probability: its parameters."""

    a: float
    b: float

    @property
    def mean(self) -> float:
        """E[p]."""
        return self.a / (self.a + self.b)

    def quantile(self, share: float) -> float:
        """The p below which the probability is ``share``; by bisection, to 1e-9."""
        low, high = 0.0, 1.0
        while high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if _beta_below(middle, self.a, self.b) < share else (low, middle)
        return (low + high) / 2

    def moment(self, power: int, *, of_rest: bool = False) -> float:
        """E[p^power], or E[(1 - p)^power]: a ratio of rising factorials."""
        a = self.b if of_rest else self.a
        return math.prod((a + i) / (self.a + self.b + i) for i in range(power))


# Before anything is known a vote is wrong once in twenty, with the weight of ten votes.
PRIOR = Rate(0.5, 9.5)


def posterior(wrong: int, right: int, prior: Rate = PRIOR) -> Rate:
    """The prior after ``wrong`` and ``right`` votes."""
    return Rate(prior.a + wrong, prior.b + right)


def _beta_below(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function, by its continued fraction (Press et al., Numerical Recipes,
    3rd ed., 6.4, modified Lentz)."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _beta_below(1.0 - x, b, a)
    front = a * math.log(x) + b * math.log1p(-x)
    front += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    c, d = 1.0, 1.0 / _nonzero(1.0 - (a + b) * x / (a + 1.0))
    found = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _nonzero(1.0 + term * d)
            c = _nonzero(1.0 + term / c)
            found *= c * d
        if abs(c * d - 1.0) < 1e-14:
            break
    return math.exp(front) * found / a


def _nonzero(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300
