"""What happens to checks when the demands for them are withdrawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Row, case, func, select, update

from verifier_service.domain.evidence import Cost
from verifier_service.domain.history import AttemptEnd
from verifier_service.domain.review_trail import SERVICE, Act
from verifier_service.domain.reviews import ReviewState
from verifier_service.domain.runs import Account
from verifier_service.domain.states import CheckState
from verifier_service.persistence import review_tables, tables
from verifier_service.persistence.bulk import update_each
from verifier_service.persistence.database import Database, ordered, sql
from verifier_service.persistence.desk_rows import TOLD
from verifier_service.persistence.endings import ATTEMPT, Ends
from verifier_service.persistence.ledger import AccountKey, Movements, locked_accounts
from verifier_service.persistence.review_trail import SqlReviewTrail

_checks, _demands = tables.checks, tables.demands
_reviews, _votes = review_tables.reviews, review_tables.votes
_WAITING = CheckState.WAITING_EXTERNAL.value


class _Taken(NamedTuple):
    """Seconds of people, and their credits."""

    human_s: float
    credits: float


_ACTS = {ReviewState.EXPIRED: Act.EXPIRED, ReviewState.CANCELLED: Act.CANCELLED}
_NOTHING = _Taken(0.0, 0.0)


class Withdrawals:
    """The part of ``ports.work.Checks`` that follows a withdrawal."""

    _db: Database

    def withdraw(self, pks: Collection[int], *, expired: bool = False) -> list[int]:
        """A payer that left passes a running check's reservation on. If no other run's budget covers
        it, the reservation stays where it is: the attempt was started within that budget."""
        these = ATTEMPT.where(self._db.among(_checks.c.pk, ordered(pks)), sql(tables.LIVE))
        attempts = self._db.all(self._db.locked(these.order_by(_checks.c.pk)))
        runs = self._wanting_runs([attempt.pk for attempt in attempts])
        cast = self._votes_of([attempt.pk for attempt in attempts if attempt.state == _WAITING])
        ends, orphans = Ends(self._db), []
        for attempt in attempts:
            wanting = runs.get(attempt.pk, [])
            if not wanting:
                taken = cast.get(attempt.pk, _NOTHING)
                cost = Cost(human_s=taken.human_s) if taken.human_s else None
                end = AttemptEnd.CANCELLED
                ends.add(attempt, CheckState.CANCELLED, end=end, cost=cost, credits=taken.credits)
            elif attempt.payer not in wanting:
                orphans.append((attempt, wanting))
        cancelled = ends.write()
        self._clear_desk(cancelled, ReviewState.EXPIRED if expired else ReviewState.CANCELLED)
        self._pass_on(orphans)
        return cancelled

    def _votes_of(self, waiting: Sequence[int]) -> dict[int, _Taken]:
        """What the votes that stand took, by check: people are paid whether or not their votes count."""
        if not waiting:
            return {}
        said = case((_votes.c.human_s > 0, _votes.c.human_s), else_=_reviews.c.typical_s)
        found = (
            select(
                _reviews.c.check_pk,
                func.sum(said).label("human_s"),
                func.sum(said * _reviews.c.second_price).label("credits"),
            )
            .join(_votes, _votes.c.review == _reviews.c.pk)
            .where(self._db.among(_reviews.c.check_pk, ordered(waiting)), sql(review_tables.PENDING))
            .group_by(_reviews.c.check_pk)
        )
        return {row.check_pk: _Taken(row.human_s, row.credits) for row in self._db.all(found)}

    def _clear_desk(self, cancelled: Sequence[int], state: ReviewState) -> None:
        """Nobody should work on an item that nobody wants any more."""
        if cancelled:
            pending = update(_reviews).where(
                self._db.among(_reviews.c.check_pk, cancelled), sql(review_tables.PENDING)
            )
            closed = pending.values(state=state.value, claimed_by=None, claimed_until=None)
            trail = SqlReviewTrail(self._db)
            for row in self._db.all(closed.returning(*TOLD)):
                trail.note(row.project, _ACTS[state], SERVICE, queue=row.queue, review=row.id)

    def _wanting_runs(self, pks: Collection[int]) -> dict[int, list[int]]:
        """Runs with a requested demand, per check, the earliest demand first."""
        found = select(_demands.c.check_pk, _demands.c.run).where(
            self._db.among(_demands.c.check_pk, pks), sql(tables.REQUESTED)
        )
        runs: dict[int, list[int]] = defaultdict(list)
        for row in self._db.all(found.order_by(_demands.c.pk)):
            runs[row.check_pk].append(row.run)
        return runs

    def _pass_on(self, orphans: Sequence[tuple[Row[Any], list[int]]]) -> None:
        kinds = [
            (run, attempt.account)
            for attempt, wanting in orphans
            if attempt.reserved > 0
            for run in (attempt.payer, *wanting)
        ]
        left = {key: account.available for key, account in self._accounts(kinds).items()}
        movements, rows = Movements(), []
        for attempt, wanting in orphans:
            heir = _heir(attempt, wanting, left)
            if heir is None:
                continue
            movements.add(attempt.payer, attempt.account, reserved=-attempt.reserved)
            movements.add(heir, attempt.account, reserved=attempt.reserved)
            rows.append({"pk": attempt.pk, "payer": heir})
        update_each(self._db, _checks, rows)
        movements.apply(self._db)

    def _accounts(self, keys: Sequence[AccountKey]) -> dict[AccountKey, Account]:
        return locked_accounts(self._db, keys) if keys else {}


def _heir(attempt: Row[Any], wanting: Sequence[int], left: dict[AccountKey, float]) -> int | None:
    """The first demanding run that can carry the reservation."""
    if attempt.reserved == 0:
        return wanting[0]
    for run in wanting:
        key = (run, attempt.account)
        if left[key] >= attempt.reserved:
            left[key] -= attempt.reserved
            return run
    return None
