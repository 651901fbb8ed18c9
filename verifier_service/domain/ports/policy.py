"""Ports for what the scheduler decides and believes. Pure: no I/O behind them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from verifier_service.domain.decisions import BudgetView, Decision, Estimate, PolicyCase, RungEvidence
from verifier_service.domain.evidence import Cost
from verifier_service.domain.ladders import Ladder
from verifier_service.domain.runs import RunSpec


class Beliefs(Protocol):
    """Turns evidence into a belief about the outcome."""

    def estimate(self, ladder: Ladder, evidence: Sequence[RungEvidence]) -> Estimate | None:
        """``None`` while no evidence counts toward the ladder's outcome. Never invents a number."""
        ...


class Policy(Protocol):
    """Decides a batch of cases of one run under one lock."""

    def decide(
        self,
        spec: RunSpec,
        cases: Sequence[PolicyCase],
        budgets: BudgetView,
        rng: random.Random,
    ) -> list[Decision]:
        """One decision per case, in order. The sum of the quotes requested per account never exceeds
        what ``budgets`` says is left."""
        ...


class Tariff(Protocol):
    """Credits per measured cost."""

    def credits(self, cost: Cost) -> float:
        """Price of a cost in credits."""
        ...

    def seconds(self, credits: float) -> float:
        """CPU seconds that ``credits`` buy."""
        ...
