"""Whether a call would add work to a run, found out before it is taken in. Nothing is written here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from verifier_service.domain.contents import new_trajectory
from verifier_service.domain.errors import InvalidInput, NotFound
from verifier_service.domain.ladders import Ladder
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.runs import Run, RunState
from verifier_service.domain.trajectories import TrajectorySubmission

PIECE = 64  # names of contents that are looked up at once


def adds_trajectories(
    tx: Transaction,
    catalog: Catalog,
    *,
    project: str,
    run: str,
    items: Sequence[TrajectorySubmission | InvalidInput],
) -> bool:
    """Whether any of the items is sound, new to the run, and would be stored: the run is open, or is not
    there yet. What it has by name costs one look, however many they are."""
    sound = [item for item in items if not isinstance(item, InvalidInput)]
    stored = _run(tx, project, run)
    if not sound or (stored is not None and stored.state is not RunState.OPEN):
        return False
    named = {item.id for item in sound if item.id is not None}
    known = tx.trajectories.find(project, run, named).keys()
    ladders = _Ladders(tx, catalog, project, stored)
    if any(item.id not in known and ladders.name(item) for item in sound if item.id is not None):
        return True
    contents = (name for item in sound if item.id is None and (name := ladders.name(item)) is not None)
    while names := set(islice(contents, PIECE)):
        if names - tx.trajectories.find(project, run, names).keys():
            return True
    return False


def adds_turns(
    tx: Transaction, *, project: str, run: str, trajectory: str, index: int, turns: int, finished: bool
) -> bool:
    """Whether ``turns`` turns at ``index`` would lengthen a trajectory that goes on after them. To finish
    one is no addition: it ends what its run has begun."""
    stored = _run(tx, project, run)
    if finished or stored is None or stored.state is not RunState.OPEN:
        return False
    found = tx.trajectories.find(project, run, [trajectory]).get(trajectory)
    return (
        found is not None
        and not found.finished
        and not found.cancelled
        and index <= found.n_turns < index + turns
    )


def _run(tx: Transaction, project: str, run: str) -> Run | None:
    try:
        return tx.runs.get(project, run)
    except NotFound:
        return None


class _Ladders:
    """The ladders of one batch, in the versions that its run uses or would pin."""

    def __init__(self, tx: Transaction, catalog: Catalog, project: str, run: Run | None) -> None:
        self._tx = tx
        self._catalog = catalog
        self._project = project
        self._pins = {} if run is None else run.ladder_versions
        self._found: dict[str, Ladder | None] = {}
        self._secret = tx.projects.secret(project)

    def name(self, item: TrajectorySubmission) -> str | None:
        """The name under which the item would be stored; ``None`` for one that is refused."""
        ladder = self._ladder(item.ladder)
        if ladder is None:
            return None
        try:
            if self._catalog.precheck(ladder.spec, item) is not None:
                return None
            return new_trajectory(item, ladder, self._secret).id
        except (InvalidInput, NotFound):
            return None

    def _ladder(self, name: str) -> Ladder | None:
        if name not in self._found:
            version = self._pins.get(name)
            self._found[name] = (
                self._tx.ladders.latest(self._project, name)
                if version is None
                else self._tx.ladders.version(self._project, name, version)
            )
        return self._found[name]
