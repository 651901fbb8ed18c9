"""Files of lab results: from the bytes that were sent to a sheet, whichever format they are in."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any

from verifier_service.domain.errors import InvalidInput, LimitExceeded
from verifier_service.domain.lab_results import LabFile, NewLabResults
from verifier_service.domain.lab_sheets import (
    MAX_CELL_CHARS,
    MAX_COLUMNS,
    MAX_FILE_BYTES,
    MAX_ROWS,
    BadCell,
    Cell,
    Sheet,
    SheetRow,
    text_cell,
)
from verifier_service.lab_files.text import csv_sheet, text_of
from verifier_service.lab_files.workbook_reader import read_workbook

REPEATED = "repeated_name"


def sheet_of(wanted: NewLabResults) -> Sheet | None:
    """The rows of a request, ``None`` where it holds plates alone. Raises ``InvalidInput``, and
    ``LimitExceeded`` naming the limit."""
    if wanted.rows is not None:
        return listed_sheet(wanted.rows)
    return None if wanted.file is None else file_sheet(wanted.file)


def file_sheet(file: LabFile) -> Sheet:
    """Read a file by its format."""
    if len(file.content) > MAX_FILE_BYTES * 4 // 3 + 4:
        raise _too_large()
    try:
        raw = base64.b64decode(file.content, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput("bad_base64", "the content is not base64", field="file.content") from error
    if len(raw) > MAX_FILE_BYTES:
        raise _too_large()
    readers = {"csv": csv_sheet, "json": json_sheet, "xlsx": read_workbook}
    return readers[file.kind](raw)


def _too_large() -> InvalidInput:
    message = f"the file has more than {MAX_FILE_BYTES} bytes"
    return LimitExceeded("file_too_large", message, limit=MAX_FILE_BYTES, field="file.content")


def json_sheet(raw: bytes) -> Sheet:
    """A list of objects, one for each row. NaN, infinities and repeated names are faults of their row."""
    try:
        found = json.loads(text_of(raw), object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("invalid_json", "the file is not JSON", field="file.content") from error
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise InvalidInput("not_a_list", "the file is no list of objects", field="file.content")
    return listed_sheet(found)


def listed_sheet(rows: Sequence[Mapping[str, Any]]) -> Sheet:
    """Rows as objects; the header is all their names, in the order in which they come."""
    if len(rows) > MAX_ROWS:
        raise LimitExceeded("too_many_rows", f"more than {MAX_ROWS} rows", limit=MAX_ROWS, field="rows")
    header: dict[str, None] = {}
    for row in rows:
        header.update(dict.fromkeys(row))
        if len(header) > MAX_COLUMNS:
            message = f"more than {MAX_COLUMNS} columns"
            raise LimitExceeded("too_many_columns", message, limit=MAX_COLUMNS, field="rows")
    if not header:
        raise InvalidInput("no_header", "the rows hold nothing", field="rows")
    titles = tuple(header)
    if any(isinstance(text_cell(title), BadCell) for title in titles):
        raise InvalidInput("bad_text", "a name holds NUL or half a character", field="rows")
    return Sheet(
        titles,
        tuple(
            SheetRow(at, tuple(_cell(row.get(name)) for name in titles)) for at, row in enumerate(rows, 1)
        ),
    )


def _pairs(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        for name in found:
            if names.count(name) > 1:
                found[name] = BadCell(REPEATED, f"{name!r} is there twice")
    return found


def _cell(value: Any) -> Cell:
    if value is None or isinstance(value, BadCell):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return BadCell("wrong_type", "neither text nor a number")
    if isinstance(value, str):
        if len(value) > MAX_CELL_CHARS:
            message = f"more than {MAX_CELL_CHARS} characters in a cell"
            raise LimitExceeded("cell_too_long", message, limit=MAX_CELL_CHARS, field="rows")
        return text_cell(value)
    try:
        return float(value)
    except OverflowError:
        return float("inf")
