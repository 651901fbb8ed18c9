"""How attempts end: completed by their holder, reaped, reclaimed, or decided outside.

Every end releases the check's reservation and charges its payer in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, func, select, update

from verifier_service.domain.checks import Completion
from verifier_service.domain.errors import IllegalTransition
from verifier_service.domain.evidence import Cost, Evidence, Failure, Tier
from verifier_service.domain.history import AttemptEnd, Ran
from verifier_service.domain.states import LIVE_CHECKS, CheckState, require_move
from verifier_service.persistence import attempts, tables
from verifier_service.persistence.bulk import NOW, update_each
from verifier_service.persistence.cases import read_cost
from verifier_service.persistence.database import Database, clock, ordered, sql
from verifier_service.persistence.documents import dumped
from verifier_service.persistence.ledger import AccountKey, Movements, locked_accounts

_checks, _counters = tables.checks, tables.counters
Late = tuple[Row[Any], Completion]  # a cancelled check, and what its attempt reports afterwards
_AT_WORK = (CheckState.RUNNING, CheckState.WAITING_EXTERNAL)
MAX_INTERRUPTIONS = 20
STALE = "stale_completions"
WORKER_LOST = Failure(
    kind="transient", code="worker_lost", message="the worker stopped renewing its lease", retryable=True
)
INTERRUPTED = Failure(
    kind="transient", code="interrupted", message="the service stopped during every attempt", retryable=True
)

ATTEMPT = select(
    _checks.c.pk,
    _checks.c.state,
    _checks.c.tier,
    _checks.c.lease_owner,
    _checks.c.fence,
    _checks.c.attempt,
    _checks.c.max_attempts,
    _checks.c.interruptions,
    _checks.c.payer,
    _checks.c.account,
    _checks.c.reserved,
    _checks.c.cost,
    _checks.c.version,
    _checks.c.created_at,
    _checks.c.queued_at,
    _checks.c.started_at,
    clock().label("now"),
)


# The bound on the time makes the index of leases usable.
_HELD = ATTEMPT.where(sql(tables.RUNNING), _checks.c.lease_until >= 0.0)


class Beyond(NamedTuple):
    """Credits that an attempt, or people, took beyond the reservation, its row, and that of its history if
    there is."""

    account: AccountKey
    credits: float
    row: dict[str, Any]
    logged: dict[str, Any] | None


class Ends:
    """The ends of several attempts, written together: checks first, then the accounts they touch."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._rows: list[dict[str, Any]] = []
        self._history: list[dict[str, Any]] = []
        self._movements = Movements()
        self._beyond: list[Beyond] = []

    def add(
        self,
        attempt: Row[Any],
        state: CheckState,
        *,
        end: AttemptEnd | None,
        ran: Ran | None = None,
        evidence: Evidence | None = None,
        failure: Failure | None = None,
        cost: Cost | None = None,
        credits: float = 0.0,
        spent_attempts: int = 0,
        interruptions: int = 0,
        delay_s: float = 0.0,
    ) -> None:
        """End one locked attempt in ``state``; its history says ``end``, or nothing at all."""
        require_move(CheckState(attempt.state), state)
        if (state is CheckState.SUCCEEDED) != (evidence is not None):
            raise IllegalTransition(
                "evidence_required", "a check succeeds with evidence, and only then has it"
            )
        charged = max(0.0, min(credits, attempt.reserved))
        self._movements.add(attempt.payer, attempt.account, reserved=-attempt.reserved, spent=charged)
        if end is not None and attempt.state != CheckState.QUEUED:
            self._db.count("attempts", Tier(attempt.tier), end.value)
            self._history.append(attempts.row(attempt, end, ran, failure, cost, charged))
        self._rows.append(
            {
                "pk": attempt.pk,
                "state": state.value,
                "attempt": attempt.attempt + spent_attempts,
                "interruptions": attempt.interruptions + interruptions,
                "spent": charged,
                "cost": attempt.cost if cost is None else dumped(read_cost(attempt.cost) + cost),
                "evidence": None if evidence is None else dumped(evidence),
                "failure": None if failure is None else dumped(failure),
                "not_before": attempt.now + delay_s if delay_s > 0 else None,
                "ended_at": None if state in LIVE_CHECKS else attempt.now,
                "queued_at": attempt.now if state is CheckState.QUEUED else attempt.queued_at,
            }
        )

        if credits > attempt.reserved and attempt.state in _AT_WORK:
            logged = next((one for one in self._history[-1:] if one["check_pk"] == attempt.pk), None)
            key = (attempt.payer, attempt.account)
            self._beyond.append(Beyond(key, credits - attempt.reserved, self._rows[-1], logged))

    def accounts(self) -> list[AccountKey]:
        """The accounts that ``write`` changes."""
        return self._movements.accounts()

    def write(self) -> list[int]:
        """Apply everything; returns the pks that ended."""
        ended = {"reserved": 0.0, "lease_owner": None, "lease_until": None}
        if self._beyond:
            self._charge_beyond()
        update_each(self._db, _checks, self._rows, adding=["spent"], **ended)
        attempts.write(self._db, self._history)
        self._movements.apply(self._db)
        return [row["pk"] for row in self._rows]

    def _charge_beyond(self) -> None:
        """What attempts took beyond their reservations is charged as far as the accounts go."""
        accounts = locked_accounts(self._db, self._movements.accounts())
        left = {key: account.available for key, account in accounts.items()}
        for key in accounts:
            moved = self._movements.of(key)
            left[key] -= moved.reserved + moved.spent
        for one in self._beyond:
            extra = min(one.credits, max(left.get(one.account, 0.0), 0.0))
            if extra > 0.0:
                left[one.account] -= extra
                self._movements.add(*one.account, spent=extra)
                one.row["spent"] += extra
                if one.logged is not None:
                    one.logged["credits"] += extra


class Endings:
    """The part of ``ports.work.Checks`` that ends attempts."""

    _db: Database

    def complete(self, owner: str, completions: Sequence[Completion]) -> set[int]:
        attempts = self._attempts([one.pk for one in completions])
        ends, stale = Ends(self._db), 0
        late: list[Late] = []
        for one in completions:
            attempt = attempts.get(one.pk)
            if attempt is None or not _holds(attempt, owner, one.fence):
                stale += 1
                if attempt is not None and attempt.state == CheckState.CANCELLED:
                    late.append((attempt, one))
                continue
            del attempts[one.pk]
            state = one.state
            if (
                state is CheckState.QUEUED
                and one.spend_attempt
                and attempt.attempt + 1 >= attempt.max_attempts
            ):
                state = CheckState.FAILED
            ends.add(
                attempt,
                state,
                end=_end(state, one),
                ran=one.ran,
                evidence=one.evidence,
                failure=one.failure,
                cost=one.cost,
                credits=one.credits,
                spent_attempts=int(one.spend_attempt),
                delay_s=one.delay_s if state is CheckState.QUEUED else 0.0,
            )
        late = self._stopped_late(late)
        if late:  # all accounts in one go: those of the ends and then these could be out of order
            locked_accounts(self._db, [*ends.accounts(), *_accounts_of(late)])
        accepted = set(ends.write())
        self._charge_late(late)
        self._count_stale(stale)
        return accepted

    def _stopped_late(self, late: Sequence[Late]) -> list[Late]:
        """Those whose cancelled attempt says for the first time what it had used; that is now noted."""
        return [(attempt, one) for attempt, one in late if attempts.measured_late(self._db, one)]

    def _charge_late(self, late: Sequence[Late]) -> None:
        """What a cancelled attempt had consumed is paid, as far as its payer's budget goes; its result
        stays discarded."""
        owed = [(attempt, one) for attempt, one in late if one.credits > 0]
        if not owed:
            return
        accounts = locked_accounts(self._db, _accounts_of(owed))
        left = {key: account.available for key, account in accounts.items()}
        movements, rows = Movements(), []
        for attempt, one in owed:
            key = (attempt.payer, attempt.account)
            charged = min(one.credits, left[key])
            left[key] -= charged
            movements.add(attempt.payer, attempt.account, spent=charged)
            cost = dumped(read_cost(attempt.cost) + one.cost)
            rows.append({"pk": attempt.pk, "spent": charged, "cost": cost})
            attempts.charged_late(self._db, one, charged)
        update_each(self._db, _checks, rows, adding=["spent"])
        movements.apply(self._db)

    def finish_external(
        self,
        pk: int,
        state: CheckState,
        *,
        evidence: Evidence | None = None,
        failure: Failure | None = None,
        cost: Cost | None = None,
        credits: float = 0.0,
    ) -> bool:
        attempt = self._attempts([pk]).get(pk)
        if attempt is None or attempt.state != CheckState.WAITING_EXTERNAL:
            return False
        ends = Ends(self._db)
        end = AttemptEnd(state.value)
        ends.add(attempt, state, end=end, evidence=evidence, failure=failure, cost=cost, credits=credits)
        return ends.write() == [pk]

    def waiting(self, pks: Collection[int]) -> list[int]:
        held = self._attempts(pks) if pks else {}
        return [pk for pk, attempt in held.items() if attempt.state == CheckState.WAITING_EXTERNAL]

    def answer(self, found: Mapping[int, Evidence]) -> set[int]:
        ends, done = Ends(self._db), CheckState.SUCCEEDED
        for pk, attempt in self._attempts(found).items():
            if attempt.state == CheckState.WAITING_EXTERNAL:
                ends.add(attempt, done, end=AttemptEnd.SUCCEEDED, evidence=found[pk], cost=found[pk].cost)
        return set(ends.write())

    def amend(self, found: Mapping[int, Evidence]) -> set[int]:
        these = (self._db.among(_checks.c.pk, ordered(list(found))), _checks.c.external)
        stands = (_checks.c.state == CheckState.SUCCEEDED.value, _checks.c.retraction.is_(None))
        held = self._db.locked(select(_checks.c.pk).where(*these, *stands).order_by(_checks.c.pk))
        rows = [{"pk": row.pk, "evidence": dumped(found[row.pk])} for row in self._db.all(held)]
        update_each(self._db, _checks, rows, ended_at=NOW)
        return {row["pk"] for row in rows}

    def reap(self, limit: int) -> list[int]:
        expired = ATTEMPT.where(sql(tables.RUNNING), _checks.c.lease_until < clock())
        ends = Ends(self._db)
        for attempt in self._skipping(expired.order_by(_checks.c.lease_until).limit(limit)):
            last = attempt.attempt + 1 >= attempt.max_attempts
            state = CheckState.FAILED if last else CheckState.QUEUED
            ends.add(attempt, state, end=AttemptEnd.LOST, failure=WORKER_LOST, spent_attempts=1)
        return ends.write()

    def reclaim(self, owner_prefix: str) -> list[int]:
        prefixed = func.substr(_checks.c.lease_owner, 1, len(owner_prefix)) == owner_prefix
        return self._interrupt(self._skipping(_HELD.where(prefixed)))

    def disown(self, owner: str, held: Mapping[int, int]) -> list[int]:
        leased = self._skipping(_HELD.where(_checks.c.lease_owner == owner))
        return self._interrupt([one for one in leased if held.get(one.pk) != one.fence])

    def _interrupt(self, attempts: Sequence[Row[Any]]) -> list[int]:
        ends = Ends(self._db)
        for attempt in attempts:
            last = attempt.interruptions + 1 >= MAX_INTERRUPTIONS
            state = CheckState.FAILED if last else CheckState.QUEUED
            failure = INTERRUPTED if last else None
            ends.add(attempt, state, end=AttemptEnd.INTERRUPTED, failure=failure, interruptions=1)
        return ends.write()

    def stale_completions(self) -> int:
        row = self._db.first(select(_counters.c.value).where(_counters.c.name == STALE))
        return 0 if row is None else int(row.value)

    def _attempts(self, pks: Iterable[int]) -> dict[int, Row[Any]]:
        """Attempts by pk, locked in order."""
        these = ATTEMPT.where(self._db.among(_checks.c.pk, ordered(list(pks)))).order_by(_checks.c.pk)
        return {row.pk: row for row in self._db.all(self._db.locked(these))}

    def _skipping(self, attempts: Select[Any]) -> Sequence[Row[Any]]:
        """Attempts that nobody else is ending right now."""
        return self._db.all(self._db.locked(attempts, skip=True))

    def _count_stale(self, count: int) -> None:
        if count:
            self._db.run(self._db.insert_new(_counters).values(name=STALE, value=0))
            more = update(_counters).where(_counters.c.name == STALE)
            self._db.run(more.values(value=_counters.c.value + count))


def _accounts_of(late: Sequence[Late]) -> list[AccountKey]:
    return [(attempt.payer, attempt.account) for attempt, _ in late]


def _holds(attempt: Row[Any], owner: str, fence: int) -> bool:
    return bool(
        attempt.state == CheckState.RUNNING and attempt.lease_owner == owner and attempt.fence == fence
    )


def _end(state: CheckState, one: Completion) -> AttemptEnd | None:
    """How history calls what a lease holder reported; nothing where nothing was tried."""
    if not one.attempted:
        return None
    if state is CheckState.QUEUED:
        return AttemptEnd.REQUEUED if one.spend_attempt else AttemptEnd.RELEASED
    return AttemptEnd(state.value)
