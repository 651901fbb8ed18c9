"""Exports: nothing in them is run by a spreadsheet, in whichever dialect it is opened, and they read back
as they were."""

from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from verifier_service.domain.lab_rows import rows_of
from verifier_service.domain.lab_sheets import columns_of
from verifier_service.domain.tabular import csv_text, guarded, unguarded
from verifier_service.lab_files.text import csv_sheet

HEADER = ("review", "candidate", "verdict")
SIGNS = "=+-@＝＋－＠"
NASTY = st.text(st.sampled_from(SIGNS + "'\"\"''\t\r\n;;,, \xa0\ufeff\u200b|1.5eC()x"), max_size=20)
ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40)
TEXTS = NASTY | ANY
PLAIN = r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?"


@given(TEXTS)
@example("'=1")
@example("''")
@example("CC;=cmd|' /C calc'!A0;x")
def test_what_is_guarded_reads_back_as_it_was(text: str) -> None:
    assert unguarded(guarded(text)) == text


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_an_export_reads_back_as_it_was(texts: list[str]) -> None:
    sheet = csv_sheet(csv_text(HEADER, [("r", text, "accept") for text in texts]).encode())
    assert [unguarded(str(row.cells[1])) for row in sheet.rows] == texts


@pytest.mark.parametrize(("separator", "encoding"), [(";", "utf-8-sig"), (";", "utf-8"), ("\t", "utf-16")])
@given(texts=st.lists(TEXTS, min_size=1, max_size=4))
def test_an_export_that_a_spreadsheet_saved_in_its_dialect_reads_back_as_it_was(
    separator: str, encoding: str, texts: list[str]
) -> None:
    exported = csv_text(HEADER, [("r", text, "accept") for text in texts])
    opened = list(csv.reader(io.StringIO(exported, newline="")))
    saved = io.StringIO(newline="")
    csv.writer(saved, delimiter=separator, lineterminator="\r\n").writerows(opened)
    sheet = csv_sheet(saved.getvalue().encode(encoding))
    assert sheet.separator == separator
    assert [unguarded(str(row.cells[1])) for row in sheet.rows] == texts
    found = rows_of(sheet, columns_of(sheet.header), None)
    assert [row.errors for row in found] == [[] for _ in texts]
    assert [row.texts.get("candidate", "") for row in found] == [text.strip() for text in texts]


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4))
def test_no_part_of_an_export_is_a_formula_wherever_it_is_split(rows: list[tuple[str, str]]) -> None:
    """More than any spreadsheet does: quotes hold nothing together, and what may be skipped is."""
    for part in re.split(r"[,;\t\r\n]", csv_text(HEADER[:2], rows)):
        shown = re.sub(r"^[\s\"\x00-\x20\x7f-\xa0\xad\u200b-\u200f\u2060-\u2064\ufeff]+", "", part)
        assert not shown.startswith(tuple(SIGNS)) or re.fullmatch(PLAIN, part), part


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_stay_numbers(value: float) -> None:
    shown = repr(value)
    assert csv_text(["a"], [[shown]]) == f"a\r\n{shown}\r\n"
