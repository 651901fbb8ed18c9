"""Lots of the policy: which case is audited, decided by its name and the run's seed alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from scheduler.learned import model_of
from scheduler.watch import RESPONSE
from verifier_service.domain.decisions import Decision, PolicyCase, RunView

LEAST_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Lot:
    """The uniform number drawn for a case, and the chance that it had of an audit."""

    drawn: float
    chance: float

    @property
    def won(self) -> bool:
        """Whether it is audited."""
        return self.drawn < self.chance

    @staticmethod
    def number(seed: int, case: str, purpose: str) -> float:
        """The uniform number in [0, 1) of a case: from a hash, so that it depends on nothing else."""
        text = "\0".join((str(seed), case, purpose)).encode("utf-8", "surrogatepass")
        word = hashlib.blake2b(text, digest_size=8).digest()
        return (int.from_bytes(word, "big") >> 11) / 2.0**53

    def mark(self, decision: Decision, *, straight: bool) -> Decision:
        """The decision with its draw. ``straight``: it goes to the truth whatever was drawn, hence with
        probability 1."""
        return replace(
            decision,
            propensity=1.0 if straight else self.chance,
            draw=self.drawn,
            audited=self.won and not straight,
        )


def draw(view: RunView, case: PolicyCase) -> Lot | None:
    """The lot of a case that the policy sees for the first time; ``None`` where the run has no audit."""
    share = view.spec.audit_share
    if share <= 0.0 or not case.first:
        return None
    if case.model is not None and (fitted := model_of(case.model.body)) is not None and fitted.widen:
        share *= RESPONSE.audit_factor  # an alarm stands
    return Lot(Lot.number(view.seed, case.id, "audit"), min(1.0, max(LEAST_SHARE, share)))
