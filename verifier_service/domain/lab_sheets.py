"""A sheet of cells, whichever kind of file it came from, and what its header says of each column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from verifier_service.domain.errors import InvalidInput

MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_ROWS = 10_000
MAX_LINES = 100_000  # of text or of a sheet, with empty ones and those inside of quotes
MAX_COLUMNS = 64
MAX_CELL_CHARS = 4_000

# Only what a lab or our own worklist writes for these; what is not here is not guessed at.
MEANINGS = {
    "review": ("review", "review_id"),
    "run": ("run", "run_id"),
    "trajectory": ("trajectory", "trajectory_id"),
    "candidate": ("candidate", "smiles", "canonical_smiles", "compound", "compound_id", "molecule"),
    "plate": ("plate", "plate_id"),
    "well": ("well", "position"),
    "quantity": ("quantity",),
    "value": ("value", "result"),
    "unit": ("unit", "units"),
    "sigma": ("sigma", "sd", "std", "uncertainty"),
    "replicate": ("replicate", "rep"),
    "verdict": ("verdict",),
    "reason": ("reason",),
    "measured_at": ("measured_at",),
    "event": ("event", "event_id"),
    "actual": ("actual",),
    "event_state": ("event_state",),
}
_MEANING = {name: meaning for meaning, names in MEANINGS.items() for name in names}
_BRACKETED = re.compile(r"(?P<name>[^\[(]*?)\s*(?:\[(?P<square>[^\]]*)\]|\((?P<round>[^)]*)\))", re.DOTALL)
_PERCENT = re.compile(r"(?P<name>.+?)(?:_pct|_percent|\s*%)", re.DOTALL)
_WITH_UNIT = ("value", "sigma")
_OF_EVENTS = ("event", "actual", "event_state")
ADDRESSES = ("review", "trajectory", "candidate", "well")


class BadCell(NamedTuple):
    """A cell that is neither text nor a number."""

    code: str
    message: str


Cell = str | float | None | BadCell


class SheetRow(NamedTuple):
    """``line``: where it begins, from 1; of a list its place in it, from 1."""

    line: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """Header and rows, all rows as wide as the header; ``separator`` of text."""

    header: tuple[str, ...]
    rows: tuple[SheetRow, ...]
    separator: str | None = None


class Column(NamedTuple):
    """What a column holds. ``quantity`` of one that is named by what it measures."""

    title: str
    meaning: str
    unit: str | None = None
    quantity: str | None = None


class Columns(NamedTuple):
    """The columns by their place, and the titles of those that mean nothing to us."""

    used: dict[int, Column]
    ignored: tuple[str, ...]

    def place(self, meaning: str) -> int | None:
        """Where the column with one meaning is."""
        return next((at for at, column in self.used.items() if column.meaning == meaning), None)

    def measured(self) -> list[int]:
        """Places of columns that hold values."""
        return [at for at, column in self.used.items() if column.meaning in ("value", "measured")]


def columns_of(header: Sequence[str]) -> Columns:
    """Raises ``InvalidInput`` when the header leaves open which check a row means, or what was measured."""
    used: dict[int, Column] = {}
    ignored: list[str] = []
    for at, title in enumerate(header):
        column = column_of(title)
        if column is None:
            ignored.append(title)
            continue
        same = (column.meaning, column.quantity)
        if any((one.meaning, one.quantity) == same for one in used.values()):
            raise InvalidInput("duplicate_column", f"two columns say {column.title!r}", field="header")
        used[at] = column
    if not _tells_of_events(used.values()):
        ignored += [column.title for column in used.values() if column.meaning in _OF_EVENTS]
        used = {at: column for at, column in used.items() if column.meaning not in _OF_EVENTS}
    found = Columns(used, tuple(ignored))
    meanings = {column.meaning for column in used.values()}
    if "event" in meanings:
        return found
    if not meanings & set(ADDRESSES):
        raise InvalidInput(
            "no_target_column",
            "no column names the check: review, run and trajectory, candidate, plate and well, or an event",
            field="header",
        )
    if not found.measured() and "verdict" not in meanings:
        raise InvalidInput("no_value_column", "no column holds a value or a verdict", field="header")
    if "sigma" in meanings and len(found.measured()) > 1:
        message = "with several measured columns it is open to which of them sigma belongs"
        raise InvalidInput("ambiguous_column", message, field="header")
    return found


def _tells_of_events(columns: Iterable[Column]) -> bool:
    """Whether a header names events and what became of them; either alone means something else."""
    meanings = {column.meaning for column in columns}
    return "event" in meanings and bool(meanings & {"actual", "event_state"})


def column_of(title: str) -> Column | None:
    """What one title says; a unit makes a column of any other name a measured one."""
    text = " ".join(title.split())
    name, unit = _with_unit(text)
    meaning = _MEANING.get(re.sub(r"[\s\-]+", "_", name.casefold()))
    if meaning is not None and (unit is None or meaning in _WITH_UNIT):
        return Column(text, meaning, unit)
    if unit is None or not name:
        return None
    return Column(text, "measured", unit, name)


def _with_unit(title: str) -> tuple[str, str | None]:
    bracketed = _BRACKETED.fullmatch(title)
    if bracketed is not None:
        unit = bracketed["square"] if bracketed["square"] is not None else bracketed["round"]
        return bracketed["name"].strip(), unit.strip() or None
    percent = _PERCENT.fullmatch(title)
    return (percent["name"], "%") if percent is not None else (title, None)


def is_blank(cell: Cell) -> bool:
    """Whether nothing was written."""
    return cell is None or (isinstance(cell, str) and not cell.strip())


def text_cell(text: str) -> Cell:
    """Text that every database and every reader of JSON takes, else why not."""
    if "\x00" in text:
        return BadCell("nul_character", "the text holds a NUL character")
    if any("\ud800" <= character <= "\udfff" for character in text):
        return BadCell("lone_surrogate", "the text holds half a character")
    return text
