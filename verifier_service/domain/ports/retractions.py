"""Port for retractions: evidence is found, marked, and what rests on it is found. Every step is short."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from verifier_service.domain.evidence import Tier
from verifier_service.domain.ladders import Role
from verifier_service.domain.models import LadderKey
from verifier_service.domain.retractions import Extent, Mode, NewRetraction, Retraction, Sought, Task
from verifier_service.domain.runs import Key


class Marked(NamedTuple):
    """Checks that were marked, by tier; ``place``: where the next page begins, ``None`` behind the last."""

    tiers: dict[Tier, int]
    place: int | None


class Resting(NamedTuple):
    """Trajectories that rest on evidence which is taken back; ``place`` is where the next page begins."""

    trajectories: list[int]
    place: int


class Taken(NamedTuple):
    """A demand whose evidence is taken back."""

    demand: int
    trajectory: int
    role: Role


class Retractions(Protocol):
    """Retractions of a project, and the work that they make."""

    def builds(self, project: str, verifier: str) -> list[str]:
        """In which builds a verifier has left evidence that stands."""
        ...

    def params(self, project: str, verifier: str) -> list[str]:
        """With which parameters, as canonical JSON."""
        ...

    def unknown(self, project: str, keys: Collection[str]) -> list[str]:
        """Those of the keys under which there is no check."""
        ...

    def extent(self, sought: Sought, mode: Mode, today: str | None) -> Extent:
        """How much would be concerned. ``today``: see ``live``."""
        ...

    def add(self, sought: Sought, wanted: NewRetraction, id: str, by: Key) -> tuple[Retraction, bool]:
        """Store, and whether it is new: the same content under the same id is there already. Raises
        ``Conflict`` for other content."""
        ...

    def get(self, project: str, id: str) -> Retraction:
        """Raises ``NotFound``."""
        ...

    def listed(self, project: str, limit: int) -> list[Retraction]:
        """Newest first."""
        ...

    def open(self, limit: int) -> list[tuple[str, str]]:
        """(project, id) of retractions that are not done, oldest first."""
        ...

    def lock(self, project: str, id: str) -> Task:
        """Lock the row until the end of the transaction. Raises ``NotFound``."""
        ...

    def live(self, sought: Sought, today: str | None, limit: int) -> list[int]:
        """Pks of sought checks that run since before ``until``, and of those queued in another build than
        ``today``'s: what comes of them would be such evidence. Those that wait for people are none."""
        ...

    def mark(self, task: Task, limit: int) -> Marked:
        """Mark the next sought checks as retracted: no demand that comes later is given their evidence."""
        ...

    def resting(self, task: Task, limit: int) -> Resting:
        """The next trajectories, of runs that are not purged, that rest on evidence of the task."""
        ...

    def taken(self, task: Task, trajectories: Collection[int]) -> list[Taken]:
        """Which demands of these trajectories have such evidence."""
        ...

    def untaught(self, since: float) -> dict[LadderKey, int]:
        """Ladder versions that lost evidence above the fast tier by retractions that were done since a
        database time, and how many pieces: what was learned from it is to be learned anew."""
        ...

    def counted(self, task: Task) -> Extent:
        """What rests on the evidence, once all is marked."""
        ...

    def move(
        self,
        task: Task,
        *,
        place: int,
        checks: int = 0,
        stopped: int = 0,
        done: int = 0,
        records: int = 0,
    ) -> None:
        """Note how far it has come; counts are added."""
        ...

    def supersede(self, task: Task, extent: Extent) -> None:
        """All is marked: from now on records are superseded."""
        ...

    def reverify(self, task: Task, extent: Extent) -> None:
        """From now on what it has taken back is asked for again; what is done is gone through once more."""
        ...

    def finish(self, task: Task) -> None:
        """Note that nothing is left to do."""
        ...
