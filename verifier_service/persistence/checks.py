"""Checks: found or made by key, and looked at."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, select, update

from verifier_service.domain.checks import CheckRef, CheckView, Completion, NewCheck
from verifier_service.domain.digests import canonical_json
from verifier_service.domain.errors import Contended, NotFound
from verifier_service.domain.states import LIVE_CHECKS, CheckState
from verifier_service.persistence import review_tables, tables
from verifier_service.persistence.attempts import Histories
from verifier_service.persistence.bulk import NOW, insert_new, update_each
from verifier_service.persistence.cases import VIEWED, check_view
from verifier_service.persistence.database import Database, clock, finite, ordered, sql
from verifier_service.persistence.documents import dumped
from verifier_service.persistence.endings import Endings
from verifier_service.persistence.leases import Leases
from verifier_service.persistence.ledger import Movements, accounts_of
from verifier_service.persistence.runs import no_run
from verifier_service.persistence.settlement_tables import event_waits, settlements
from verifier_service.persistence.withdrawals import Withdrawals

_checks, _runs, _reviews = tables.checks, tables.runs, review_tables.reviews
_ROUNDS = 8
_KNOWN = (  # of checks that wait for an event: what became of it, and they are about to be told
    select(settlements.c.pk)
    .join(
        event_waits,
        and_(event_waits.c.project == settlements.c.project, event_waits.c.event == settlements.c.event),
    )
    .where(event_waits.c.check_pk == _checks.c.pk)
)


@dataclass(slots=True)
class _Known:
    """What is stored under one key."""

    replicates: int = 0
    live: int | None = None
    state: CheckState | None = None
    succeeded: int | None = None
    precedence: float = 0.0
    deadline: float | None = None


class SqlChecks(Leases, Endings, Withdrawals, Histories):
    """See ``ports.work.Checks``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def ensure(
        self, project: str, payer: str, wanted: Sequence[NewCheck], *, force: bool = False
    ) -> list[CheckRef]:
        """An older success is served before a live replicate: evidence at hand needs no wait."""
        if not wanted:
            return []
        run = self._db.first(select(_runs.c.pk).where(_runs.c.project == project, _runs.c.id == payer))
        if run is None:
            raise no_run(payer)
        best = _by_key(wanted)
        refs: dict[str, CheckRef] = {}
        for _ in range(_ROUNDS):
            missing = [key for key in best if key not in refs]
            if not missing:
                break
            known = self._known(project, missing)
            self._reuse(known, best, refs, force=force)
            new = [(best[key], known.get(key, _Known())) for key in missing if key not in refs]
            self._make(project, run.pk, new, refs)
        else:
            raise Contended("checks_contended", "other transactions keep making the same checks")
        return [refs[one.key] for one in wanted]

    def view(self, pk: int) -> CheckView:
        viewed = select(*VIEWED).join(_runs, _runs.c.pk == _checks.c.payer)
        row = self._db.first(viewed.where(_checks.c.pk == pk))
        if row is None:
            raise NotFound("check_not_found", f"no check {pk}")
        return check_view(pk, row)

    def found(self, project: str, keys: Collection[str]) -> dict[str, CheckView | None]:
        viewed = select(_checks.c.pk, *VIEWED).join(_runs, _runs.c.pk == _checks.c.payer)
        stored = viewed.where(_checks.c.project == project, self._db.among(_checks.c.key, keys))
        views: dict[str, CheckView | None] = {}
        for row in self._db.all(stored.order_by(_checks.c.pk)):
            view = check_view(row[0], row[1:])
            served = view.state is CheckState.SUCCEEDED and row.retraction is None
            if served or views.get(view.key) is None:
                views[view.key] = view if served else None
        return views

    def with_passed_deadline(self, limit: int) -> list[int]:
        answered = select(_reviews.c.pk).where(
            _reviews.c.check_pk == _checks.c.pk, sql(f"reviews.{review_tables.DECIDED}")
        )
        passed = select(_checks.c.pk).where(
            sql(tables.DUE),
            _checks.c.external,
            _checks.c.deadline < clock(),
            ~answered.exists(),
            ~_KNOWN.exists(),
        )
        return [
            row.pk for row in self._db.all(passed.order_by(_checks.c.deadline, _checks.c.pk).limit(limit))
        ]

    def _known(self, project: str, keys: Collection[str]) -> dict[str, _Known]:
        """What is stored per key, with the live rows locked so that nobody ends them meanwhile."""
        columns = select(
            _checks.c.pk,
            _checks.c.key,
            _checks.c.state,
            _checks.c.replicate,
            _checks.c.precedence,
            _checks.c.deadline,
            _checks.c.retraction,
        )
        stored = columns.where(_checks.c.project == project, self._db.among(_checks.c.key, keys))
        rows = self._db.all(stored)
        live = [row.pk for row in rows if row.state in LIVE_CHECKS]
        if live and self._db.postgres:
            these = columns.where(self._db.among(_checks.c.pk, ordered(live))).order_by(_checks.c.pk)
            rows = [
                *(row for row in rows if row.state not in LIVE_CHECKS),
                *self._db.all(self._db.locked(these)),
            ]
        known: dict[str, _Known] = {}
        for row in rows:
            one = known.setdefault(row.key, _Known())
            one.replicates = max(one.replicates, row.replicate + 1)
            if row.state in LIVE_CHECKS:
                one.live, one.state = row.pk, CheckState(row.state)
                one.precedence, one.deadline = row.precedence, row.deadline
            elif row.state == CheckState.SUCCEEDED and row.retraction is None:
                one.succeeded = max(one.succeeded or 0, row.pk)
        return known

    def _reuse(
        self, known: dict[str, _Known], best: dict[str, NewCheck], refs: dict[str, CheckRef], *, force: bool
    ) -> None:
        raised, on_desk = [], []
        later: list[tuple[int, float]] = []
        for key, one in known.items():
            if one.succeeded is not None and not force:
                refs[key] = CheckRef(pk=one.succeeded, key=key, state=CheckState.SUCCEEDED, created=False)
            elif one.live is not None and one.state is not None:
                refs[key] = CheckRef(pk=one.live, key=key, state=one.state, created=False)
                precedence = -finite(best[key].priority)
                if precedence < one.precedence:
                    raised.append({"pk": one.live, "precedence": precedence})
                    if best[key].external:
                        on_desk.append((one.live, precedence))
                deadline = best[key].deadline
                if deadline is not None and one.deadline is not None and deadline > one.deadline:
                    later.append((one.live, deadline))
        update_each(self._db, _checks, raised)
        self._postpone(later)
        for pk, precedence in on_desk:
            waiting = update(_reviews).where(_reviews.c.check_pk == pk, sql(review_tables.PENDING))
            self._db.run(waiting.values(precedence=precedence))

    def _postpone(self, later: Sequence[tuple[int, float]]) -> None:
        """People have until the last of those who ask expects an answer."""
        for pk, deadline in later:
            self._db.run(update(_checks).where(_checks.c.pk == pk).values(deadline=deadline))
            pending = update(_reviews).where(_reviews.c.check_pk == pk, sql(review_tables.PENDING))
            self._db.run(pending.values(deadline=deadline))

    def _make(
        self,
        project: str,
        payer: int,
        new: Sequence[tuple[NewCheck, _Known]],
        refs: dict[str, CheckRef],
    ) -> None:
        """Insert in key order; a key that another transaction made first is left to the next round."""
        if not new:
            return
        new = sorted(new, key=lambda pair: pair[0].key)
        params: dict[int, str] = {}
        rows = [_row(project, payer, one, known.replicates, params) for one, known in new]
        ended = self._ends_of(payer, new)
        equal = _FRESH
        if ended:
            now = self._db.now()
            rows = [
                row | (_ended(ended[one.key], now) if one.key in ended else _WAITS)
                for row, (one, _) in zip(rows, new, strict=True)
            ]
            equal = _UNTOUCHED
        movements = Movements()
        tiers = {one.key: one.tier for one, _ in new}
        for row in insert_new(self._db, _checks, rows, "key", "pk", created_at=NOW, **equal):
            end = ended.get(row.key)
            state = CheckState.QUEUED if end is None else end.state
            refs[row.key] = CheckRef(pk=row.pk, key=row.key, state=state, created=True)
            if end is not None:
                movements.add(payer, "compute", spent=end.credits)
                self._db.count("foreseen", tiers[row.key], end.state.value)
        movements.apply(self._db)

    def _ends_of(self, payer: int, new: Sequence[tuple[NewCheck, _Known]]) -> dict[str, Completion]:
        """How checks ended before they were stored. Only for the first replicate of a key, and only where
        the budget has no limit: elsewhere credits are reserved before anything runs."""
        ended = {
            one.key: one.ended
            for one, known in new
            if one.ended is not None
            and one.ended.state in _ENDS
            and not one.external
            and not known.replicates
        }
        if ended and any(
            account.limit is not None
            for account in accounts_of(self._db, payer)
            if account.kind == "compute"
        ):
            return {}
        return ended


def _by_key(wanted: Sequence[NewCheck]) -> dict[str, NewCheck]:
    """One wish per key, with the highest priority."""
    best: dict[str, NewCheck] = {}
    for one in wanted:
        if one.key not in best or one.priority > best[one.key].priority:
            best[one.key] = one
    return best


_ENDS = (CheckState.SUCCEEDED, CheckState.FAILED)
_UNTOUCHED: dict[str, Any] = {"interruptions": 0, "reserved": 0.0}
_FRESH: dict[str, Any] = {
    **_UNTOUCHED,
    "state": CheckState.QUEUED.value,
    "fence": 0,
    "attempt": 0,
    "spent": 0.0,
}
_WAITS: dict[str, Any] = {
    "state": CheckState.QUEUED.value,
    "fence": 0,
    "attempt": 0,
    "spent": 0.0,
    "cost": None,
    "evidence": None,
    "failure": None,
    "started_at": None,
    "ended_at": None,
}


def _ended(end: Completion, now: float) -> dict[str, Any]:
    """The columns of a check whose only attempt has ended, as a claim and a completion leave them."""
    return {
        "state": end.state.value,
        "fence": 1,
        "attempt": 1,
        "spent": end.credits,
        "cost": dumped(end.cost),
        "evidence": None if end.evidence is None else dumped(end.evidence),
        "failure": None if end.failure is None else dumped(end.failure),
        "started_at": now,
        "ended_at": now,
    }


def _row(project: str, payer: int, one: NewCheck, replicate: int, params: dict[int, str]) -> dict[str, Any]:
    # Checks of one rung share the parameters object: serialise it once per call.
    text = params.get(id(one.params))
    if text is None:
        text = params[id(one.params)] = canonical_json(one.params)
    return {
        "project": project,
        "payer": payer,
        "key": one.key,
        "replicate": replicate,
        "verifier": one.verifier,
        "version": one.version,
        "tier": one.tier.value,
        "external": one.external,
        "method": one.method,
        "params": text,
        "item": one.item,
        "precedence": -finite(one.priority),
        "deadline": one.deadline,
        "max_attempts": one.max_attempts,
        "account": "human" if one.external else "compute",
    }
