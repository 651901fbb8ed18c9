"""XLSX workbooks: the values of the first sheet, read with openpyxl (MIT) where it is installed.

This runs in a process that can be killed, see ``workbook_reader``, and on parts that were checked before,
see ``archives``. Formulas are not evaluated: what counts is the value that was last shown, and a formula
that was saved without one is an empty cell.
"""

from __future__ import annotations

import importlib
import io
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.lab_sheets import (
    MAX_CELL_CHARS,
    MAX_COLUMNS,
    MAX_FILE_BYTES,
    MAX_LINES,
    MAX_ROWS,
    BadCell,
    Cell,
    Sheet,
    SheetRow,
    is_blank,
    text_cell,
)
from verifier_service.lab_files.archives import checked, require

MAX_LOOKED_AT = 2_000_000
MAX_TEXT_CHARS = MAX_FILE_BYTES  # of all cells; texts that cells share count each time


def xlsx_sheet(raw: bytes) -> Sheet:
    """The first sheet of a workbook. Raises ``InvalidInput`` with ``xlsx_not_installed`` without the extra,
    ``bad_workbook`` for what cannot be read, and ``LimitExceeded``."""
    parts = checked(raw)
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError as error:
        message = "this server reads no XLSX: install verifier-service[xlsx], or send CSV"
        raise InvalidInput("xlsx_not_installed", message, field="file.content") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and extensions that are not read
            book = openpyxl.load_workbook(
                io.BytesIO(parts), read_only=True, data_only=True, keep_links=False, keep_vba=False
            )
            try:
                return _sheet(book.worksheets[0])
            finally:
                book.close()
    except InvalidInput:
        raise
    except Exception as error:  # whatever the parsers of openpyxl raise at what they did not expect
        raise InvalidInput("bad_workbook", "the workbook cannot be read", field="file.content") from error


def _sheet(worksheet: Any) -> Sheet:
    worksheet.reset_dimensions()  # what the file says of its size is not believed
    found = worksheet.iter_rows(max_row=MAX_LINES + 1, values_only=True)
    header: tuple[str, ...] | None = None
    rows: list[SheetRow] = []
    looked_at = characters = 0
    for line, values in enumerate(found, 1):
        require(line, MAX_LINES, "too_many_rows", "lines")
        looked_at += len(values)
        require(looked_at, MAX_LOOKED_AT, "too_many_cells", "cells, with empty ones")
        cells = _trimmed([_cell(value) for value in values])
        characters += sum(len(cell) for cell in cells if isinstance(cell, str))
        require(characters, MAX_TEXT_CHARS, "too_much_text", "characters in cells")
        if not cells:
            continue
        if len(cells) > MAX_COLUMNS:
            require(len(cells), MAX_COLUMNS, "too_many_columns", "columns")
        if header is None:
            header = tuple(cell if isinstance(cell, str) else "" if cell is None else "?" for cell in cells)
            continue
        if len(cells) > len(header):
            message = f"row {line} has {len(cells)} cells, the header {len(header)}"
            raise InvalidInput("too_many_cells", message, field="file.content")
        rows.append(SheetRow(line, (*cells, *(None for _ in range(len(header) - len(cells))))))
        require(len(rows), MAX_ROWS, "too_many_rows", "rows")
    if header is None:
        raise InvalidInput("no_header", "the first sheet is empty", field="file.content")
    return Sheet(header, tuple(rows))


def _trimmed(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    used: Iterable[int] = (at for at, cell in enumerate(cells, 1) if not is_blank(cell))
    return tuple(cells[: max(used, default=0)])


def _cell(value: Any) -> Cell:
    if value is None:
        return None
    if isinstance(value, bool):
        return BadCell("wrong_type", "neither text nor a number")
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        require(len(value), MAX_CELL_CHARS, "cell_too_long", "characters in a cell")
        return text_cell(value)
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return BadCell("wrong_type", "neither text nor a number")
