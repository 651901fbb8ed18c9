"""Take evidence back, and bring every trajectory that rested on it to a record without it.

In short steps that may stop and go on at any time: first all such evidence is marked, so that nobody is
given it any more, then the trajectories that have it follow, some hundred per transaction.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from verifier_service.domain.cases import Case
from verifier_service.domain.digests import raw_digest, version_of
from verifier_service.domain.errors import InvalidInput, NotFound
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.planning import here
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.retractions import Taken
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.records import JsonObject
from verifier_service.domain.retractions import (
    CONTENT_ID_PREFIX,
    KEPT,
    RETRACTED,
    REVERIFIED,
    Extent,
    Mode,
    NewRetraction,
    Retraction,
    RetractionAnswer,
    RetractionState,
    Sought,
    Task,
)
from verifier_service.domain.runs import Key, RunState
from verifier_service.domain.states import LIVE_DEMANDS, DemandState

CHECKS_PER_STEP = 2_000
CASES_PER_STEP = 512
STOPPED_PER_STEP = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Touched:
    """What one step touched. ``open``: of open runs, to be advanced and settled; ``reopened`` are those
    whose record rested on the evidence. ``closed``: to be settled for good, ``draining``: as they are now.
    """

    open: tuple[int, ...] = ()
    reopened: tuple[int, ...] = ()
    closed: tuple[Case, ...] = ()
    draining: tuple[Case, ...] = ()
    done: bool = False


def extent(tx: Transaction, catalog: Catalog, project: str, wanted: NewRetraction) -> Extent:
    """How much a retraction would concern. Raises as ``begin``."""
    sought = _sought(tx, catalog, project, wanted)
    return tx.retractions.extent(sought, wanted.mode, _today(catalog, sought))


def asked(
    tx: Transaction, catalog: Catalog, project: str, wanted: NewRetraction, by: Key
) -> RetractionAnswer:
    """Answer a request: a dry run is counted, else see ``begin``."""
    if wanted.dry_run:
        return RetractionAnswer(extent=extent(tx, catalog, project, wanted))
    stored, created = begin(tx, catalog, project, wanted, by)
    return RetractionAnswer(retraction=stored, created=created)


def begin(
    tx: Transaction, catalog: Catalog, project: str, wanted: NewRetraction, by: Key
) -> tuple[Retraction, bool]:
    """Store a retraction; ``step`` does the work. And whether it is new: the same is there already.

    Raises ``NotFound`` for keys without a check, ``InvalidInput`` where evidence is to be replaced by a
    verifier that is not here, ``Conflict`` for other content under the same id.
    """
    sought = _sought(tx, catalog, project, wanted)
    id = CONTENT_ID_PREFIX + wanted.content if wanted.id is None else wanted.id
    stored, created = tx.retractions.add(sought, wanted, id, by)
    if created:
        tx.tell(
            "retraction begun",
            level=logging.WARNING,
            project=project,
            retraction=id,
            verifier=wanted.verifier,
            code=wanted.mode.value,
        )
    return stored, created


def reverify(tx: Transaction, project: str, retraction: str) -> Retraction:
    """In open runs, ask again for what was only taken back (idempotent). Raises ``NotFound``."""
    task = tx.retractions.lock(project, retraction)
    if task.mode is Mode.RETRACT:
        again = task._replace(mode=Mode.REVERIFY)
        tx.retractions.reverify(task, tx.retractions.counted(again))
    return tx.retractions.get(project, retraction)


def _sought(tx: Transaction, catalog: Catalog, project: str, wanted: NewRetraction) -> Sought:
    now = tx.now()
    builds: tuple[str, ...] | None = None
    params: tuple[str, ...] | None = None
    if wanted.checks is not None:
        unknown = tx.retractions.unknown(project, wanted.checks)
        if unknown:
            raise NotFound("check_not_found", f"no check {unknown[0]!r}", field="checks")
    if wanted.verifier is not None:
        builds = _builds(tx, catalog, project, wanted)
        if wanted.params is not None:
            stored = tx.retractions.params(project, wanted.verifier)
            params = tuple(text for text in stored if _agree(wanted.params, json.loads(text)))
    return Sought(
        project=project,
        keys=None if wanted.checks is None else tuple(dict.fromkeys(wanted.checks)),
        verifier=wanted.verifier,
        builds=builds,
        params=params,
        since=None if wanted.since is None else wanted.since.timestamp(),
        until=now if wanted.until is None else min(now, wanted.until.timestamp()),
    )


def _builds(
    tx: Transaction, catalog: Catalog, project: str, wanted: NewRetraction
) -> tuple[str, ...] | None:
    """Which builds of the verifier are meant, ``None`` for all. What is kept until it is replaced is of
    older ones only: a check of today's build would be answered by itself."""
    if wanted.verifier is None or (wanted.version is None and wanted.mode is not Mode.REPLACE):
        return None
    mine = here(catalog, wanted.verifier)
    known = set(tx.retractions.builds(project, wanted.verifier))
    if wanted.mode is Mode.REPLACE:
        if mine is None:
            message = f"{wanted.verifier} is not installed here: nothing could replace its evidence"
            raise InvalidInput("verifier_unavailable", message, field="verifier")
        known -= {mine.kind.version}
    else:
        known |= {wanted.version or ""} | ({mine.kind.version} if mine is not None else set())
    meant = wanted.version
    return tuple(sorted(one for one in known if meant is None or meant in (one, version_of(one))))


def _agree(named: JsonObject, stored: JsonObject) -> bool:
    return all(name in stored and stored[name] == value for name, value in named.items())


def _today(catalog: Catalog, sought: Sought) -> str | None:
    mine = here(catalog, sought.verifier) if sought.verifier is not None else None
    return None if mine is None else mine.kind.version


def step(tx: Transaction, catalog: Catalog, project: str, retraction: str) -> Touched:
    """One step of a retraction. Raises ``NotFound``."""
    task = tx.retractions.lock(project, retraction)
    if task.state is RetractionState.DONE:
        return Touched(done=True)
    if task.state is RetractionState.MARKING:
        return _mark(tx, catalog, task)
    return _supersede(tx, task)


def note_records(tx: Transaction, project: str, retraction: str, records: int) -> None:
    """Count the records that a step led to."""
    if records:
        task = tx.retractions.lock(project, retraction)
        tx.retractions.move(task, place=task.place, records=records)


def _mark(tx: Transaction, catalog: Catalog, task: Task) -> Touched:
    """Stop what would become such evidence, then mark what is, page by page."""
    live = tx.retractions.live(task.sought, _today(catalog, task.sought), STOPPED_PER_STEP)
    if live:
        return _stop(tx, task, live)
    place: int | None = None
    if task.mode is not Mode.REPLACE:
        marked = tx.retractions.mark(task, CHECKS_PER_STEP)
        place = marked.place
        for tier, count in marked.tiers.items():
            tx.count("retracted", tier, amount=count)
        tx.retractions.move(task, place=place or 0, checks=sum(marked.tiers.values()))
    if place is None:
        found = tx.retractions.counted(task)
        tx.retractions.supersede(task, found)
        tx.tell(
            "retracted evidence is marked",
            level=logging.INFO,
            project=task.sought.project,
            retraction=task.id,
            trajectories=found.trajectories,
            runs=found.runs,
        )
    return Touched()


def _stop(tx: Transaction, task: Task, live: Sequence[int]) -> Touched:
    """Withdraw checks; in open runs their cases ask anew, under today's key."""
    _opened(tx, {trajectory for _, trajectory in _wanting(tx, live)})
    tx.demands.lock(live)
    wanting = _wanting(tx, live)
    opened = _opened(tx, {trajectory for _, trajectory in wanting})
    for reason, again in ((REVERIFIED, True), (RETRACTED, False)):
        ending = [demand for demand, trajectory in wanting if (trajectory in opened) is again]
        if ending:
            tx.demands.withdraw(ending, reason=reason)
    tx.checks.withdraw(live)
    tx.retractions.move(task, place=task.place, stopped=len(live))
    return Touched(open=tuple(sorted(opened)))


def _wanting(tx: Transaction, checks: Sequence[int]) -> list[tuple[int, int]]:
    """Demands that want these checks, with their trajectories."""
    return [(demand, trajectory) for pk in checks for demand, trajectory, _ in tx.demands.wanting(pk)]


def _opened(tx: Transaction, trajectories: Collection[int]) -> set[int]:
    """Those of open runs; the runs are kept from closing until the commit."""
    standings = tx.trajectories.standings(trajectories)
    places = sorted({(one.project, one.run) for one in standings.values()})
    open_ = {place for place in places if tx.runs.share(*place).state is RunState.OPEN}
    return {pk for pk, one in standings.items() if (one.project, one.run) in open_}


def _supersede(tx: Transaction, task: Task) -> Touched:
    """Take the evidence from the next trajectories."""
    found = tx.retractions.resting(task, CASES_PER_STEP)
    if not found.trajectories:
        tx.retractions.finish(task)
        tx.tell("retraction done", level=logging.WARNING, project=task.sought.project, retraction=task.id)
        return Touched(done=True)
    opened = _opened(tx, found.trajectories)
    cases = {case.standing.pk: case for case in tx.trajectories.cases(found.trajectories, lock=True)}
    takings = tx.retractions.taken(task, cases)
    _take_back(tx, task, takings, cases, opened)
    concerned = {one.trajectory for one in takings}
    tx.retractions.move(task, place=found.place, done=len(concerned))
    if task.mode is not Mode.REPLACE:
        tx.trajectories.reopen(concerned & opened)
    rest = tx.trajectories.cases(sorted(concerned - opened))
    return Touched(
        open=tuple(sorted(concerned & opened)),
        reopened=() if task.mode is Mode.REPLACE else tuple(sorted(concerned & opened)),
        closed=tuple(case for case in rest if not case.live()),
        draining=tuple(case for case in rest if case.live()),
    )


def _take_back(
    tx: Transaction,
    task: Task,
    takings: Sequence[Taken],
    cases: dict[int, Case],
    opened: Collection[int],
) -> None:
    """Withdraw the demands. Where it was found to be another candidate than was thought, all that was found
    about that one goes, too."""
    again = {Mode.RETRACT: RETRACTED, Mode.REVERIFY: REVERIFIED, Mode.REPLACE: KEPT}[task.mode]
    demands = {one.demand: one.trajectory for one in takings}
    mistaken = [cases[pk] for pk in {one.trajectory for one in takings if one.role == "identify"}]
    for case in mistaken:
        about = [demand for demand in case.of_candidate() if demand.role != "identify"]
        live = [demand.pk for demand in about if demand.state in LIVE_DEMANDS]
        reason = again if case.standing.pk in opened else RETRACTED
        tx.checks.withdraw(tx.demands.withdraw(live, reason=reason))
        ended = [
            one
            for one in about
            if one.state is DemandState.SATISFIED or case.evidence(one) or one.reason == RETRACTED
        ]
        demands |= {demand.pk: case.standing.pk for demand in ended}
    for reason, asked in ((again, True), (RETRACTED, False)):
        ending = [demand for demand, trajectory in demands.items() if (trajectory in opened) is asked]
        if ending:
            tx.demands.take_back(ending, reason=reason)
    if mistaken:
        _unidentify(tx, mistaken)


def _unidentify(tx: Transaction, cases: Sequence[Case]) -> None:
    bodies = tx.trajectories.bodies([case.standing.pk for case in cases])
    subjects = {}
    for case in cases:
        source, body = case.ladder.spec.candidate, bodies[case.standing.pk]
        subjects[case.standing.pk] = raw_digest(source.kind, candidate_of(source, body.answer, body.turns))
    tx.trajectories.unidentify(subjects)
