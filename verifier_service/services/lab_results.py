"""Take results of a laboratory: find the checks that rows mean, and make evidence of what they say.

An accepted row answers its check as a reviewer's measurement does, without a verdict unless it has one, and
at once: there was a dry run to look at, and what is wrong can be amended. A later file that says something
else of the check is its next version; every version stays.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import partial

from verifier_service.domain.agreement import Rate
from verifier_service.domain.cases import Case
from verifier_service.domain.digests import canonical_json
from verifier_service.domain.errors import Conflict, Contended
from verifier_service.domain.evidence import Evidence, Provenance, Reason, Tier, Verdict
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.lab_evaluation import Evaluated, Told, evaluate
from verifier_service.domain.lab_matching import Addressed, Directory, addressed
from verifier_service.domain.lab_results import (
    CONTENT_ID_PREFIX,
    ImportState,
    LabImport,
    LabValue,
    NewLabResults,
    PlateMap,
    RowStatus,
    Target,
)
from verifier_service.domain.lab_rows import LabRow, rows_of
from verifier_service.domain.lab_senders import Sender
from verifier_service.domain.lab_sheets import Columns, Sheet, columns_of
from verifier_service.domain.ladders import QuantitySpec
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.records import JsonObject
from verifier_service.domain.review_trail import Act
from verifier_service.domain.reviewer_error import COUNTED, doubt_of, noise_of
from verifier_service.domain.runs import Key, RunState
from verifier_service.domain.settlement_rows import Known, ToldEvents, evaluate_events, is_of_event
from verifier_service.domain.settlements import IMPORT

RAW_SEARCHED = 2_000  # waiting checks that are looked through for a candidate as it was written
NO_COLUMNS = Columns({}, ())


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """The answer, and whose rewards follow: ``answered`` trajectories get evidence for the first time.
    Those whose evidence was amended are of open runs, of closed ones, or of ones that still drain."""

    answer: LabImport
    answered: tuple[int, ...] = ()
    open: tuple[Case, ...] = ()
    closed: tuple[Case, ...] = ()
    draining: tuple[Case, ...] = ()


@dataclass(slots=True)
class _Amended:
    runs: dict[str, RunState] = field(default_factory=dict)
    pks: dict[int, str] = field(default_factory=dict)  # trajectory: its run


def import_results(
    tx: Transaction, catalog: Catalog, wanted: NewLabResults, sheet: Sheet | None, sender: Sender
) -> Imported:
    """Check every row and, unless it is a dry run or one is wrong where all are wanted, store.

    Raises ``InvalidInput`` for a header that says too little, ``Conflict`` for other content under the same
    id, and ``Contended`` when a check moved meanwhile: run the transaction again.
    """
    project = sender.key.project
    id = wanted.id or CONTENT_ID_PREFIX + wanted.content_digest
    if not wanted.dry_run and (known := _known(tx, project, id, wanted)) is not None:
        return Imported(answer=known)
    columns = NO_COLUMNS if sheet is None else columns_of(sheet.header)
    rows = [] if sheet is None else rows_of(sheet, columns, wanted.decimal)
    of_events = [row for row in rows if is_of_event(row)]
    told = evaluate_events(of_events, _events(tx, sender, of_events))
    found = _evaluated(tx, sender, wanted, [row for row in rows if not is_of_event(row)])
    outcomes = {row.line: row for row in found.rows} | told.rows
    found = found._replace(rows=tuple(outcomes[row.line] for row in rows))
    refused = wanted.all_or_nothing and any(row.status is RowStatus.REFUSED for row in found.rows)
    state = ImportState.REFUSED if refused else ImportState.IMPORTED
    stored = state is ImportState.IMPORTED and not wanted.dry_run
    answer = LabImport(
        id=id if stored else None,
        digest=wanted.content_digest,
        state=ImportState.DRY_RUN if wanted.dry_run else state,
        created=stored,
        file=wanted.file_name,
        by=wanted.by,
        key=sender.key.name,
        ignored_columns=columns.ignored,
        rows=found.rows,
        values=tuple(one.value for one in found.told),
        events=tuple(told.values),
        counts=dict(Counter(row.status.value for row in found.rows)),
    )
    if not stored:
        return Imported(answer=answer)
    return _stored(tx, catalog, wanted, answer, (found.told, told), sender)


def _known(tx: Transaction, project: str, id: str, wanted: NewLabResults) -> LabImport | None:
    known = tx.lab_results.find(project, id)
    if known is not None and known.digest != wanted.content_digest:
        raise Conflict("import_conflict", f"import {id!r} is of something else", field="id")
    return known


def _events(tx: Transaction, sender: Sender, rows: Sequence[LabRow]) -> Known:
    project, person = sender.key.project, sender.person
    names = {row.texts["event"] for row in rows if "event" in row.texts}
    if not names:
        return Known({}, {}, settles=sender.settles)
    return Known(
        tx.settlements.latest(project, names),
        tx.settlements.questions(project, names),
        own=() if person is None else tx.settlements.forecast_by(project, names, person),
        settles=sender.settles,
    )


def _evaluated(tx: Transaction, sender: Sender, wanted: NewLabResults, rows: Sequence[LabRow]) -> Evaluated:
    project = sender.key.project
    plates = {plate.name: plate for plate in wanted.plates}
    named = {row.texts["plate"] for row in rows if "plate" in row.texts} - plates.keys()
    items = addressed(rows, {**_plates(tx, project, named), **plates})
    directory = _directory(tx, project, items)
    directory.judges = sender.judges
    if sender.person is not None and (checks := directory.checks()):
        directory.own = tx.lab_results.submitted_by(checks, sender.person)
    return evaluate(items, directory, partial(_quantity_of, tx, project), wanted.ranges)


def _plates(tx: Transaction, project: str, names: Collection[str]) -> dict[str, PlateMap]:
    return tx.lab_results.plates(project, names) if names else {}


def _quantity_of(tx: Transaction, project: str, target: Target) -> QuantitySpec | None:
    if target.gold:
        imitated = tx.ladders.latest(project, target.ladder)
        return None if imitated is None else imitated.spec.quantity
    return tx.ladders.version(project, target.ladder, target.ladder_version).spec.quantity


def _directory(tx: Transaction, project: str, items: Sequence[Addressed]) -> Directory:
    """Look up all names at once."""
    names = [address for item in items for address in item.addresses]
    found = Directory()
    if reviews := {name.review for name in names if name.review is not None}:
        found.note(tx.lab_results.by_review(project, reviews))
        if missing := reviews - found.reviews.keys():
            found.note(tx.lab_results.gold_items(project, missing))
        found.known_reviews = tx.lab_results.known_reviews(project, reviews - found.reviews.keys())
    places: dict[str, set[str]] = {}
    for name in names:
        if name.place is not None:
            places.setdefault(name.place[0], set()).add(name.place[1])
    by_place = Directory()
    known: set[tuple[str, str]] = set()
    for run, trajectories in places.items():
        by_place.note(tx.lab_results.by_place(project, run, trajectories))
        known |= {(run, id) for id in tx.trajectories.find(project, run, trajectories)}
    found.places, found.known_places = by_place.places, known
    if candidates := {name.candidate for name in names if name.candidate is not None}:
        for target in tx.lab_results.by_candidate(project, candidates):
            found.candidates.setdefault(target.canonical or "", []).append(target)
        _note_raw(tx, project, candidates - found.candidates.keys(), found)
        if missing := candidates - found.candidates.keys():
            for target in tx.lab_results.gold_showing(project, missing):
                found.candidates.setdefault(target.canonical or "", []).append(target)
    return found


def _note_raw(tx: Transaction, project: str, texts: Collection[str], found: Directory) -> None:
    """Candidates that are no stored canonical form, as somebody had written them: the oldest 2,000 waiting
    checks are looked through. Nothing is canonicalised here: the text of a file is read by no toolkit."""
    if not texts:
        return
    waiting = tx.lab_results.waiting(project, None, RAW_SEARCHED)
    for target, text in written(tx, project, waiting).items():
        if (trimmed := text.strip()) in texts:
            found.candidates.setdefault(trimmed, []).append(target)


def written(tx: Transaction, project: str, targets: Sequence[Target]) -> dict[Target, str]:
    """Candidates as they were written in the submission, objects as JSON."""
    bodies = tx.trajectories.bodies([target.pk for target in targets])
    found: dict[Target, str] = {}
    for target in targets:
        ladder = tx.ladders.version(project, target.ladder, target.ladder_version)
        body = bodies[target.pk]
        candidate = candidate_of(ladder.spec.candidate, body.answer, body.turns)
        found[target] = candidate if isinstance(candidate, str) else canonical_json(candidate)
    return found


def _stored(
    tx: Transaction,
    catalog: Catalog,
    wanted: NewLabResults,
    answer: LabImport,
    said: tuple[Sequence[Told], ToldEvents],
    sender: Sender,
) -> Imported:
    """Store an import with all that it says, in the transaction of its caller. Checks that wait for events
    are told afterwards, in bounded steps."""
    told, events = said
    key, project = sender.key, sender.key.project
    id = answer.id or ""
    if not tx.lab_results.add(project, answer, key):
        known = _known(tx, project, id, wanted)
        if known is None:
            raise Contended("import_contended", "another import of the same was given up")
        return Imported(answer=known)
    tx.lab_results.map_plates(project, id, wanted.plates)
    if events.actuals:
        kept = tx.settlements.add(
            project, events.actuals, source=IMPORT, import_id=id, by=wanted.by or key.name
        )
        if kept < len(events.actuals):
            raise Contended("settlement_contended", "an event was settled meanwhile")
        detail: JsonObject = {"import": id, "events": [*sorted(events.actuals)]}
        tx.trail.note(project, Act.ANSWERED, key.acts_as, detail=detail)
    new = [one for one in told if one.status is RowStatus.ACCEPTED]
    amended = [one for one in told if one.status is RowStatus.AMENDED]
    checks = [one.target.check for one in new if not one.target.gold]
    concerned = _share(tx, project, [one.target.check for one in amended])
    tx.demands.lock(checks)
    tx.trajectories.cases(sorted(concerned.pks), lock=True)
    _tell(tx, catalog, (new, amended), answer, key)
    changed = [one for one in (*new, *amended) if not one.target.gold]
    values = {one.target.check: one.value for one in changed}
    _require_all(tx.lab_results.keep(project, id, values), changed)
    answered = tx.demands.satisfy(checks) if checks else []
    tx.tell("lab results imported", level=logging.INFO, project=project)
    cases = tx.trajectories.cases(sorted(concerned.pks))
    rest = [case for case in cases if concerned.runs[case.standing.run] is not RunState.OPEN]
    return Imported(
        answer=answer,
        answered=tuple(answered),
        open=tuple(case for case in cases if concerned.runs[case.standing.run] is RunState.OPEN),
        closed=tuple(case for case in rest if not case.live()),
        draining=tuple(case for case in rest if case.live()),
    )


def _share(tx: Transaction, project: str, checks: Collection[int]) -> _Amended:
    """Who has the evidence of these checks; their runs neither close nor go meanwhile."""
    found = _Amended()
    if checks:
        having = tx.lab_results.having(checks)
        for run in sorted({run for _, run, _ in having}):
            found.runs[run] = tx.runs.share(project, run).state
        found.pks = {pk: run for _, run, pk in having}
    return found


def _tell(
    tx: Transaction,
    catalog: Catalog,
    told: tuple[Sequence[Told], Sequence[Told]],
    answer: LabImport,
    key: Key,
) -> None:
    """Give checks their evidence, new and amended, and say in the trail whose file it came from. Raises
    ``Contended`` when one was answered, claimed or taken back since it was looked at."""
    doubt = _doubts(tx, key.project, [one for part in told for one in part])
    new, amended = (
        {
            one.target.check: _evidence(catalog, one, _source(answer), doubt)
            for one in part
            if not one.target.gold
        }
        for part in told
    )
    if new:
        _require_all(len(tx.checks.answer(new)), new)
    if amended:
        _require_all(len(tx.checks.amend(amended)), amended)
    closed, changed = ({one.target.review: _said(one.value, answer) for one in part} for part in told)
    if closed:
        moved = tx.reviews.close_free(key.project, closed, by=key.acts_as, details=closed)
        _require_all(moved, closed)
    if changed:
        tx.reviews.note_amended(key.project, changed, by=key.acts_as, details=changed)


def _doubts(tx: Transaction, project: str, told: Sequence[Told]) -> dict[str, Rate]:
    """How often one verdict is wrong, by queue, as far as there are verdicts: as of votes at the desk."""
    queues = {one.target.queue for one in told if one.value.verdict is not None}
    return {queue: noise_of(tx.reviews.judged(project, queue, COUNTED)).rate for queue in sorted(queues)}


def _said(value: LabValue, answer: LabImport) -> JsonObject:
    """What the trail tells of one check."""
    said: JsonObject = {"import": answer.id, "quantities": [one.quantity for one in value.measurements]}
    return said if value.verdict is None else {**said, "verdict": value.verdict, "reason": value.reason}


def _require_all(moved: int, told: Sized) -> None:
    if moved < len(told):
        raise Contended("check_moved", "a check was answered, claimed or taken back meanwhile")


def _source(answer: LabImport) -> str:
    """Who measured, and where it is written."""
    return ", ".join(part for part in (answer.by or answer.key, answer.file) if part)


def _evidence(catalog: Catalog, one: Told, source: str, doubt: Mapping[str, Rate]) -> Evidence:
    value = one.value
    verdict = value.verdict
    info = catalog.verifier(one.target.verifier)
    verdicts = {"accept": Verdict.ACCEPT, "reject": Verdict.REJECT}
    rejected = verdict == "reject"
    return Evidence(
        check=one.target.key,
        tier=Tier.LAB,
        verdict=verdicts.get(verdict or "", Verdict.INCONCLUSIVE),
        reason=Reason(code="lab_rejected", message=value.reason) if rejected else None,
        measurements=value.measurements,
        mistaken=None if verdict is None else doubt_of((verdict,), verdict, doubt[one.target.queue]),
        provenance=Provenance(verifier=info.name, version=info.version, worker=source),
    )
