"""XLSX workbooks: the values of the first sheet, read with openpyxl (MIT) where it is installed.

A workbook is a zip archive of XML and untrusted: before anything is unpacked its directory is held against
limits. ``zipfile`` never reads more of an entry than the directory announces and compares its CRC-32, so an
entry that lies about its size is a broken one. Formulas are not evaluated: what counts is the value that
was last shown, and a formula that was saved without one is an empty cell.
"""

from __future__ import annotations

import importlib
import io
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from verifier_service.domain.errors import InvalidInput, LimitExceeded
from verifier_service.domain.lab_sheets import (
    MAX_CELL_CHARS,
    MAX_COLUMNS,
    MAX_LINES,
    MAX_ROWS,
    BadCell,
    Cell,
    Sheet,
    SheetRow,
    is_blank,
    text_cell,
)

MAX_ENTRIES = 1_000
MAX_UNPACKED_BYTES = 32 * 1024 * 1024
MAX_LOOKED_AT = 2_000_000
MAX_TAGS = 1_000_000  # read in some five seconds
MAX_TAGS_ELSEWHERE = 60_000
MAX_RATIO = 200  # sheets of numbers are packed about 10 to 1
SMALL_BYTES = 64 * 1024  # for which no ratio is harmful
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError)


def xlsx_sheet(raw: bytes) -> Sheet:
    """The first sheet of a workbook. Raises ``InvalidInput`` with ``xlsx_not_installed`` without the extra,
    ``bad_workbook`` for what cannot be read, and ``LimitExceeded``."""
    check_archive(raw)
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError as error:
        message = "this server reads no XLSX: install verifier-service[xlsx], or send CSV"
        raise InvalidInput("xlsx_not_installed", message, field="file.content") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and extensions that are not read
            book = openpyxl.load_workbook(
                io.BytesIO(raw), read_only=True, data_only=True, keep_links=False, keep_vba=False
            )
            try:
                return _sheet(book.worksheets[0])
            finally:
                book.close()
    except InvalidInput:
        raise
    except Exception as error:  # whatever the parsers of openpyxl raise at what they did not expect
        raise InvalidInput("bad_workbook", "the workbook cannot be read", field="file.content") from error


def check_archive(raw: bytes) -> None:
    """Hold a zip archive's directory against the limits. Raises ``InvalidInput`` or ``LimitExceeded``."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            entries = archive.infolist()
            _require(len(entries), MAX_ENTRIES, "too_many_entries", "entries")
            _require(
                sum(one.file_size for one in entries),
                MAX_UNPACKED_BYTES,
                "unpacks_too_large",
                "bytes unpacked",
            )
            for one in entries:
                if one.file_size > max(SMALL_BYTES, MAX_RATIO * one.compress_size):
                    _require(MAX_RATIO + 1, MAX_RATIO, "packed_too_tight", "times its packed size")
            _check_markup(archive, [one for one in entries if one.filename.endswith((".xml", ".rels"))])
    except _BROKEN as error:
        raise InvalidInput("bad_workbook", "this is no XLSX workbook", field="file.content") from error


def _check_markup(archive: zipfile.ZipFile, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Count tags before a parser makes objects of them, and refuse declarations of entities, which
    workbooks have none of. A cell has four tags; what is elsewhere costs ten times as much to read."""
    in_sheets = elsewhere = 0
    for entry in entries:
        part = archive.read(entry)
        if b"<!DOCTYPE" in part or b"<!ENTITY" in part:
            raise InvalidInput("bad_workbook", "the workbook declares entities", field="file.content")
        if entry.filename.startswith(("xl/worksheets/", "xl/sharedStrings")):
            in_sheets += part.count(b"<")
        else:
            elsewhere += part.count(b"<")
    _require(in_sheets, MAX_TAGS, "too_much_markup", "tags in sheets")
    _require(elsewhere, MAX_TAGS_ELSEWHERE, "too_much_markup", "tags in styles and the rest")


def _sheet(worksheet: Any) -> Sheet:
    worksheet.reset_dimensions()  # what the file says of its size is not believed
    found = worksheet.iter_rows(max_row=MAX_LINES + 1, values_only=True)
    header: tuple[str, ...] | None = None
    rows: list[SheetRow] = []
    looked_at = 0
    for line, values in enumerate(found, 1):
        _require(line, MAX_LINES, "too_many_rows", "lines")
        looked_at += len(values)
        _require(looked_at, MAX_LOOKED_AT, "too_many_cells", "cells, with empty ones")
        cells = _trimmed([_cell(value) for value in values])
        if not cells:
            continue
        if len(cells) > MAX_COLUMNS:
            _require(len(cells), MAX_COLUMNS, "too_many_columns", "columns")
        if header is None:
            header = tuple(cell if isinstance(cell, str) else "" if cell is None else "?" for cell in cells)
            continue
        if len(cells) > len(header):
            message = f"row {line} has {len(cells)} cells, the header {len(header)}"
            raise InvalidInput("too_many_cells", message, field="file.content")
        rows.append(SheetRow(line, (*cells, *(None for _ in range(len(header) - len(cells))))))
        _require(len(rows), MAX_ROWS, "too_many_rows", "rows")
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
        _require(len(value), MAX_CELL_CHARS, "cell_too_long", "characters in a cell")
        return text_cell(value)
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return BadCell("wrong_type", "neither text nor a number")


def _require(found: int, most: int, code: str, what: str) -> None:
    if found > most:
        raise LimitExceeded(code, f"more than {most} {what}", limit=most, field="file.content")
