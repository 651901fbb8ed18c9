"""From readings to values: means of replicates, and how much they may be wrong.

The mean of n independent readings has the standard error s / sqrt(n), with s the experimental standard
deviation (n - 1 in its denominator): JCGM 100:2008, "Guide to the expression of uncertainty in
measurement", 4.2.3. Where the readings come with a sigma of their own, the mean has at least
sqrt(sum of sigma^2) / n (ibid., 5.1.2). Where controls of the assay scatter, their pooled standard
deviation over sqrt(n) is a third estimate (pooled over groups of one role: NIST/SEMATECH e-Handbook of
Statistical Methods, 7.3.1). The largest of those that are known is kept: two replicates that agree by
chance must not look exact.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

LEAST_SIGMA = 1e-12


def mean_of(values: Sequence[float]) -> float:
    """Arithmetic mean of at least one value."""
    return math.fsum(values) / len(values)


def sigma_of(
    values: Sequence[float], sigmas: Sequence[float | None], assay: float | None = None
) -> float | None:
    """Standard deviation of the mean of ``values``, by the largest of what is known; ``None`` where nothing
    is, or all that is known is zero. ``assay`` is the standard deviation of one reading."""
    count = len(values)
    found: list[float] = []
    if count > 1:
        mean = mean_of(values)
        spread = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
        found.append(math.sqrt(spread / count))
    known = [sigma for sigma in sigmas if sigma is not None]
    if known and len(known) == count:
        found.append(math.sqrt(math.fsum(sigma * sigma for sigma in known)) / count)
    if assay is not None:
        found.append(assay / math.sqrt(count))
    largest = max(found, default=0.0)
    return largest if largest >= LEAST_SIGMA else None


def assay_noise(groups: Mapping[str, Collection[float]]) -> float | None:
    """Pooled standard deviation of one reading over groups of controls that should read alike.

    ``None`` unless one group has at least two. Differences between groups do not count.
    """
    freedom, squares = 0, []
    for values in groups.values():
        if len(values) > 1:
            mean = mean_of(list(values))
            squares += [(value - mean) ** 2 for value in values]
            freedom += len(values) - 1
    return math.sqrt(math.fsum(squares) / freedom) if freedom else None
