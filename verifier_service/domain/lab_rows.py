"""From the cells of a sheet to what each row says, or to what is wrong with it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from verifier_service.domain.lab_numbers import Decimal, NotANumber, checked, decimal_of, number
from verifier_service.domain.lab_results import RowError
from verifier_service.domain.lab_sheets import BadCell, Cell, Column, Columns, Sheet, SheetRow, is_blank
from verifier_service.domain.lab_units import spelled
from verifier_service.domain.tabular import unguarded
from verifier_service.domain.trajectories import ID_PATTERN

MAX_QUANTITY_CHARS = 200
MAX_UNIT_CHARS = 50
MAX_REASON_CHARS = 2_000
_FORMULA = ("=", "+", "-", "@")
_IDS = ("review", "run", "trajectory", "event")
_NUMERIC = ("value", "measured", "sigma", "actual")


@dataclass(frozen=True, slots=True)
class Reading:
    """One number of a row."""

    quantity: str
    value: float
    unit: str
    sigma: float | None
    column: str


@dataclass(slots=True)
class LabRow:
    """What a row says. ``errors`` is empty where it can be used."""

    line: int
    texts: dict[str, str] = field(default_factory=dict)
    readings: list[Reading] = field(default_factory=list)
    measured_at: datetime | None = None
    actual: float | None = None  # what became of an event, if that is a number
    errors: list[RowError] = field(default_factory=list)

    @property
    def verdict(self) -> Literal["accept", "reject"] | None:
        """Its verdict, where it has one."""
        text = self.texts.get("verdict", "").casefold()
        return "accept" if text == "accept" else "reject" if text == "reject" else None

    @property
    def empty(self) -> bool:
        """Whether nothing was filled in."""
        return not self.readings and not self.texts.get("verdict") and not self.errors

    def refuse(
        self, code: str, message: str, column: str | None = None, limit: float | None = None
    ) -> None:
        """Note what is wrong with it."""
        self.errors.append(RowError(code=code, message=message, column=column, limit=limit))


def rows_of(sheet: Sheet, columns: Columns, declared: Decimal | None) -> list[LabRow]:
    """Every row of the sheet. One decimal mark holds for the whole file: the declared one, else the one
    that its numbers prove."""
    numeric = [at for at, column in columns.used.items() if column.meaning in _NUMERIC]
    texts = (cell for row in sheet.rows for at in numeric if isinstance(cell := row.cells[at], str))
    found = declared if declared is not None else decimal_of(texts)
    return [_Reader(row, columns, found, declared is not None).read() for row in sheet.rows]


@dataclass(slots=True)
class _Reader:
    """Reads one row."""

    row: SheetRow
    columns: Columns
    decimal: Decimal | Literal["both"] | None
    declared: bool

    def read(self) -> LabRow:
        found = LabRow(self.row.line)
        for at, column in self.columns.used.items():
            if column.meaning not in ("value", "measured", "sigma"):
                text = self._text(found, column, self.row.cells[at])
                if text:
                    found.texts[column.meaning] = text
        self._check_texts(found)
        self._read_actual(found)
        for at in self.columns.measured():
            self._reading(found, self.columns.used[at], self.row.cells[at])
        at_sigma = self.columns.place("sigma")
        written = at_sigma is not None and not is_blank(self.row.cells[at_sigma])
        if written and not found.readings and not found.errors:
            found.refuse("missing_value", "there is a sigma without a value", self._title("value"))
        return found

    def _title(self, meaning: str) -> str:
        at = self.columns.place(meaning)
        return self.columns.used[at].title if at is not None else meaning

    def _text(self, found: LabRow, column: Column, cell: Cell) -> str:
        if isinstance(cell, BadCell):
            found.refuse(cell.code, cell.message, column.title)
            return ""
        if cell is None:
            return ""
        written = f"{cell:.15g}" if isinstance(cell, float) else cell
        text = unguarded(written)  # as our worklist writes what a spreadsheet would run
        guarded = text != written
        text = text.strip()
        if column.meaning in _IDS and text and not re.fullmatch(ID_PATTERN, text):
            if text.startswith(_FORMULA):
                found.refuse("formula", "a formula is no id", column.title)
            else:
                found.refuse("bad_format", f"{text[:60]!r} is no id", column.title)
            return ""
        if column.meaning in ("candidate", "actual") and not guarded and text.startswith(("=", "@")):
            found.refuse("formula", f"a formula is no {column.meaning}", column.title)
            return ""
        return text

    def _check_texts(self, found: LabRow) -> None:
        texts = found.texts
        if texts.get("verdict") and found.verdict is None:
            found.refuse("not_one_of", "the verdict is accept, reject or empty", self._title("verdict"))
        if len(texts.get("reason", "")) > MAX_REASON_CHARS:
            found.refuse("too_long", "the reason is too long", self._title("reason"), MAX_REASON_CHARS)
        if "measured_at" in texts:
            found.measured_at = self._moment(found, texts["measured_at"])
        if ("run" in texts) != ("trajectory" in texts) and not found.errors:
            found.refuse("missing_field", "run and trajectory go together", self._title("trajectory"))
        if ("plate" in texts) != ("well" in texts) and not found.errors:
            found.refuse("missing_field", "plate and well go together", self._title("well"))

    def _moment(self, found: LabRow, text: str) -> datetime | None:
        """A date or a time, in UTC where it names no zone."""
        try:
            moment = datetime.fromisoformat(text)
            return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            found.refuse("bad_format", "not a date such as 2026-05-01", self._title("measured_at"))
            return None

    def _reading(self, found: LabRow, column: Column, cell: Cell) -> None:
        if is_blank(cell):
            return
        value = self._number(found, column, cell)
        sigma_at = self.columns.place("sigma")
        sigma: float | None = None
        if sigma_at is not None and not is_blank(self.row.cells[sigma_at]):
            sigma = self._number(found, self.columns.used[sigma_at], self.row.cells[sigma_at])
            if sigma is not None and sigma < 0:
                found.refuse(
                    "negative_sigma", "a standard deviation is not negative", self._title("sigma"), 0.0
                )
        quantity = column.quantity or found.texts.get("quantity", "")
        unit = column.unit or found.texts.get("unit", "")
        for text, name, most in (
            (quantity, "quantity", MAX_QUANTITY_CHARS),
            (unit, "unit", MAX_UNIT_CHARS),
        ):
            if not text:
                found.refuse("missing_field", f"the row names no {name}", self._title(name))
            elif len(text) > most:
                found.refuse("too_long", f"the {name} is too long", self._title(name), most)
        if column.unit and found.texts.get("unit") and spelled(column.unit) != spelled(found.texts["unit"]):
            found.refuse("two_units", "the header and the row name different units", self._title("unit"))
        if (
            sigma_at is not None
            and (other := self.columns.used[sigma_at].unit)
            and spelled(other) != spelled(unit)
        ):
            found.refuse("two_units", "sigma is in another unit than the value", self._title("sigma"))
        if value is not None and not found.errors:
            found.readings.append(Reading(quantity, value, unit, sigma, column.title))

    def _read_actual(self, found: LabRow) -> None:
        """What became of an event is a number, or a word: which, its question says."""
        text = found.texts.get("actual", "")
        at = self.columns.place("actual")
        if at is None or not any(character.isdigit() for character in text):
            return
        cell = self.row.cells[at]
        trial = LabRow(found.line)
        found.actual = self._number(trial, self.columns.used[at], cell)
        found.errors += [error for error in trial.errors if error.code != "not_a_number"]

    def _number(self, found: LabRow, column: Column, cell: Cell) -> float | None:
        if isinstance(cell, BadCell):
            found.refuse(cell.code, cell.message, column.title)
            return None
        try:
            if isinstance(cell, float | int):
                return checked(float(cell))
            text = cell or ""
            if self.decimal == "both":
                if "," in text or "." in text:
                    raise NotANumber("mixed_decimals", "the file uses both decimal marks: declare one")
                return number(text, None)
            return number(text, self.decimal, declared=self.declared)
        except NotANumber as error:
            found.refuse(error.code, str(error), column.title, error.limit)
            return None
