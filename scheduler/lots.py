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
        """The decision with its draw. ``straight``: the case goes to the truth whatever was drawn, hence
        with probability 1."""
        return replace(
            decision,
            propensity=1.0 if straight else self.chance,
            draw=self.drawn,
            audited=self.won and not straight,
        )


def draw(view: RunView, case: PolicyCase) -> Lot | None:
    """The lot of a case, the same at every look until it has come to rest once; ``None`` from then on, and
    where the run has no audit. A candidate that a soft gate refused has the least chance."""
    share = view.spec.audit_share
    if share <= 0.0 or case.propensity is not None:
        return None
    if case.soft_rejected:
        share = LEAST_SHARE
    elif case.model is not None and (fitted := model_of(case.model.body)) is not None and fitted.widen:
        share *= RESPONSE.audit_factor  # an alarm stands
    return Lot(Lot.number(view.seed, case.id, "audit"), min(1.0, max(LEAST_SHARE, share)))


def is_believed(case: PolicyCase) -> bool:
    """Whether there is an outcome that an audit could find wrong: an estimate, or a refusal."""
    return case.estimate is not None or case.soft_rejected
