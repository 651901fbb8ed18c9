"""Port for results of laboratories: imports, versions of values, maps of plates. All append-only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from verifier_service.domain.lab_results import (
    ImportLine,
    LabImport,
    LabValue,
    LabVersion,
    PlateMap,
    Target,
)
from verifier_service.domain.runs import Key


class LabResults(Protocol):
    """What files said of checks that wait on the desk."""

    def find(self, project: str, id: str) -> LabImport | None:
        """The import of that name, as it was answered."""
        ...

    def add(self, project: str, done: LabImport, key: Key) -> bool:
        """Store an import under its id; False, and nothing changes, when the id is taken. Whoever comes
        second with one id waits until the first has committed or given up."""
        ...

    def history(self, project: str, limit: int) -> list[ImportLine]:
        """The latest imports, newest first, without their rows."""
        ...

    def keep(self, project: str, import_id: str, values: Mapping[int, LabValue]) -> int:
        """Store the next versions of values, by check, and say how many: a version that is there already
        stays as it is."""
        ...

    def versions(self, project: str, check: str, limit: int) -> list[LabVersion]:
        """Versions of the value of a check, by its key, newest first."""
        ...

    def by_review(self, project: str, reviews: Collection[str]) -> list[Target]:
        """Checks on the desk that wait, are decided or have a result, one row per trajectory. Expired and
        cancelled items are left out."""
        ...

    def by_place(self, project: str, run: str, trajectories: Collection[str]) -> list[Target]:
        """The same, by trajectories of one run."""
        ...

    def by_candidate(self, project: str, canonical: Collection[str]) -> list[Target]:
        """The same, of trajectories whose candidate has one of these canonical forms; only what waits and
        what a file has answered."""
        ...

    def waiting(self, project: str, queue: str | None, limit: int) -> list[Target]:
        """Checks that wait on the desk and are not decided, oldest first, each for the first trajectory
        that wants it."""
        ...

    def known_reviews(self, project: str, reviews: Collection[str]) -> set[str]:
        """Which of these reviews exist, in any state."""
        ...

    def having(self, checks: Collection[int]) -> list[tuple[int, str, int]]:
        """(check, run, trajectory pk) of those that were given the evidence of these checks, of runs that
        are not purged, by trajectory."""
        ...

    def map_plates(self, project: str, import_id: str, plates: Sequence[PlateMap]) -> None:
        """Store maps; each replaces the one of its name for what comes later."""
        ...

    def plates(self, project: str, names: Collection[str]) -> dict[str, PlateMap]:
        """The latest maps of these names, as far as there are any."""
        ...
