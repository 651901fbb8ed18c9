"""Whatever dialect a sheet is written in, the same is read back; and no bytes bring the reader down."""

from __future__ import annotations

import csv
import io
import math
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_lab_files import BOOK, repacked
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.lab_numbers import NotANumber, decimal_of, number
from verifier_service.domain.lab_results import WELLS, position
from verifier_service.domain.lab_rows import rows_of
from verifier_service.domain.lab_sheets import columns_of
from verifier_service.domain.lab_units import converted
from verifier_service.domain.lab_values import sigma_of
from verifier_service.domain.tabular import guarded
from verifier_service.lab_files.sheets import json_sheet
from verifier_service.lab_files.text import csv_sheet
from verifier_service.lab_files.workbooks import xlsx_sheet

HEADERS = ("run", "trajectory", "gap [eV]", "note")
IDS = st.text("abcXYZ019._:@/+-", min_size=1, max_size=12).filter(lambda id: id not in (".", ".."))
NOTES = st.text(st.sampled_from("ab ,;\t\"'\n=+-@äµ√漢"), max_size=12)
with zipfile.ZipFile(io.BytesIO(BOOK)) as _archive:
    SHEET = _archive.read("xl/worksheets/sheet1.xml")
JUNK = [
    b"",
    b'r="ZZZZ9"',
    b"<c t='e'><v>#N/A</v></c>",
    b"<c t='d'><v>x</v></c>",
    b"<row r='-1'>",
    b"&#0;",
    b"<c s='99'>",
]
NUMBERS = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 4))
ROWS = st.lists(st.tuples(IDS, IDS, NUMBERS, NOTES), min_size=1, max_size=8)


def written(
    rows: list[tuple[str, str, float, str]], separator: str, comma: bool, end: str, quoting: int
) -> str:
    """The rows as some program writes them."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator, lineterminator=end, quoting=quoting)
    writer.writerow(HEADERS)
    for run, trajectory, value, note in rows:
        shown = f"{value:.4f}"
        writer.writerow(
            [guarded(run), guarded(trajectory), shown.replace(".", ",") if comma else shown, note]
        )
    return text.getvalue()


@given(
    rows=ROWS,
    separator=st.sampled_from(",;\t"),
    comma=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le-bom", "utf-16-be-bom"]),
    blank=st.booleans(),
    trailing=st.integers(0, 3),
)
def test_any_dialect_reads_back_the_same(
    rows: list[tuple[str, str, float, str]],
    separator: str,
    comma: bool,
    end: str,
    quoting: int,
    encoding: str,
    blank: bool,
    trailing: int,
) -> None:
    text = written(rows, separator, comma, end, quoting)
    if trailing:
        first, rest = text.split(end, 1)
        text = first + separator * trailing + end + rest
    if blank:
        text = end + text + end + separator * 3 + end
    if encoding.endswith("-bom"):
        raw = ("\ufeff" + text).encode(encoding.removesuffix("-bom"))
    else:
        raw = text.encode(encoding)
    sheet = csv_sheet(raw)
    assert sheet.separator == separator
    assert [row.cells[3] or "" for row in sheet.rows] == [note if note.strip() else "" for *_, note in rows]
    found = rows_of(sheet, columns_of(sheet.header), None)
    assert [row.errors for row in found] == [[] for _ in rows]
    assert [(row.texts["run"], row.texts["trajectory"], row.readings[0].value) for row in found] == [
        (run, trajectory, float(f"{value:.4f}")) for run, trajectory, value, _ in rows
    ]


@given(
    st.binary(max_size=400) | st.text(max_size=200).map(lambda text: ("value;candidate\n" + text).encode())
)
def test_no_bytes_bring_a_reader_down(raw: bytes) -> None:
    for reader in (csv_sheet, json_sheet):
        try:
            sheet = reader(raw)
            rows = rows_of(sheet, columns_of(sheet.header), None)
        except InvalidInput:
            continue
        assert all(math.isfinite(one.value) for row in rows for one in row.readings)


@given(st.lists(st.tuples(st.integers(0, len(BOOK) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_no_damage_brings_the_reader_of_workbooks_down(damage: list[tuple[int, int]]) -> None:
    raw = bytearray(BOOK)
    for at, byte in damage:
        raw[at] = byte
    _survives(bytes(raw))


@given(st.integers(0, len(SHEET) - 1), st.integers(0, len(SHEET)), st.sampled_from(JUNK))
def test_no_sheet_brings_the_reader_of_workbooks_down(start: int, end: int, junk: bytes) -> None:
    sheet = SHEET[:start] + junk + SHEET[max(start, end) :]
    _survives(repacked(BOOK, {"xl/worksheets/sheet1.xml": sheet}))


def _survives(raw: bytes) -> None:
    try:
        sheet = xlsx_sheet(raw)
        rows_of(sheet, columns_of(sheet.header), None)
    except InvalidInput:
        return


@given(st.text(st.sampled_from("0123456789.,eE+-=@ naif"), max_size=14))
def test_text_is_the_number_that_it_says_or_an_error(text: str) -> None:
    for decimal in (None, "point", "comma"):
        try:
            value = number(text, decimal)  # type: ignore[arg-type]
        except NotANumber:
            continue
        assert math.isfinite(value)
        if "," not in text and decimal != "comma":
            assert value == float(text)


@given(st.lists(NUMBERS, min_size=1, max_size=20), st.booleans())
def test_numbers_of_one_file_are_read_as_they_were_written(values: list[float], comma: bool) -> None:
    shown = [f"{value:.2f}" for value in values]
    cells = [one.replace(".", ",") for one in shown] if comma else shown
    decimal = decimal_of(cells)
    assert decimal == ("comma" if comma else "point")
    assert [number(cell, "comma" if comma else "point") for cell in cells] == [float(one) for one in shown]


@given(st.sampled_from([96, 384]), st.data(), st.booleans(), st.booleans())
def test_a_well_is_the_same_however_it_is_spelt(
    size: int, data: st.DataObject, low: bool, padded: bool
) -> None:
    rows, columns = WELLS[size]
    row, column = data.draw(st.integers(1, rows)), data.draw(st.integers(1, columns))
    letter = chr(ord("A") + row - 1)
    text = (letter.lower() if low else letter) + (f"{column:02}" if padded else str(column))
    assert position(text, size) == (row, column)


@given(
    NUMBERS,
    st.floats(0, 1e3),
    st.sampled_from(
        [("eV", "kJ/mol"), ("hartree", "eV"), ("degC", "K"), ("nM", "uM"), ("%", "1"), ("Å", "nm")]
    ),
)
def test_a_unit_and_back_is_the_same(value: float, sigma: float, units: tuple[str, str]) -> None:
    there = converted(value, sigma, *units)
    back = converted(*there, units[1], units[0])
    assert back == pytest.approx((value, sigma), rel=1e-9, abs=1e-8)


@given(st.lists(NUMBERS, min_size=2, max_size=12), st.floats(0.1, 10))
def test_more_of_the_same_readings_are_surer_and_never_exact(values: list[float], assay: float) -> None:
    once, often = (
        sigma_of(values, [None] * len(values), assay),
        sigma_of(values * 4, [None] * 4 * len(values), assay),
    )
    assert once is not None
    assert often is not None
    assert 0 < often < once
