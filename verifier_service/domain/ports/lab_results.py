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

    def answerable(
        self, project: str, queue: str | None, limit: int, *, after: str | None = None, person: str | None
    ) -> list[Target]:
        """Those of ``waiting`` that a file of this person may answer: that nobody holds, whose deadline has
        not passed, that take one approval, and that are not about what the person submitted. ``after`` the
        item of that id, in the order of keys; an id that is unknown gives none."""
        ...

    def submitted_by(self, checks: Collection[int], person: str) -> set[int]:
        """Which of these checks are, or were, wanted for what this person submitted."""
        ...

    def gold_items(self, project: str, reviews: Collection[str]) -> list[Target]:
        """Gold items by their ids, as if they waited for a laboratory like what they imitate. Expired and
        cancelled ones are left out."""
        ...

    def gold_showing(self, project: str, candidates: Collection[str]) -> list[Target]:
        """Open gold items that show one of these candidates."""
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
