"""One connection inside one transaction, and the few statements that differ between databases."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sqlalchemy import (
    ARRAY,
    BindParameter,
    Boolean,
    ColumnElement,
    Connection,
    Double,
    Executable,
    FromClause,
    Row,
    Select,
    Table,
    Text,
    any_,
    bindparam,
    literal_column,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.visitors import InternalTraversal

from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.meters import Series

Values: TypeAlias = Mapping[str, Any]
_HUGE = 1e300
NOW_ON_SQLITE = "((julianday('now') - 2440587.5) * 86400.0)"
# A scalar subquery is evaluated once; the bare function would run for every row and hide indexes.
NOW_ON_POSTGRES = "(SELECT extract(epoch FROM clock_timestamp())::double precision)"


class clock(ColumnElement[float]):  # noqa: N801 - reads as an SQL function where it is used
    """Database time in epoch seconds, evaluated once per statement."""

    type = Double()
    inherit_cache = True
    _traverse_internals = []  # nothing in it varies: statements with it are cached


@compiles(clock, "sqlite")
def _sqlite_clock(_element: clock, _compiler: SQLCompiler, **_: Any) -> str:
    return NOW_ON_SQLITE


@compiles(clock, "postgresql")
def _postgres_clock(_element: clock, _compiler: SQLCompiler, **_: Any) -> str:
    return NOW_ON_POSTGRES


class _listed(ColumnElement[bool]):  # noqa: N801 - reads as an SQL operator
    """``column IN`` a JSON array. One node: a table-valued function, built anew for every statement, took
    more time than most of the statements it was in."""

    type = Boolean()
    _is_implicitly_boolean = True
    inherit_cache = True
    _traverse_internals = [
        ("column", InternalTraversal.dp_clauseelement),
        ("array", InternalTraversal.dp_clauseelement),
    ]

    def __init__(self, column: ColumnElement[Any], array: BindParameter[str]) -> None:
        self.column = column
        self.array = array

    @property
    def _from_objects(self) -> list[FromClause]:
        return self.column._from_objects


@compiles(_listed, "sqlite")
def _sqlite_listed(element: _listed, compiler: SQLCompiler, **options: Any) -> str:
    column, array = compiler.process(element.column, **options), compiler.process(element.array, **options)
    return f"{column} IN (SELECT value FROM json_each({array}))"  # noqa: S608 - a column and a parameter


@dataclass(frozen=True, slots=True)
class Database:
    """What every part of a transaction works with. ``counts`` and ``events`` are told once it is
    committed."""

    connection: Connection
    postgres: bool
    counts: Counter[Series] = field(default_factory=Counter)
    events: list[tuple[int, str, Mapping[str, Any]]] = field(default_factory=list)

    def count(self, name: str, tier: Tier | None = None, kind: str = "", amount: int = 1) -> None:
        """Count something of this transaction."""
        self.counts[Series(name, tier, kind)] += amount

    def now(self) -> float:
        """Database time."""
        return float(self.connection.execute(select(clock())).scalar_one())

    def run(self, statement: Executable, rows: Sequence[Values] | Values | None = None) -> int:
        """Execute for effect; returns the rows matched by one UPDATE or DELETE (inserts do not tell)."""
        if rows is not None and not rows:
            return 0
        return self.connection.execute(statement, rows).rowcount

    def all(
        self, statement: Executable, rows: Sequence[Values] | Values | None = None
    ) -> Sequence[Row[Any]]:
        """Execute and fetch everything."""
        if rows is not None and not rows:
            return []
        return self.connection.execute(statement, rows).all()

    def first(self, statement: Executable) -> Row[Any] | None:
        """Execute and fetch the first row."""
        return self.connection.execute(statement).first()

    def among(self, column: ColumnElement[Any], values: Iterable[Any]) -> ColumnElement[bool]:
        """``column IN values`` as one parameter: no limit on their number, one cached statement."""
        listed = list(values)
        if self.postgres:
            return column == any_(bindparam(None, listed, type_=ARRAY(column.type)))
        return _listed(column, bindparam(None, json.dumps(listed), type_=Text()))

    def insert_new(self, table: Table) -> postgresql.Insert | sqlite.Insert:
        """An insert that skips rows which exist, under any unique index."""
        if self.postgres:
            return postgresql.insert(table).on_conflict_do_nothing()
        return sqlite.insert(table).on_conflict_do_nothing()

    def locked(
        self, statement: Select[Any], *, of: FromClause | None = None, skip: bool = False
    ) -> Select[Any]:
        """Lock the selected rows until the end of the transaction.

        SQLite writers already hold the only write lock. ``key_share`` lets inserts that refer to the
        row by foreign key pass.
        """
        if not self.postgres:
            return statement
        return statement.with_for_update(key_share=True, skip_locked=skip, of=of)


def sql(predicate: str) -> ColumnElement[bool]:
    """A predicate as literal text: a partial index is used only where its literals are repeated."""
    return literal_column(f"({predicate})")


def clean(text: str) -> str:
    """Text that both databases take: NUL and lone surrogates become U+FFFD.

    Intake refuses both at the door; this guards what verifiers and operators write.
    """
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def finite(number: float) -> float:
    """A number that sorts the same and that JSON can carry; not-a-number sorts as zero."""
    return 0.0 if number != number else max(-_HUGE, min(_HUGE, number))


def ordered(values: Collection[int]) -> list[int]:
    """Distinct primary keys in locking order."""
    return sorted(set(values))
