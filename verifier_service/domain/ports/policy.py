"""Ports for what the scheduler decides, believes and learns. Pure: no I/O behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from verifier_service.domain.decisions import (
    Estimate,
    FittedModel,
    PolicyCase,
    RungEvidence,
    RunView,
    Verdicts,
)
from verifier_service.domain.evidence import Cost
from verifier_service.domain.insight import PayAndMerit, Rested
from verifier_service.domain.ladders import Ladder
from verifier_service.domain.models import Alarm, Audited, Example


class Beliefs(Protocol):
    """Turns evidence into a belief about the outcome."""

    def estimate(
        self, ladder: Ladder, evidence: Sequence[RungEvidence], model: FittedModel | None = None
    ) -> Estimate | None:
        """``None`` while no evidence, through what is declared or learned, says anything about the ladder's
        outcome. Never invents a number. Depends on its arguments alone."""
        ...

    def learns(self, ladder: Ladder) -> bool:
        """Whether there is anything to learn for a ladder: a purchase that may predict its truth."""
        ...

    def learn(
        self,
        ladder: Ladder,
        examples: Sequence[Example],
        previous: FittedModel | None,
        alarms: Sequence[Alarm] = (),
    ) -> FittedModel | None:
        """The next model of a ladder, from examples in any order; ``None`` while they teach nothing. While
        an alarm stands, less is believed. Depends on its arguments alone."""
        ...

    def watch(
        self,
        ladder: Ladder,
        noted: str | None,
        audits: Sequence[Audited],
        model: FittedModel | None = None,
    ) -> tuple[str, list[Alarm]]:
        """Look at audits, in order: what to note for the next ones, and what they raise. ``model``: the
        current one, fitted before these audits ended."""
        ...

    def pay_and_merit(self, rested: Sequence[Rested]) -> PayAndMerit | None:
        """The first against the second half of successive cases; ``None`` where there are too few."""
        ...


class Policy(Protocol):
    """Decides a batch of cases of one run under one lock."""

    def decide(self, view: RunView, cases: Sequence[PolicyCase]) -> Verdicts:
        """One decision per case, in order. The sum of the quotes requested per account never exceeds
        what the view's budgets say is left. Depends on its arguments alone."""
        ...


class Tariff(Protocol):
    """Credits per measured cost."""

    def credits(self, cost: Cost) -> float:
        """Price of a cost in credits."""
        ...

    def seconds(self, credits: float) -> float:
        """CPU seconds that ``credits`` buy."""
        ...
