"""Ports for learned costs: the model, and what is stored of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from verifier_service.domain.costs import LearnedCost, NotedAttempt, PredictedCost
from verifier_service.domain.verifiers import VerifierInfo


class CostModel(Protocol):
    """Predicts what a check takes from what such checks took. Pure: depends on its arguments alone."""

    def predict(self, info: VerifierInfo, size: float, fit: str | None) -> PredictedCost:
        """For an item of this size, by what is declared and what ``fit`` has learned of the method."""
        ...

    def learn(
        self, info: VerifierInfo, attempts: Sequence[NotedAttempt], learned: LearnedCost | None
    ) -> LearnedCost:
        """Take more attempts of one method in, the oldest first. In pieces or at once is the same."""
        ...


class Costs(Protocol):
    """Attempts that ended and were not learned from yet, and what was learned, by method.

    All projects share it: it tells of machines and verifiers, not of what was verified.
    """

    def note(self, attempts: Sequence[NotedAttempt]) -> None:
        """Append. Takes no lock that another transaction waits for."""
        ...

    def noted(self) -> bool:
        """Whether there is anything to learn from."""
        ...

    def take(self, limit: int) -> list[NotedAttempt]:
        """Remove the oldest and return them, in order; each is taken once."""
        ...

    def fits(self) -> Mapping[str, str]:
        """What predictions need, by method."""
        ...

    def learned(self, method: str) -> LearnedCost | None:
        """All that was learned of one method."""
        ...

    def put(self, verifier: str, method: str, learned: LearnedCost) -> None:
        """Replace what was learned of one method."""
        ...
