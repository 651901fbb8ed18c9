"""The ledger: credits reserved and spent per run and account."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, case, func, select, update

from verifier_service.domain.checks import Reservation
from verifier_service.domain.errors import NotFound
from verifier_service.domain.runs import Account
from verifier_service.persistence import tables
from verifier_service.persistence.bulk import update_each
from verifier_service.persistence.database import Database, Values, ordered

_accounts, _checks, _runs = tables.accounts, tables.checks, tables.runs
_DUST = 1e-9

AccountKey = tuple[int, str]  # run primary key, kind


@dataclass(slots=True)
class Movement:
    """What one call changes on one account."""

    reserved: float = 0.0
    spent: float = 0.0


class Movements:
    """Changes gathered per account, so that each account is updated once and in one order."""

    def __init__(self) -> None:
        self._of: dict[AccountKey, Movement] = defaultdict(Movement)

    def add(self, run: int, kind: str, *, reserved: float = 0.0, spent: float = 0.0) -> None:
        """Add to the reserved and the spent credits of an account."""
        if reserved or spent:
            movement = self._of[run, kind]
            movement.reserved += reserved
            movement.spent += spent

    def accounts(self) -> list[AccountKey]:
        """The accounts that change."""
        return list(self._of)

    def of(self, account: AccountKey) -> Movement:
        """What changes on one of them."""
        return self._of[account]

    def apply(self, database: Database) -> None:
        """Write them, locking the accounts in order."""
        for (run, kind), movement in sorted(self._of.items()):
            database.run(
                update(_accounts)
                .where(_accounts.c.run == run, _accounts.c.kind == kind)
                .values(
                    reserved=_without_dust(_accounts.c.reserved + movement.reserved),
                    spent=_accounts.c.spent + movement.spent,
                )
            )


def _without_dust(amount: ColumnElement[float]) -> ColumnElement[float]:
    """Sums of doubles do not cancel exactly; a real deficit still violates the constraint."""
    return case((func.abs(amount) < _DUST, 0.0), else_=amount)


def accounts_of(database: Database, run: int) -> tuple[Account, ...]:
    """The accounts of a run by kind."""
    rows = database.all(select(_accounts).where(_accounts.c.run == run).order_by(_accounts.c.kind))
    return tuple(
        Account(kind=row.kind, limit=row.credit_limit, reserved=row.reserved, spent=row.spent)
        for row in rows
    )


def locked_accounts(database: Database, keys: Sequence[AccountKey]) -> dict[AccountKey, Account]:
    """Accounts by key, locked until the end of the transaction."""
    of_runs = (
        select(_accounts)
        .where(database.among(_accounts.c.run, ordered([run for run, _ in keys])))
        .order_by(_accounts.c.run, _accounts.c.kind)
    )
    return {
        (row.run, row.kind): Account(
            kind=row.kind, limit=row.credit_limit, reserved=row.reserved, spent=row.spent
        )
        for row in database.all(database.locked(of_runs))
    }


class SqlLedger:
    """See ``ports.work.Ledger``. Charges and refunds happen where attempts end (``leases.py``)."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def accounts(self, project: str, run: str) -> tuple[Account, ...]:
        row = self._db.first(select(_runs.c.pk).where(_runs.c.project == project, _runs.c.id == run))
        if row is None:
            raise NotFound("run_not_found", f"no run {run!r}")
        return accounts_of(self._db, row.pk)

    def totals(self) -> tuple[Account, ...]:
        sums = [func.sum(_accounts.c[name]).label(name) for name in ("reserved", "spent")]
        found = select(_accounts.c.kind, *sums).group_by(_accounts.c.kind).order_by(_accounts.c.kind)
        return tuple(
            Account(kind=row.kind, limit=None, reserved=row.reserved, spent=row.spent)
            for row in self._db.all(found)
        )

    def reserve(self, wanted: Sequence[Reservation]) -> dict[int, float]:
        """A check that is not running, or whose payer changed since its claim, gets nothing."""
        payers = self._payers(wanted)
        keys = [(payers[one.pk], one.account) for one in wanted if one.pk in payers]
        left = {key: account.available for key, account in locked_accounts(self._db, keys).items()}
        granted: dict[int, float] = {}
        movements, rows = Movements(), []
        for one in wanted:
            payer = payers.get(one.pk)
            if payer is None or one.pk in granted:
                continue
            share = min(one.wanted, left[payer, one.account])
            if share < one.least:
                continue
            granted[one.pk] = share
            left[payer, one.account] -= share
            movements.add(payer, one.account, reserved=share)
            rows.append({"pk": one.pk, "reserved": share, "account": one.account})
        self._note(rows)
        movements.apply(self._db)
        return granted

    def _payers(self, wanted: Sequence[Reservation]) -> dict[int, int]:
        """Payer per check that may reserve, with the check locked."""
        mine = (
            select(_checks.c.pk, _checks.c.payer)
            .where(self._db.among(_checks.c.pk, ordered([one.pk for one in wanted])))
            .where(_checks.c.state == "running", _checks.c.reserved == 0.0)
            .order_by(_checks.c.pk)
        )
        payer_of = {row.pk: row.payer for row in self._db.all(self._db.locked(mine))}
        names = select(_runs.c.pk, _runs.c.project, _runs.c.id).where(
            self._db.among(_runs.c.pk, ordered(list(payer_of.values())))
        )
        run_of = {row.pk: (row.project, row.id) for row in self._db.all(names)}
        return {
            one.pk: payer_of[one.pk]
            for one in wanted
            if one.pk in payer_of and run_of[payer_of[one.pk]] == (one.project, one.run)
        }

    def _note(self, rows: Sequence[Values]) -> None:
        update_each(self._db, _checks, rows)
