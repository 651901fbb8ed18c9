"""The first policy: gates, thresholds on uncertainty and value, and the budget.

A case climbs to the next tier while nobody can say what it is worth, or while its outcome is both
uncertain (standard deviation at least ``min_sd``) and possibly valuable (upper end of the 90 % interval
at least ``min_upper``), or while an alarm stands on the tier that it rests on. Above the truth tier, only
cases whose outcome is at least ``lab_outcome`` go to people. Where the budget does not cover all that is
wanted, the best value per credit goes first and the rest is held, ranked. Every decision is a function of
the case alone until the budget binds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduler.ladder_model import is_doubted
from verifier_service.domain.decisions import Decision, PolicyCase, RunView, TierOption, Verdicts

FLOOR_CREDITS = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """A case that should climb, before the budget was asked."""

    case: PolicyCase
    option: TierOption
    score: float
    code: str
    reason: str

    @property
    def density(self) -> float:
        """Value per credit, counted once for every repeat of the trajectory."""
        return self.score * self.case.multiplicity / max(self.option.credits, FLOOR_CREDITS)


@dataclass(frozen=True, kw_only=True, slots=True)
class ThresholdPolicy:
    """``Policy`` by thresholds on the outcome, which lies in [0, 1]."""

    min_sd: float = 0.05
    min_upper: float = 0.2
    lab_outcome: float = 0.8

    def decide(
        self,
        view: RunView,
        cases: Sequence[PolicyCase],
    ) -> Verdicts:
        """One decision per case, in order; see the module for the rules."""
        answers: dict[int, Decision] = {}
        wishes: list[tuple[int, Wish]] = []
        for index, case in enumerate(cases):
            answer = self.wish(case)
            if isinstance(answer, Wish):
                wishes.append((index, answer))
            else:
                answers[index] = answer
        left = {"compute": view.budgets.compute, "human": view.budgets.human}
        wishes.sort(key=lambda item: (-item[1].density, item[1].case.trajectory))
        for index, wish in wishes:
            answers[index] = afford(wish, left)
        return Verdicts([answers[index] for index in range(len(cases))])

    def wish(self, case: PolicyCase) -> Wish | Decision:
        """What the case should climb to, before any budget is asked, or that it stops."""
        if case.soft_rejected and case.estimate is None:
            return stop(case, "soft_rejected", "a soft gate rejected it, and nothing was measured")
        options = [option for option in case.options if option.tier not in case.failed | case.observed]
        truth = case.ladder.spec.truth
        below = [option for option in options if option.tier.rank <= truth.rank]
        estimate = case.estimate
        if estimate is None:
            if below:
                return Wish(
                    case=case,
                    option=below[0],
                    score=0.5,
                    code="no_estimate",
                    reason=f"nothing estimates the outcome yet; {below[0].tier} can",
                )
            return stop(case, "nothing_left", "no tier is left that could estimate the outcome")
        above_estimate = [option for option in below if option.tier.rank > estimate.tier.rank]
        if above_estimate:
            return self._climb(case, above_estimate[0])
        reached = estimate.tier.rank >= truth.rank
        lab = [option for option in options if option.tier.rank > max(truth.rank, estimate.tier.rank)]
        if reached and lab and estimate.outcome >= self.lab_outcome:
            return Wish(
                case=case,
                option=lab[0],
                score=estimate.outcome,
                code="worth_a_look",
                reason=f"outcome {estimate.outcome:.2f} is worth a person's time",
            )
        if not reached:
            return stop(case, "nothing_left", "no tier is left that could improve the estimate")
        return stop(case, "truth_known", f"{truth} has measured it; outcome {estimate.outcome:.2f}")

    def _climb(self, case: PolicyCase, option: TierOption) -> Wish | Decision:
        estimate = case.estimate
        if estimate is None:
            return stop(case, "nothing_left", "no tier is left that could estimate the outcome")
        sd = math.sqrt(estimate.outcome_variance)
        found = f"outcome {estimate.outcome:.2f} +- {sd:.2f}, up to {estimate.high:.2f}"
        wish = Wish(
            case=case, option=option, score=sd * estimate.high, code="uncertain_and_valuable", reason=found
        )
        if is_doubted(case.model, estimate.tier):
            return replace(wish, code="alarm", reason=f"{found}; an alarm stands on {estimate.tier}")
        if sd < self.min_sd:
            return stop(case, "certain", f"outcome sd {sd:.3f} is below {self.min_sd}")
        if estimate.high < self.min_upper:
            return stop(
                case, "not_valuable", f"outcome is at most {estimate.high:.2f}, below {self.min_upper}"
            )
        return wish


def afford(wish: Wish, left: dict[str, float], *, rank: float | None = None) -> Decision:
    """Request it and take its price from what is left of the budgets, or hold it with a rank."""
    account, price = wish.option.account, wish.option.credits
    if price > left[account]:
        return Decision(
            trajectory=wish.case.trajectory,
            action="hold",
            tier=wish.option.tier,
            code="budget",
            reason=f"{wish.reason}; {wish.option.tier} costs about {price:.2g} credits and the {account} "
            f"budget has {left[account]:.2g} left",
            quote=price,
            rank=wish.density if rank is None else rank,
        )
    left[account] -= price
    return Decision(
        trajectory=wish.case.trajectory,
        action="request",
        tier=wish.option.tier,
        code=wish.code,
        reason=wish.reason,
        quote=price,
        priority=wish.score,
    )


def stop(
    case: PolicyCase, code: str, reason: str, *, utility: float | None = None, price: float | None = None
) -> Decision:
    """Buy nothing more for a case."""
    return Decision(
        trajectory=case.trajectory,
        action="stop",
        tier=None,
        code=code,
        reason=reason,
        utility=utility,
        price=price,
    )
