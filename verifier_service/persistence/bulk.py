"""Many rows in one statement.

On SQLite a prepared statement runs once per row, handed to the driver as it is: the toolkit's handling of
each parameter would cost several times the insert. On Postgres the rows travel as one JSON document, where
a parameter per value costs more than everything else together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeAlias

import orjson
from sqlalchemy import (
    JSON,
    ColumnElement,
    FromClause,
    Insert,
    Row,
    Table,
    Text,
    Update,
    bindparam,
    cast,
    column,
    false,
    func,
    insert,
    literal_column,
    null,
    select,
    true,
    update,
)
from sqlalchemy.dialects import sqlite

from verifier_service.persistence.database import Database, Values, clock

Constant: TypeAlias = str | float | None
Constants: TypeAlias = tuple[tuple[str, Constant], ...]


class Now(float):
    """Stands for database time among constants."""


NOW = Now()


def insert_all(database: Database, table: Table, rows: Sequence[Values]) -> None:
    """Insert the rows; one that a unique index refuses is an error."""
    _insert(database, table, rows, (), (), skip=False)


def insert_new(
    database: Database, table: Table, rows: Sequence[Values], *returning: str, **constants: Constant
) -> Sequence[Row[Any]]:
    """Insert, in order, the rows that no unique index refuses; ``constants`` are equal in all of them.

    Returns the ``returning`` columns of the inserted ones.
    """
    return _insert(database, table, rows, returning, tuple(constants.items()), skip=True)


def update_each(
    database: Database,
    table: Table,
    rows: Sequence[Values],
    *,
    adding: Sequence[str] = (),
    **constants: Constant,
) -> None:
    """Change one row per entry, found by its ``pk``: its other names replace the columns of that name, or
    are added to them when listed in ``adding``."""
    if not rows:
        return
    names, equal = tuple(rows[0]), tuple(constants.items())
    if not database.postgres:
        _each(database, _update_text(table, names, tuple(adding), equal), rows)
        return
    given = _given(table, rows)
    values = {
        name: table.c[name] + given.c[name] if name in adding else given.c[name]
        for name in names
        if name != "pk"
    }
    changed = update(table).where(table.c.pk == given.c.pk)
    database.run(changed.values({**values, **_expressions(equal)}))


def _insert(
    database: Database,
    table: Table,
    rows: Sequence[Values],
    returning: Sequence[str],
    constants: Constants,
    *,
    skip: bool,
) -> Sequence[Row[Any]]:
    if not rows:
        return []
    columns = [table.c[name] for name in returning]
    if database.postgres:
        given, equal = _given(table, rows), _expressions(constants)
        chosen = select(*given.c, *equal.values())
        made = database.insert_new(table) if skip else insert(table)
        made = made.from_select([*rows[0], *equal], chosen)
        if columns:
            return database.all(made.returning(*columns))
        database.run(made)
        return []
    text = _insert_text(table, tuple(rows[0]), constants, skip)
    if not columns:
        _each(database, text, rows)
        return []
    # The driver returns nothing from many executions. Nobody else writes meanwhile, and keys rise.
    last = database.connection.execute(select(func.coalesce(func.max(table.c.pk), 0))).scalar_one()
    _each(database, text, rows)
    return database.all(select(*columns).where(table.c.pk > last).order_by(table.c.pk))


def _each(database: Database, prepared: tuple[str, tuple[str, ...]], rows: Sequence[Values]) -> None:
    text, order = prepared
    pick = itemgetter(*order)
    values = [pick(row) for row in rows] if len(order) > 1 else [(pick(row),) for row in rows]
    database.connection.exec_driver_sql(text, values)


@lru_cache(maxsize=128)
def _insert_text(
    table: Table, names: tuple[str, ...], constants: Constants, skip: bool
) -> tuple[str, tuple[str, ...]]:
    made = sqlite.insert(table).values(
        {**{name: bindparam(name) for name in names}, **_expressions(constants)}
    )
    return _prepared(made.on_conflict_do_nothing() if skip else made)


@lru_cache(maxsize=128)
def _update_text(
    table: Table, names: tuple[str, ...], adding: tuple[str, ...], constants: Constants
) -> tuple[str, tuple[str, ...]]:
    new: dict[str, ColumnElement[Any]] = {name: bindparam(f"new_{name}") for name in names if name != "pk"}
    values = {name: table.c[name] + one if name in adding else one for name, one in new.items()}
    changed = update(table).where(table.c.pk == bindparam("new_pk"))
    text, order = _prepared(changed.values({**values, **_expressions(constants)}))
    return text, tuple(name.removeprefix("new_") for name in order)


def _prepared(statement: Insert | Update) -> tuple[str, tuple[str, ...]]:
    """The text with question marks, and the names that they stand for."""
    compiled = statement.compile(dialect=sqlite.dialect())
    return str(compiled), tuple(compiled.positiontup or ())


def _given(table: Table, rows: Sequence[Values]) -> FromClause:
    document = cast(bindparam(None, orjson.dumps(rows).decode(), type_=Text()), JSON)
    columns = [column(name, table.c[name].type) for name in rows[0]]
    return func.json_to_recordset(document).table_valued(*columns).render_derived("given", with_types=True)


def _expressions(constants: Constants) -> dict[str, ColumnElement[Any]]:
    return {name: _expression(value) for name, value in constants}


def _expression(value: Constant) -> ColumnElement[Any]:
    """Values that code names, as SQL text: a bound one would be sent again with every row."""
    if isinstance(value, Now):
        return clock()
    if value is None:
        return null()
    if isinstance(value, bool):
        return true() if value else false()
    return literal_column(f"'{value}'" if isinstance(value, str) else repr(value))
