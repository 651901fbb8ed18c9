"""The policy: audits by lot first, then what is worth its price, within the budget and at its pace.

A run without a limit climbs by thresholds (``scheduler.policy``). Where credits are limited, what passes
them must be worth its price as well: the expected gain of each level that could be bought, in units of the
run's objective (``scheduler.gains``), against its predicted cost, greedily by density, at no less than the
price at which the budget would last (``scheduler.pacing``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from scheduler.audit import uniform
from scheduler.choice import Budgets, Choice, Verdict, choose
from scheduler.gains import Objective, edge_of
from scheduler.levels import levels_of
from scheduler.lots import Lot, draw, is_believed
from scheduler.openings import Opening, openings
from scheduler.pace import Arrival, Pace
from scheduler.pacing import FEW_ROUNDS, PRICE_SHARE, ColdStart, clearing_price
from scheduler.policy import ThresholdPolicy, Wish, afford, stop
from scheduler.pool import NONE, Pool
from verifier_service.domain.decisions import Decision, PolicyCase, RunView, Sibling, TierOption, Verdicts

ROUND = 48  # candidates whose share of the budget may be spent ahead of time
WAITING_SHARE = 0.25  # of the price: what is worth less is not kept for later
COLD_LABELS = 30
FIRST_STEPS = 0.02  # of the limit is kept for the fast tier of those who are still to come
COLD = ColdStart()
UNLIMITED = 1e300
Account = Literal["compute", "human"]
ACCOUNTS: tuple[Account, Account] = ("compute", "human")
REASONS = {
    "audit": "drawn by lot to keep the lower tiers honest",
    "cold_start": "among the first of its ladder, drawn by lot to learn from",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class EscalationPolicy:
    """``Policy``; see the module. Decides from its arguments alone."""

    thresholds: ThresholdPolicy = field(default_factory=ThresholdPolicy)

    def decide(self, view: RunView, cases: Sequence[PolicyCase]) -> Verdicts:
        """See ``ports.policy.Policy``."""
        return _Batch(view, cases, self.thresholds).decide()


class _Batch:
    """One call: the cases of one run, what may be spent, and the answers as they are found."""

    def __init__(self, view: RunView, cases: Sequence[PolicyCase], thresholds: ThresholdPolicy) -> None:
        self.view, self.cases, self.thresholds = view, cases, thresholds
        self.pace = Pace.read(view.pacing)
        self.left: dict[str, float] = {name: view.budgets.left(name) for name in ACCOUNTS}
        self.answers: dict[int, Decision] = {}
        self.lots: dict[int, Lot] = {}

    def decide(self) -> Verdicts:
        self.pace.seen += sum(case.first for case in self.cases)
        priced = self._priced()
        wishes: list[tuple[int, Wish]] = []
        for index, case in enumerate(self.cases):
            if any(index in found for found in priced.values()):
                continue
            answer = self.thresholds.wish(case)
            if isinstance(answer, Wish):
                wishes.append((index, answer))
            else:
                self.answers[index] = answer
        self._afford(wishes)
        for ladder, found in priced.items():
            alone = self._alone(found)
            for objective, part in self._objectives(found, alone):
                self._choose(ladder, part, objective)
        self._send()
        made = [self._marked(index) for index in range(len(self.cases))]
        self._rest(made)
        return Verdicts(made, self.pace.note() if self._is_paced() else None)

    def _priced(self) -> dict[str, dict[int, Opening]]:
        """By ladder, the cases whose next purchase must be worth its price."""
        rows: dict[str, list[int]] = {}
        for index, case in enumerate(self.cases):
            if self._is_limited(case) and self._may_climb(case):
                rows.setdefault(_name(case), []).append(index)
        found: dict[str, dict[int, Opening]] = {}
        for ladder, indices in sorted(rows.items()):
            cases = [self.cases[index] for index in indices]
            opened = openings(cases[0].ladder, cases)
            there = {index: one for index, one in zip(indices, opened, strict=True) if one is not None}
            if there:
                found[ladder] = there
        return found

    def _may_climb(self, case: PolicyCase) -> bool:
        """However much is left, what is certain or cannot be valuable is not bought."""
        return isinstance(self.thresholds.wish(case), Wish)

    def _is_paced(self) -> bool:
        spec = self.view.spec
        return spec.audit_share > 0 or spec.budgets.compute is not None or spec.budgets.human is not None

    def _is_limited(self, case: PolicyCase) -> bool:
        truth = case.ladder.spec.truth
        return any(
            math.isfinite(self.view.budgets.left(option.account))
            for option in case.options
            if option.tier.rank <= truth.rank
        )

    def _send(self) -> None:
        """Where a case would come to rest: audits, drawn by its name alone, are bought whatever they are
        worth; so are the first labels. What goes to the truth anyhow does so as it was decided."""
        for index, case in enumerate(self.cases):
            lot = draw(self.view, case, self.pace.rested.get(_name(case), ()))
            if lot is not None:
                self.lots[index] = lot
            option = self._truth(case)
            if option is None or self.answers[index].action == "request":
                continue
            wanted = case.audited or (lot is not None and lot.won and is_believed(case))
            code = "audit" if wanted else "cold_start" if self._explores(case, option) else None
            if code is not None:
                wish = Wish(case=case, option=option, score=1.0, code=code, reason=REASONS[code])
                self.answers[index] = afford(wish, self.left, rank=math.inf)
                self._count(code, option.credits)

    def _rest(self, made: Sequence[Decision]) -> None:
        """Note the outcomes of those that came to rest now, for the lots of those who come later."""
        found: dict[str, list[float]] = {}
        for case, decision in zip(self.cases, made, strict=True):
            if decision.propensity is not None and case.estimate is not None and not case.soft_rejected:
                found.setdefault(_name(case), []).append(case.estimate.outcome)
        for ladder, outcomes in found.items():
            self.pace.came_to_rest(ladder, outcomes)

    def _truth(self, case: PolicyCase) -> TierOption | None:
        """The option of the truth, unless it is known or cannot be had."""
        truth = case.ladder.spec.truth
        if truth in case.failed | case.observed:
            return None
        return next((one for one in case.options if one.tier is truth), None)

    def _goes(self, index: int, case: PolicyCase) -> bool:
        answer = self.answers[index]
        return answer.action == "request" and answer.tier is case.ladder.spec.truth

    def _count(self, code: str, credits: float) -> None:
        if code == "audit":
            self.pace.audit_credits += credits
        else:
            self.pace.explored += 1
            self.pace.explored_credits += credits

    def _explores(self, case: PolicyCase, option: TierOption) -> bool:
        """The first candidates of a ladder that were measured below the truth teach what that is worth."""
        limit, estimate = self.view.spec.budgets.compute, case.estimate
        if limit is None or option.account != "compute" or self.pace.explored >= COLD.top:
            return False
        if estimate is None or case.soft_rejected or estimate.tier not in levels_of(case.ladder):
            return False
        if case.model is not None and case.model.labels >= COLD_LABELS:
            return False
        if self.pace.explored_credits + option.credits > COLD.share * limit:
            return False
        return uniform(self.view.seed, case.id, "cold_start") < COLD.top / COLD.cheap

    def _afford(self, wishes: Sequence[tuple[int, Wish]]) -> None:
        for index, wish in sorted(wishes, key=lambda one: (-one[1].density, one[1].case.trajectory)):
            self.answers[index] = afford(wish, self.left)

    def _alone(self, found: Mapping[int, Opening]) -> frozenset[int]:
        """Cases without another member of their group to be compared with, so far."""
        members = Counter(self.cases[index].group for index in found)
        members.update(one.group for one in self.view.siblings)
        groups = {index: self.cases[index].group for index in found}
        return frozenset(i for i, group in groups.items() if group is None or members[group] < 2)

    def _objectives(
        self, found: Mapping[int, Opening], alone: frozenset[int]
    ) -> Iterator[tuple[Objective, dict[int, Opening]]]:
        """An advantage is relative to a group: for who has none, what counts is the reward's variance."""
        objective = self.view.spec.objective
        relative = objective not in ("value", "discovery")
        apart = {index: one for index, one in found.items() if relative and index in alone}
        together = {index: one for index, one in found.items() if index not in apart}
        if together:
            yield objective, together
        if apart:
            yield "value", apart

    def _choose(self, ladder: str, found: Mapping[int, Opening], objective: Objective) -> None:
        """Decide about cases of one ladder whose outcome is estimated."""
        cases, opened = [self.cases[index] for index in found], list(found.values())
        pairs = list(zip(cases, opened, strict=True))
        self.pace.arrived(ladder, [_arrival(case, one) for case, one in pairs if case.first])
        pool = self._pool(cases, opened)
        recent = self.pace.pool(ladder)
        edge = None if recent is None else edge_of(recent.mean, recent.variance, recent.multiplicity)
        accounts = [ACCOUNTS.index(name) for name in opened[0].accounts]
        prices: dict[str, float] = {
            name: self._price(name, recent, accounts, edge, objective) for name in ACCOUNTS
        }
        self.pace.price |= prices
        may = {name: self._may_spend(name) for name in ACCOUNTS}
        budgets = Budgets(
            left=np.array([may[name] for name in ACCOUNTS]),
            price=np.array([prices[name] for name in ACCOUNTS]),
            resource=np.array(accounts),
        )
        choice = choose(pool, objective, budgets, edge=edge)
        for place, index in enumerate(found):
            self.answers[index] = self._answer(*pairs[place], choice, place, prices)
        for place, one in enumerate(opened):
            if choice.level[place] != NONE:
                self.left[one.accounts[int(choice.level[place])]] -= float(choice.cost[place])

    def _pool(self, cases: Sequence[PolicyCase], opened: Sequence[Opening]) -> Pool:
        """The cases and, with nothing to buy, the other members of their groups."""
        own = {case.group for case in cases if case.group is not None}
        others = [one for one in self.view.siblings if one.group in own]
        names = [case.group or f"\0{case.trajectory}" for case in cases] + [one.group for one in others]
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        levels = len(opened[0].costs)
        members: list[PolicyCase | Sibling] = [*cases, *others]
        nothing = np.full((len(others), levels), np.inf)
        variances = np.array([one.variance for one in others])
        return Pool.of(
            np.array([one.mean for one in opened] + [one.reward for one in others]),
            np.concatenate([[one.variance for one in opened], variances]),
            np.vstack([[one.after for one in opened], np.repeat(variances[:, None], levels, axis=1)]),
            np.vstack([[one.costs for one in opened], nothing]),
            group=np.array([places[name] for name in names]),
            level=np.array([one.level for one in opened] + [levels - 1] * len(others)),
            multiplicity=np.array([float(one.multiplicity) for one in members]),
            key=np.array([one.trajectory for one in members]),
        )

    def _remaining(self) -> float | None:
        """Candidates still to come; ``None`` where the run does not say for how long its budget must last:
        then nothing is kept for later."""
        expected = self.view.spec.horizon.trajectories
        if expected is not None:
            return float(max(expected - self.pace.seen, 0))
        left, elapsed = self.view.left_s, self.view.elapsed_s
        if left is not None and elapsed > 0:
            return self.pace.seen * max(left, 0.0) / elapsed
        return None

    def _price(
        self,
        account: Account,
        recent: Pool | None,
        accounts: Sequence[int],
        edge: float | None,
        objective: Objective,
    ) -> float:
        """The least density that a purchase from an account must exceed."""
        left, remaining = self.left[account], self._remaining()
        if recent is None or remaining is None or remaining < FEW_ROUNDS * ROUND or math.isinf(left):
            return 0.0
        mine = np.array(accounts) == ACCOUNTS.index(account)
        if not mine.any():
            return 0.0
        priced = Pool.of(
            recent.mean,
            recent.variance,
            recent.after,
            np.where(mine, recent.costs, np.inf),
            group=recent.group,
            multiplicity=recent.multiplicity,
        )
        return PRICE_SHARE * clearing_price(priced, objective, left / remaining, edge=edge)

    def _may_spend(self, account: Account) -> float:
        """The share of the limit that belongs to those who have come, and to one round more."""
        limit = self.view.spec.budgets.compute if account == "compute" else self.view.spec.budgets.human
        left = self.left[account]
        if limit is None or not math.isfinite(left):
            return UNLIMITED
        kept = self._kept_for_audits(limit) if account == "compute" else 0.0
        remaining = self._remaining()
        if remaining is None:
            return max(0.0, left - kept)
        released = limit * min(1.0, (self.pace.seen + ROUND) / max(self.pace.seen + remaining, 1.0))
        kept += FIRST_STEPS * limit if remaining > 0 else 0.0
        return max(0.0, min(left - kept, released - (limit - left)))

    def _kept_for_audits(self, limit: float) -> float:
        return max(0.0, self.view.spec.audit_share * limit - self.pace.audit_credits)

    def _answer(
        self, case: PolicyCase, opened: Opening, choice: Choice, place: int, prices: Mapping[str, float]
    ) -> Decision:
        verdict = Verdict(int(choice.verdict[place]))
        utility, density = float(choice.utility[place]), float(choice.density[place])
        level = int(choice.level[place] if choice.level[place] != NONE else choice.wanted[place])
        option = opened.options[level] if level != NONE else None
        if option is None:
            code = "certain" if verdict is Verdict.NOTHING_TO_LEARN else "nothing_left"
            return stop(case, code, "nothing that could be bought would change the outcome")
        price = prices[opened.accounts[level]]
        worth = (
            f"outcome {opened.mean:.2f} +- {opened.sd:.2f}; {option.tier} is worth {density:.3g} per credit"
        )
        words = f"{worth}, the price is {price:.3g}"
        if verdict is Verdict.BELOW_PRICE and density < WAITING_SHARE * price:
            return stop(case, "below_price", words, utility=utility, price=price)
        bought = verdict is Verdict.BUY
        return Decision(
            trajectory=case.trajectory,
            action="request" if bought else "hold",
            tier=option.tier,
            code="worth_its_price"
            if bought
            else "budget"
            if verdict is Verdict.OVER_BUDGET
            else "below_price",
            reason=words
            if bought or verdict is Verdict.BELOW_PRICE
            else self._waits(words, option.account),
            quote=option.credits,
            priority=density if bought else 0.0,
            rank=None if bought else density,
            utility=utility,
            price=price,
        )

    def _waits(self, words: str, account: str) -> str:
        return f"{words}; the {account} budget has {self.left[account]:.3g} left, to be spent over the run"

    def _marked(self, index: int) -> Decision:
        """With the draw, and where the case comes to rest or goes to the truth with its propensity."""
        case, decision, lot = self.cases[index], self.answers[index], self.lots.get(index)
        if lot is None:
            return replace(decision, audited=case.audited and decision.code == "audit")
        straight = self._goes(index, case) and decision.code != "audit"
        if straight or ((decision.action != "request" or decision.code == "audit") and is_believed(case)):
            return lot.mark(decision, straight=straight)
        return replace(decision, draw=lot.drawn)


def _name(case: PolicyCase) -> str:
    return f"{case.ladder.name}@{case.ladder.version}"


def _arrival(case: PolicyCase, opened: Opening) -> Arrival:
    return Arrival(
        mean=opened.mean,
        variance=opened.variance,
        group=case.group or f"{case.trajectory}",
        multiplicity=case.multiplicity,
        after=opened.after,
        costs=tuple(None if math.isinf(cost) else cost for cost in opened.costs),
    )
