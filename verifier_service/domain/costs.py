"""What checks cost: what was measured, what is predicted from it, and what a submission is told."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

from verifier_service.domain.evidence import Tier
from verifier_service.domain.records import Record


class NotedAttempt(NamedTuple):
    """One attempt that has ended, as the cost model learns from it.

    ``method`` is the digest of verifier, version, libraries and parameters; ``size`` that of its item (see
    ``Verifier.size``); ``found`` whether it ended with a finding.
    """

    verifier: str
    method: str
    size: float
    cpu_s: float
    found: bool


class LearnedCost(NamedTuple):
    """What was learned of one method, as documents that only the cost model reads: ``fit`` is what a
    prediction needs, ``attempts`` what the next fit needs."""

    fit: str
    attempts: str


class PredictedCost(NamedTuple):
    """CPU seconds of one check: ``median_s`` of an attempt that finds something, ``log_sd`` of its natural
    logarithm, and the factor ``retries`` by which attempts that find nothing add to it (at least 1)."""

    median_s: float
    log_sd: float
    retries: float

    @property
    def cpu_s(self) -> float:
        """What to expect of a check, its retries among it."""
        return self.median_s * self.retries

    def upper(self, quantile: float = 0.95) -> float:
        """CPU seconds that one attempt does not exceed with this probability, as far as the logarithm is
        normal."""
        return self.median_s * math.exp(NormalDist().inv_cdf(quantile) * self.log_sd)


class ExpectedCost(Record):
    """What the checks of a trajectory would cost by present predictions, in credits.

    ``tiers``: the checks of each tier of its ladder. ``credits``: all of them up to the ladder's truth.
    What is bought is decided later, and what is known already is not bought again.
    """

    credits: float
    tiers: dict[Tier, float] = {}
