"""Take trajectories in: validate, name, store. Nothing is verified here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from verifier_service.domain.cases import Body, NewTrajectory, Standing
from verifier_service.domain.contents import body_of, new_trajectory
from verifier_service.domain.digests import digest
from verifier_service.domain.errors import Conflict, InvalidInput, NotFound
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ladders import Ladder
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.rewards import Issued
from verifier_service.domain.runs import Run, RunSpec, RunState, require_open
from verifier_service.domain.trajectories import TrajectorySubmission

NO_ROWS: Mapping[int, NewTrajectory] = MappingProxyType({})

ItemStatus = Literal["accepted", "duplicate", "conflict", "invalid"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemResult:
    """What became of one item. ``pk`` is set for accepted and duplicate ones."""

    id: str | None
    status: ItemStatus
    error: InvalidInput | Conflict | None = None
    pk: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Intake:
    """Results in input order, the bodies of new rows by pk, the feed position before them, the ladders that
    they name, the tiers that have work from them, and the records they already have, by pk."""

    results: tuple[ItemResult, ...]
    created: dict[int, Body]
    cursor: int
    ladders: Mapping[str, Ladder] = field(default_factory=dict)
    woken: frozenset[Tier] = frozenset()
    issued: Mapping[int, Issued] = field(default_factory=dict)


def note_origins(
    tx: Transaction, taken: Intake, traces: Sequence[str | None], submitters: Sequence[str | None]
) -> None:
    """Remember in which trace each new trajectory was submitted, and by whom, where that is known; both as
    the items were, or empty."""
    if any(traces):
        tx.traces.note(_of_new(taken, traces))
    if any(submitters):
        tx.trajectories.attribute(_of_new(taken, submitters))


def _of_new(taken: Intake, known: Sequence[str | None]) -> dict[int, str]:
    return {
        result.pk: value
        for result, value in zip(taken.results, known, strict=True)
        if value is not None and result.pk is not None and result.pk in taken.created
    }


@dataclass(slots=True)
class _Slot:
    """One item on its way in."""

    result: ItemResult | None = None
    item: NewTrajectory | None = None
    body: Body | None = None
    anonymous: bool = False


def submit(
    tx: Transaction,
    catalog: Catalog,
    *,
    project: str,
    run: str,
    defaults: RunSpec,
    items: Sequence[TrajectorySubmission | InvalidInput],
    rows: Mapping[int, NewTrajectory] = NO_ROWS,
) -> Intake:
    """Store the items of one batch. ``rows`` are those of items, by position, that were made before.

    A bad item is ``invalid`` and its neighbours go on. Same id and content: ``duplicate``; other
    content: ``conflict``. An item without id is named by its content and repeats are counted.
    A closed run knows what it has taken and refuses the rest; raises ``Conflict`` when that is all.
    """
    try:
        stored = tx.runs.share(project, run)
    except NotFound:
        tx.runs.ensure(project, run, defaults, seed_of(project, run))
        stored = tx.runs.share(project, run)
    ladders: dict[str, Ladder | InvalidInput] = {}
    secret = tx.projects.secret(project)
    slots = [
        _slot(tx, catalog, stored, ladders, secret, item, rows.get(position))
        for position, item in enumerate(items)
    ]
    if stored.state is RunState.OPEN:
        created = _store(tx, project, run, slots)
    else:
        created = {}
        _recall(tx, stored, slots)
    results = tuple(slot.result for slot in slots if slot.result is not None)
    tx.tell("trajectories taken in", project=project, run=run, items=len(items), created=len(created))
    known = {name: found for name, found in ladders.items() if isinstance(found, Ladder)}
    return Intake(results=results, created=created, cursor=stored.feed, ladders=known)


def seed_of(project: str, run: str) -> int:
    """The run's stored seed: from its name, so that a replay draws the same."""
    return int(digest("seed", project, run)[:15], 16)


def _slot(
    tx: Transaction,
    catalog: Catalog,
    run: Run,
    ladders: dict[str, Ladder | InvalidInput],
    secret: str,
    item: TrajectorySubmission | InvalidInput,
    row: NewTrajectory | None,
) -> _Slot:
    if isinstance(item, InvalidInput):
        return _Slot(result=ItemResult(id=None, status="invalid", error=item))
    ladder = ladders.get(item.ladder)
    if ladder is None:
        ladder = ladders[item.ladder] = _pinned(tx, run, item.ladder)
    if row is not None and isinstance(ladder, Ladder) and row.ladder_version == ladder.version:
        return _Slot(item=row, body=body_of(item), anonymous=item.id is None)
    problem = ladder if isinstance(ladder, InvalidInput) else _precheck(catalog, ladder, item)
    if problem is not None or isinstance(ladder, InvalidInput):
        return _Slot(result=ItemResult(id=item.id, status="invalid", error=problem))
    try:
        return _Slot(
            item=new_trajectory(item, ladder, secret), body=body_of(item), anonymous=item.id is None
        )
    except InvalidInput as error:
        return _Slot(result=ItemResult(id=item.id, status="invalid", error=error))


def _precheck(catalog: Catalog, ladder: Ladder, item: TrajectorySubmission) -> InvalidInput | None:
    try:
        return catalog.precheck(ladder.spec, item)
    except NotFound as error:
        return InvalidInput("unknown_verifier", error.message, field="ladder")


def _pinned(tx: Transaction, run: Run, name: str) -> Ladder | InvalidInput:
    """The version of a ladder that this run uses: pinned at first use."""
    version = run.ladder_versions.get(name)
    if version is None:
        latest = tx.ladders.latest(run.project, name)
        if latest is None:
            return InvalidInput("unknown_ladder", f"no ladder is called {name!r}", field="ladder")
        version = tx.runs.pin(run.project, run.id, name, latest.version)
    return tx.ladders.version(run.project, name, version)


def _store(tx: Transaction, project: str, run: str, slots: Sequence[_Slot]) -> dict[int, Body]:
    """Insert what is new, judge the rest against what is there, fill in every slot's result."""
    first: dict[str, NewTrajectory] = {}
    for slot in slots:
        if slot.item is not None:
            first.setdefault(slot.item.id, slot.item)
    inserted = tx.trajectories.insert(project, run, list(first.values()))
    existing = tx.trajectories.find(project, run, first.keys() - inserted.keys())
    again: dict[int, int] = {}
    created: dict[int, Body] = {}
    seen: set[str] = set()
    for slot in slots:
        item = slot.item
        if item is None:
            continue
        if item.id in inserted and item.id not in seen and slot.body is not None:
            created[inserted[item.id]] = slot.body
            slot.result = ItemResult(id=item.id, status="accepted", pk=inserted[item.id])
        else:
            slot.result = _repeat(item, first, inserted, existing)
            pk = slot.result.pk
            if slot.anonymous and slot.result.status == "duplicate" and pk is not None:
                again[pk] = again.get(pk, 0) + 1
                slot.result = replace(slot.result, status="accepted")
        seen.add(item.id)
    if again:
        tx.trajectories.count_again(again)
    return created


def _recall(tx: Transaction, run: Run, slots: Sequence[_Slot]) -> None:
    """Judge the items of a batch for a closed run: a retry of what was taken is a duplicate."""
    named = {slot.item.id: slot.item for slot in slots if slot.item is not None}
    existing = tx.trajectories.find(run.project, run.id, named.keys())
    if not existing:
        require_open(run)
    for slot in slots:
        if slot.item is not None and slot.item.id in existing:
            slot.result = _repeat(slot.item, named, {}, existing)
        elif slot.item is not None:
            error = Conflict("run_closed", f"run {run.id!r} is {run.state} and takes nothing more")
            slot.result = ItemResult(id=slot.item.id, status="conflict", error=error)


def _repeat(
    item: NewTrajectory,
    first: Mapping[str, NewTrajectory],
    inserted: Mapping[str, int],
    existing: Mapping[str, Standing],
) -> ItemResult:
    """Duplicate or conflict, against the stored row or an earlier item of the same batch."""
    stored = existing.get(item.id)
    content = stored.content if stored is not None else first[item.id].content
    pk = stored.pk if stored is not None else inserted[item.id]
    if content == item.content:
        return ItemResult(id=item.id, status="duplicate", pk=pk)
    error = Conflict("id_conflict", f"trajectory {item.id!r} exists with other content", field="id")
    return ItemResult(id=item.id, status="conflict", error=error)
