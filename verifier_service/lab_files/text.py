"""CSV as people produce it, from its bytes to a sheet: encoding, separator and quotes are found out.

Linear in the size of the file, with every limit checked before the next larger thing is made of it. Nothing
is guessed about numbers here: cells stay text.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Sequence

from verifier_service.domain.errors import InvalidInput, LimitExceeded
from verifier_service.domain.lab_sheets import (
    MAX_CELL_CHARS,
    MAX_COLUMNS,
    MAX_LINES,
    MAX_ROWS,
    Cell,
    Sheet,
    SheetRow,
    column_of,
)

SEPARATORS = (",", ";", "\t")
MAX_LINE_CHARS = 65_536
HINT = "sep="  # how Excel names the separator, on a line before the header
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NUL_SHARE = 0.3


def text_of(raw: bytes) -> str:
    """The text of a file: by its byte order mark, else UTF-16 where every other byte of much of it is NUL,
    else UTF-8, else Windows-1252. Raises ``InvalidInput`` for what is none of them, or holds NUL."""
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return _decoded(raw[len(mark) :], encoding)
    head = raw[:4096]
    for encoding, odd in (("utf-16-le", 1), ("utf-16-be", 0)):
        if head[odd::2].count(0) > _NUL_SHARE * max(1, len(head)) and not head[1 - odd :: 2].count(0):
            return _decoded(raw, encoding)
    try:
        return _without_nul(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return _decoded(raw, "cp1252")


def _decoded(raw: bytes, encoding: str) -> str:
    try:
        return _without_nul(raw.decode(encoding))
    except UnicodeDecodeError as error:
        message = "the file is neither UTF-8, UTF-16 nor Windows-1252"
        raise InvalidInput("unknown_encoding", message, field="file.content") from error


def _without_nul(text: str) -> str:
    if "\x00" in text:
        raise InvalidInput("nul_character", "the file holds NUL characters", field="file.content")
    return text


def csv_sheet(raw: bytes) -> Sheet:
    """Read a CSV file. Raises ``InvalidInput`` where it cannot be read as one, ``LimitExceeded`` beyond a
    limit. A row with more cells than the header refuses the file: where they belong is not known."""
    text = text_of(raw)
    start, named = _hinted(text)
    separator = named or _separator(text, start)
    reader = csv.reader(_lines(text, start), delimiter=separator, strict=True)
    skipped = text.count("\n", 0, start)
    header: tuple[str, ...] | None = None
    rows: list[SheetRow] = []
    for line, cells in _records(reader):
        if _is_blank(cells):
            continue
        if header is None:
            header = tuple(_trimmed(cells))
            _require(len(header), MAX_COLUMNS, "too_many_columns", "columns")
            continue
        if len(rows) >= MAX_ROWS:
            _require(len(rows) + 1, MAX_ROWS, "too_many_rows", "rows")
        rows.append(SheetRow(line + skipped, _padded(cells, len(header), line + skipped)))
    if header is None:
        raise InvalidInput("no_header", "the file is empty: its first line names the columns", field="file")
    return Sheet(header, tuple(rows), separator)


def _hinted(text: str) -> tuple[int, str | None]:
    """Where the header begins, and the separator that a line before it names."""
    end = text.find("\n")
    first = text[: end if end >= 0 else len(text)].strip("\r").strip('"')
    if len(first) == len(HINT) + 1 and first.casefold().startswith(HINT) and first[-1] in SEPARATORS:
        return end + 1 if end >= 0 else len(text), first[-1]
    return 0, None


def _separator(text: str, start: int) -> str:
    """The one with which most titles of the header are known, then the one that makes most columns."""

    def fits(separator: str) -> tuple[int, int]:
        try:
            reader = csv.reader(_lines(text, start), delimiter=separator, strict=True)
            header = next((cells for _, cells in _records(reader) if not _is_blank(cells)), [])
        except InvalidInput:
            return (-1, 0)
        return (sum(column_of(title) is not None for title in header[:MAX_COLUMNS]), len(header))

    return max(SEPARATORS, key=fits)


def _lines(text: str, start: int) -> Iterator[str]:
    """Lines with their ends; one that is too long is refused before it becomes cells."""
    source = io.StringIO(text, newline="")
    source.seek(start)
    for number, line in enumerate(source, 1):
        _require(number, MAX_LINES, "too_many_rows", "lines")
        if len(line) > MAX_LINE_CHARS:
            message = f"line {number} has more than {MAX_LINE_CHARS} characters"
            raise LimitExceeded("line_too_long", message, limit=MAX_LINE_CHARS, field="file.content")
        yield line


def _records(reader: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line they begin on."""
    while True:
        line = reader.line_num + 1  # type: ignore[attr-defined]
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            message = f"line {line}: {error}"
            raise InvalidInput("bad_quotes", message, field="file.content") from error
        yield line, cells


def _is_blank(cells: Sequence[str]) -> bool:
    """Whether a line holds nothing but separators, also those of other dialects."""
    return not any(cell.strip(" \t\r\n,;\xa0") for cell in cells)


def _trimmed(cells: Sequence[str]) -> list[str]:
    """Without the empty cells of trailing separators."""
    end = len(cells)
    while end and not cells[end - 1].strip():
        end -= 1
    return list(cells[:end])


def _padded(cells: Sequence[str], width: int, line: int) -> tuple[Cell, ...]:
    used = _trimmed(cells)
    if len(used) > width:
        message = f"line {line} has {len(used)} cells, the header {width}"
        raise InvalidInput("too_many_cells", message, field="file.content")
    longest = max(map(len, used), default=0)
    _require(longest, MAX_CELL_CHARS, "cell_too_long", f"characters in a cell of line {line}")
    return (*used, *(None for _ in range(width - len(used))))


def _require(found: int, most: int, code: str, what: str) -> None:
    if found > most:
        raise LimitExceeded(code, f"more than {most} {what}", limit=most, field="file.content")
