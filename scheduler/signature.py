"""The signature of reward hacking: what the policy is paid rises, what it deserves does not.

Gao, Schulman and Hilton (2022, arXiv 2210.10760, fig. 1): as a policy is optimised against a proxy, the
proxy goes on rising while the true reward levels off and falls. Here two spans of candidates are compared,
with the doubly robust mean in place of the true reward, which only audits know. The watch
(``scheduler.watch``) sees a change sooner; this says whether pay and merit have come apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.corrections import doubly_robust
from scheduler.observations import Floats
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.insight import PayAndMerit, Rested, Rise

FEWEST_CASES = 4
FEWEST_AUDITS = 10  # per span, before the means of audits are taken as normal
LEVEL = 1.645  # standard errors: 5 % one-sided
MERIT_SHARE = 0.5  # of the rise in pay that merit must follow


@dataclass(frozen=True, eq=False, slots=True)
class Span:
    """Successive candidates, (n,) each: what they were paid, and what they deserved by the audits; how many
    were audited."""

    paid: Floats
    deserved: Floats
    audits: int

    @classmethod
    def of(
        cls,
        paid: npt.ArrayLike,
        found: npt.ArrayLike,
        propensity: npt.ArrayLike,
        audited: npt.ArrayLike,
    ) -> Span:
        """``paid``: believed without the candidate's own truth; ``found``: the truth, read where audited.

        What is deserved is m + b + (A / pi)(y - m - b), with b the mean error of the audits weighted by
        1 / pi (Hajek 1971): its mean is that of m + b, and where all are wrong alike its noise does not
        grow with that. ``InvalidInput`` as in ``doubly_robust``.
        """
        robust = doubly_robust(paid, found, propensity, audited)
        believed, drawn = np.asarray(paid, dtype=np.float64), np.asarray(audited, dtype=bool)
        weight = np.zeros(len(robust))
        weight[drawn] = 1.0 / np.asarray(propensity, dtype=np.float64)[drawn]
        if drawn.any():
            error = np.asarray(found, dtype=np.float64)[drawn] - believed[drawn]
            robust += float(np.average(error, weights=weight[drawn])) * (1.0 - weight)
        return cls(believed, robust, int(drawn.sum()))


@dataclass(frozen=True, slots=True)
class Signature:
    """How pay and merit changed. ``apart``: pay has risen, and merit by less than half of that, both beyond
    5 % chance; ``None`` where fewer than 10 audits in either span cannot tell."""

    paid: Rise
    deserved: Rise
    apart: bool | None


def compare(before: Span, after: Span) -> Signature:
    """What changed from one span to the next.

    Where pay and merit rise together, or nothing changes, fewer than 1 in 100 comparisons say that they
    came apart. Standard errors cover both which candidates came and which were audited. ``InvalidInput``
    for a span of fewer than two candidates.
    """
    if min(len(before.paid), len(after.paid)) < 2:
        raise InvalidInput("invalid_span", "a span has at least two candidates")
    paid = _rise(before.paid, after.paid)
    deserved = _rise(before.deserved, after.deserved)
    short = _rise(_shortfall(before), _shortfall(after))
    apart = None
    if min(before.audits, after.audits) >= FEWEST_AUDITS:
        apart = all(one.mean > LEVEL * one.se for one in (paid, short))
    return Signature(paid, deserved, apart)


def pay_and_merit(rested: Sequence[Rested]) -> PayAndMerit | None:
    """Successive cases in two halves; ``None`` for fewer than four."""
    if len(rested) < FEWEST_CASES:
        return None
    middle = len(rested) // 2
    before, after = _span(rested[:middle]), _span(rested[middle:])
    found = compare(before, after)
    return PayAndMerit(
        candidates=len(rested),
        truths=before.audits + after.audits,
        paid=found.paid,
        deserved=found.deserved,
        apart=found.apart,
    )


def _span(rested: Sequence[Rested]) -> Span:
    return Span.of(
        [one.believed for one in rested],
        [np.nan if one.found is None else one.found for one in rested],
        [one.propensity for one in rested],
        [one.reached for one in rested],
    )


def _shortfall(span: Span) -> Floats:
    """Per candidate, by how much merit fails to follow pay: the errors of both share candidates."""
    return MERIT_SHARE * span.paid - span.deserved


def _rise(before: Floats, after: Floats) -> Rise:
    variance = before.var(ddof=1) / len(before) + after.var(ddof=1) / len(after)
    return Rise(mean=float(after.mean() - before.mean()), se=float(np.sqrt(variance)))
