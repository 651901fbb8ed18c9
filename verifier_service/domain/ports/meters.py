"""Port: what all processes together have counted since the database was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from verifier_service.domain.evidence import Tier


class Series(NamedTuple):
    """One count: what is counted, on which tier, and a third word where there is more than one kind.

    Names: ``claims``, ``attempts`` (by how they ended, as ``AttemptEnd``, and ``stale``), ``foreseen``
    (checks that were judged before they were stored), ``records`` (by their status), ``decisions``,
    ``retracted`` (checks whose evidence was taken back).
    """

    name: str
    tier: Tier | None = None
    kind: str = ""


class Meters(Protocol):
    """Counters. They only grow."""

    def add(self, amounts: Mapping[Series, float]) -> None:
        """Add to the counts, one row each, in a fixed order."""
        ...

    def totals(self) -> dict[Series, float]:
        """Every count."""
        ...
