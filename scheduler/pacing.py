"""How much to spend now of a budget that must last, and at which price.

The price of a budget is the density of the best purchase that the remaining budget per remaining
candidate would not pay for, found by choosing among recent candidates as if they had just arrived (the
break item of the greedy; cheap fillers that still fit after it say nothing of what money is worth). With
many rounds ahead a round may then spend up to twice its even share on whatever is worth more than most of
that price; with few, shares are even and nothing is priced. Where there are no recent candidates to look
at, the price follows the spending by multiplicative steps (dual mirror descent, Balseiro, Lu and Mirrokni
2020, ICML).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scheduler.choice import Budgets, choose
from scheduler.gains import Objective, Scales
from scheduler.pool import Ints, Pool
from scheduler.worth import IDENTITY, Floats, Worth

RECENT = 480
FEW_ROUNDS = 10
PRICE_SHARE = 0.8
MOST_SHARES = 2.0
STEP = 0.1
MOST_STEP = 1.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one round may spend, and the least density that a purchase must exceed."""

    budget: float
    price: float


def allowance(
    left: float, rounds_ahead: int, price: float | None = None, *, this_share: float | None = None
) -> Allowance:
    """The allowance of the next of ``rounds_ahead`` rounds, at least 1, from the budget that is left.

    ``price``: the clearing price, ``None`` where it is not known. ``this_share``: share of the remaining
    candidates that the round holds, 1 / rounds_ahead by default.
    """
    left = max(left, 0.0)
    share = 1.0 / max(rounds_ahead, 1) if this_share is None else min(max(this_share, 0.0), 1.0)
    if price is None or rounds_ahead < FEW_ROUNDS:
        return Allowance(left * share, 0.0)
    return Allowance(min(left, MOST_SHARES * left * share), PRICE_SHARE * price)


def clearing_price(
    recent: Pool,
    objective: Objective,
    ration: float,
    *,
    worth: Worth = IDENTITY,
    edge: float | None = None,
    scales: Scales | None = None,
) -> float:
    """Density at which ``ration`` per candidate is used up on ``recent`` (their state at arrival): that of
    the best purchase which it does not pay for.

    0 where the ration pays for everything. One budget; levels of others carry infinite costs.
    """
    size = float(recent.multiplicity.sum())
    budgets = Budgets.one(max(ration, 0.0) * size, recent.levels)
    found = choose(recent, objective, budgets, worth=worth, edge=edge, scales=scales)
    return float(found.turned_away[0])


def mirror_step(price: float, spent: float, target: float, *, step: float = STEP) -> float:
    """The next price: up where more was spent than meant, down where less; a factor of at most e.

    ``price`` positive; ``target`` the remaining budget over the remaining rounds. Nothing left to spend
    counts as spending twice the target.
    """
    excess = 1.0 if target <= 0.0 else spent / target - 1.0
    return price * math.exp(min(max(step * excess, -MOST_STEP), MOST_STEP))


@dataclass(frozen=True, slots=True)
class ColdStart:
    """The first purchases, while nothing is known: ``cheap`` of the cheapest informative level, of which
    ``top`` also go to the truth, for at most ``share`` of the budget."""

    cheap: int = 30
    top: int = 10
    share: float = 0.2


def cold_start(
    costs: Floats, informative: Ints, budget: float, seed: int, rule: ColdStart = ColdStart()
) -> Ints:
    """What to buy of the first candidates: (n, K) zeros and ones.

    ``costs`` (n, K): predicted, inf where the level cannot be bought. ``informative``: the levels below
    the truth that are declared to say something of it; without any, only the truth is bought.
    Candidates are drawn in an order fixed by ``seed``; the first ``top`` of them get the truth too. The
    truth has first call on the money, since nothing is learned without it; a purchase that no longer
    fits is left out.
    """
    n, levels = costs.shape
    plan = np.zeros((n, levels), np.int64)
    left = rule.share * budget
    order = np.random.default_rng(seed).permutation(n)[: rule.cheap]
    cheapest = _cheapest(costs, informative)
    for place, row in enumerate(order):
        wanted = [] if cheapest is None else [cheapest]
        wanted += [levels - 1] if place < rule.top else []
        need = sum(costs.item(row, level) for level in wanted)
        if wanted and need <= left:
            plan[row, wanted] = 1
            left -= need
    return plan


def _cheapest(costs: Floats, informative: Ints) -> int | None:
    """By median cost where it can be bought at all."""
    best: tuple[float, int] | None = None
    for level in informative.tolist():
        there = costs[np.isfinite(costs[:, level]), level]
        if there.size and level < costs.shape[1] - 1:
            best = min(best or (math.inf, -1), (float(np.median(there)), level))
    return None if best is None else best[1]
