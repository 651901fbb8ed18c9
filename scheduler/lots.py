"""Lots of the policy: which case is audited, decided by its name and the run's seed.

Half of the share is spread evenly, half over the best three tenths by outcome, where a policy that games a
verifier shows first; the edge of those is that of the cases which came to rest before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.audit import LEAST_CHANCE, AuditPlan, Candidates, uniform
from scheduler.ladder_model import model_of
from scheduler.watch import RESPONSE
from verifier_service.domain.decisions import Decision, PolicyCase, RunView

FEWEST_RESTED = 30  # cases before the top of the outcomes is known


@dataclass(frozen=True, slots=True)
class Lot:
    """The uniform number drawn for a case, and the chance that it had of an audit."""

    drawn: float
    chance: float

    @property
    def won(self) -> bool:
        """Whether it is audited."""
        return self.drawn < self.chance

    def mark(self, decision: Decision, *, straight: bool) -> Decision:
        """The decision with its draw. ``straight``: the case goes to the truth whatever was drawn, hence
        with probability 1."""
        return replace(
            decision,
            propensity=1.0 if straight else self.chance,
            draw=self.drawn,
            audited=self.won and not straight,
        )


def draw(view: RunView, case: PolicyCase, rested: Sequence[float]) -> Lot | None:
    """The lot of a case, the same number at every look until it has come to rest once; ``None`` from then
    on, and where the run has no audit. ``rested``: outcomes of cases that came to rest before. A candidate
    that a soft gate refused has the least chance, and where an alarm stands the share is doubled."""
    share = view.spec.audit_share
    if share <= 0.0 or case.propensity is not None:
        return None
    fitted = None if case.model is None else model_of(case.model.body)
    if fitted is not None and fitted.widen:
        share = min(1.0, share * RESPONSE.audit_factor)
    return Lot(uniform(view.seed, case.id, "audit"), _chance(share, case, rested))


def _chance(share: float, case: PolicyCase, rested: Sequence[float]) -> float:
    if case.soft_rejected:
        return LEAST_CHANCE
    known = rested if len(rested) >= FEWEST_RESTED and case.estimate is not None else ()
    chances = AuditPlan(share=share, aim="top").fitted(_scores(known))
    outcome = case.estimate.outcome if case.estimate is not None else 0.0
    return share if chances is None else float(chances.of(_scores([outcome]))[0])


def _scores(outcomes: Sequence[float]) -> Candidates:
    n = len(outcomes)
    return Candidates.of(outcomes, np.zeros(n), np.ones(n))


def is_believed(case: PolicyCase) -> bool:
    """Whether there is an outcome that an audit could find wrong: an estimate, or a refusal."""
    return case.estimate is not None or case.soft_rejected
