"""Ports for settlements: what is stored of events, and the sources outside that are asked about them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from verifier_service.domain.forecasts import Question
from verifier_service.domain.settlements import (
    Actual,
    Behind,
    Due,
    Poll,
    Settlement,
    Wanting,
)


class Settlements(Protocol):
    """Settlements are only ever added. Checks wait for events; an event is due as long as a check may not
    have been told its latest version."""

    def latest(self, project: str, events: Collection[str]) -> dict[str, Settlement]:
        """The latest version of each of these events that has one."""
        ...

    def known_since(self, project: str, events: Collection[str]) -> dict[str, float]:
        """When the first version of each was stored, in database time."""
        ...

    def add(
        self,
        project: str,
        actuals: Mapping[str, tuple[int, Actual]],
        *,
        source: str,
        import_id: str | None = None,
        by: str | None = None,
    ) -> int:
        """Store versions, by event, and make the events due; how many were stored: a version that is there
        already stays as it is. Polls of these events end."""
        ...

    def listed(self, project: str, *, after: int, event: str | None, limit: int) -> list[Settlement]:
        """Settlements with a ``seq`` above ``after``, in that order."""
        ...

    def wait(
        self,
        project: str,
        check: int,
        event: str,
        question: Question,
        *,
        source: str | None,
        not_before: float,
    ) -> None:
        """Note that a check waits for an event, and make the event due: it may be settled. A ``source`` is
        asked about it, not before that time; one that is asked already is asked by the earlier one. A
        check that is sent again waits again."""
        ...

    def questions(self, project: str, events: Collection[str]) -> dict[str, list[Question]]:
        """The different questions about each event, of checks that wait or waited, at most 50 each."""
        ...

    def forecast_by(self, project: str, events: Collection[str], person: str) -> set[str]:
        """Of which of these events this person has submitted forecasts."""
        ...

    def due(self, limit: int) -> list[Due]:
        """Events that are due, those for the longest time first."""
        ...

    def behind(self, project: str, event: str, version: int, limit: int) -> list[Behind]:
        """Checks of an event that have not been told ``version``, by key of their row."""
        ...

    def told(self, checks: Collection[int], version: int) -> None:
        """Note that these checks were told a version, or are past being told."""
        ...

    def done(self, due: Due) -> None:
        """An event is no longer due, unless it was asked for again since."""
        ...

    def wanting(self, checks: Collection[int]) -> list[Wanting]:
        """Requested demands on these checks."""
        ...

    def asking(self, sources: Collection[str]) -> list[str]:
        """Those of the sources that are to be asked about something now."""
        ...

    def claim_polls(self, sources: Collection[str], limit: int, lease_s: float) -> list[Poll]:
        """Events whose sources are to be asked now, and not by others for ``lease_s``; those that nobody
        waits for any more are forgotten."""
        ...

    def put_off(self, poll: int, delay_s: float, *, failures: int, error: str | None) -> None:
        """Ask again later."""
        ...

    def pause(self, source: str, delay_s: float) -> None:
        """Ask a source about nothing before that time."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Polled:
    """What a source answered about an event. ``error`` is a stable code; ``retry_after_s`` what the source
    asked for, ``busy`` whether that holds for all that it is asked."""

    state: Literal["open", "settled", "void", "failed"]
    actual: Actual | None = None
    error: str | None = None
    retry_after_s: float | None = None
    busy: bool = False


class MarketFeed(Protocol):
    """Sources that an operator declares, asked over the network: never inside of a transaction."""

    @property
    def sources(self) -> Mapping[str, float]:
        """Seconds between two questions about one event, by source."""
        ...

    def ask(self, polls: Sequence[Poll]) -> list[Polled]:
        """One request per poll, several at a time; answers in order. What a source does wrong is an
        answer, too: nothing is raised for it."""
        ...
