"""Files that laboratories send, and files that nobody should: read exactly, or refused with a name."""

from __future__ import annotations

import base64
import io
import json
import struct
import sys
import zipfile
from collections.abc import Callable
from typing import Any

import openpyxl
import pytest

from tests.support.lab import request
from verifier_service.domain.errors import InvalidInput, LimitExceeded
from verifier_service.domain.lab_rows import LabRow, rows_of
from verifier_service.domain.lab_sheets import MAX_COLUMNS, MAX_LINES, MAX_ROWS, Sheet, columns_of
from verifier_service.lab_files.archives import MAX_UNPACKED_BYTES
from verifier_service.lab_files.sheets import json_sheet, sheet_of
from verifier_service.lab_files.text import csv_sheet
from verifier_service.lab_files.workbooks import xlsx_sheet

TEXT = 'candidate;gap [eV];note\r\nCCO;12,5;"line1\nline2; still"\r\n\r\nCCC;1.234,50;x;;\r\n'


def read(sheet: Sheet, decimal: Any = None) -> list[LabRow]:
    return rows_of(sheet, columns_of(sheet.header), decimal)


def values(sheet: Sheet) -> list[tuple[int, list[tuple[str, float, str]]]]:
    return [
        (row.line, [(one.quantity, one.value, one.unit) for one in row.readings]) for row in read(sheet)
    ]


def faults(row: LabRow) -> list[tuple[str, str | None]]:
    return [(error.code, error.column) for error in row.errors]


@pytest.mark.parametrize(
    "raw",
    [
        TEXT.encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.encode("cp1252"),
        b"\xff\xfe" + TEXT.encode("utf-16-le"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        TEXT.replace("\r\n", "\n").encode(),
        b"sep=;\r\n" + TEXT.encode(),
        TEXT.replace(";", "\t").encode(),
    ],
)
def test_what_spreadsheets_write_is_read_alike(raw: bytes) -> None:
    sheet = csv_sheet(raw)
    assert sheet.header == ("candidate", "gap [eV]", "note")
    shift = 1 if raw.startswith(b"sep=") else 0
    assert values(sheet) == [
        (2 + shift, [("gap", 12.5, "eV")]),
        (5 + shift, [("gap", 1234.5, "eV")]),
    ]
    assert str(sheet.rows[0].cells[2]).replace("\t", ";") == "line1\nline2; still"


def test_letters_of_windows_are_letters() -> None:
    sheet = csv_sheet("candidate;Länge (µm)\nCCO;1\n".encode("cp1252"))
    assert values(sheet) == [(2, [("Länge", 1.0, "µm")])]


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "no_header"),
        (b"\n \n,,\n", "no_header"),
        (b'candidate,value\n"CCO,1\n', "bad_quotes"),
        (b'candidate,value\n"CCO"x,1\n', "bad_quotes"),
        (b"candidate,value\nCCO,1,2\n", "too_many_cells"),
        (b"candidate,value\n\x00,1\n", "nul_character"),
        (b"candidate,value\n\x81\x8d,1\n", "unknown_encoding"),
        (b"\xff\xfec\x00\x00\xd8", "unknown_encoding"),
    ],
)
def test_what_is_no_table_is_refused_by_name(raw: bytes, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        csv_sheet(raw)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("raw", "code", "limit"),
    [
        (b"," * 7_000_000, "line_too_long", 65_536),
        (b";\n" * 3_500_000, "too_many_rows", MAX_LINES),
        (b"candidate,value" + b",x" * 70 + b"\n", "too_many_columns", MAX_COLUMNS),
        (b"candidate,value\n" + b"C,1\n" * (MAX_ROWS + 1), "too_many_rows", MAX_ROWS),
        (b"candidate,value\n" + b"C" * 5_000 + b",1\n", "cell_too_long", 4_000),
        (b'candidate,value\n"' + b"C\n" * 90_000, "bad_quotes", None),
    ],
)
def test_what_is_too_much_is_refused_with_its_limit(raw: bytes, code: str, limit: float | None) -> None:
    with pytest.raises(InvalidInput) as refused:
        csv_sheet(raw)
    assert (refused.value.code, getattr(refused.value, "limit", None)) == (code, limit)


def test_ten_megabytes_of_separators_are_not_even_read() -> None:
    with pytest.raises(LimitExceeded) as refused:
        sheet_of(request(b"," * 10_000_000))
    assert refused.value.code == "file_too_large"


def test_a_content_that_is_no_base64_is_refused() -> None:
    wanted = request("x")
    assert wanted.file is not None
    broken = wanted.model_copy(update={"file": wanted.file.model_copy(update={"content": "!!!"})})
    with pytest.raises(InvalidInput) as refused:
        sheet_of(broken)
    assert refused.value.code == "bad_base64"


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("1e999", "not_finite"),
        ("NaN", "not_finite"),
        ("-inf", "not_finite"),
        ("1e13", "out_of_range"),
        ("=1+1", "formula"),
        ("@SUM(A1)", "formula"),
        ("n/a", "not_a_number"),
        ("0x10", "not_a_number"),
        ("1_000", "not_a_number"),
        ("٣", "not_a_number"),
        ("1 234", "not_a_number"),
        ("1,2,3", "not_a_number"),
        ("--1", "not_a_number"),
        ("1" * 80, "not_a_number"),
        ("1e5", 1e5),
        ("-2.5", -2.5),
        ("−2.5", -2.5),
        (" 7 ", 7.0),
        (".5", 0.5),
    ],
)
def test_a_cell_is_exactly_a_number_or_an_error(cell: str, found: str | float) -> None:
    [row] = read(csv_sheet(f'candidate,x [eV]\nCCO,"{cell}"\n'.encode()))
    assert ([one.value for one in row.readings] or [code for code, _ in faults(row)]) == [found]


@pytest.mark.parametrize(
    ("cells", "declared", "found"),
    [
        (["12,5", "1,234"], None, [12.5, 1.234]),
        (["1,234"], None, ["ambiguous_number"]),
        (["1,234"], "comma", [1.234]),
        (["1,234"], "point", [1234.0]),
        (["1.234"], None, [1.234]),
        (["12,5", "1.234"], None, [12.5, "ambiguous_number"]),
        (["12,5", "1.234"], "comma", [12.5, 1234.0]),
        (["12,5", "1.234,5"], None, [12.5, 1234.5]),
        (["1,234,567.5", "2.5"], None, [1234567.5, 2.5]),
        (["12,5", "3.5", "7"], None, ["mixed_decimals", "mixed_decimals", 7.0]),
        (["12,34,5"], "point", ["not_a_number"]),
        (["3.5"], "comma", ["ambiguous_number"]),
    ],
)
def test_the_decimal_mark_is_proved_or_declared_and_never_guessed(
    cells: list[str], declared: Any, found: list[Any]
) -> None:
    text = "candidate;x [eV]\n" + "".join(f"CCO;{cell}\n" for cell in cells)
    rows = read(csv_sheet(text.encode()), declared)
    got = [row.readings[0].value if row.readings else row.errors[0].code for row in rows]
    assert got == found


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("note,value", "no_target_column"),
        ("candidate,note", "no_value_column"),
        ("smiles,SMILES,value", "duplicate_column"),
        ("candidate,a [eV],b [eV],sigma", "ambiguous_column"),
    ],
)
def test_a_header_that_leaves_something_open_is_refused(header: str, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        columns_of(csv_sheet(f"{header}\n".encode()).header)
    assert refused.value.code == code


def test_units_come_from_header_or_row_and_must_agree() -> None:
    text = "candidate,quantity,value (eV),sigma [eV],unit\nC,q,1,0.1,\nC,q,1,0.1,eV\nC,q,1,0.1,K\nC,,1,,\n"
    rows = read(csv_sheet(text.encode()))
    assert [faults(row) for row in rows] == [
        [],
        [],
        [("two_units", "unit"), ("two_units", "sigma (eV)".replace("(", "[").replace(")", "]"))][:1],
        [("missing_field", "quantity")],
    ]


def test_json_rows_keep_their_own_faults() -> None:
    raw = b"""[{"candidate": "C", "x [eV]": 1}, {"candidate": "C", "x [eV]": NaN},
      {"candidate": "C", "x [eV]": 1e999}, {"candidate": "C", "x [eV]": true},
      {"candidate": "C", "x [eV]": {"a": 1}}, {"candidate": "C", "candidate": "D", "x [eV]": 1},
      {"candidate": "\\u0000", "x [eV]": 1}, {"candidate": "\\ud800", "x [eV]": 1},
      {"candidate": "C", "x [eV]": 1%s}, {"candidate": "C", "x [eV]": "1,5"}]""" % (b"0" * 400)
    rows = read(json_sheet(raw))
    assert [faults(row) for row in rows] == [
        [],
        [("not_finite", "x [eV]")],
        [("not_finite", "x [eV]")],
        [("wrong_type", "x [eV]")],
        [("wrong_type", "x [eV]")],
        [("repeated_name", "candidate")],
        [("nul_character", "candidate")],
        [("lone_surrogate", "candidate")],
        [("not_finite", "x [eV]")],
        [],
    ]


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"{}", "not_a_list"),
        (b"[1]", "not_a_list"),
        (b"[", "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
        (b"[1" + b"0" * 5_000 + b"]", "invalid_json"),
        (b"[]", "no_header"),
        (b'[{"\\ud800": 1}]', "bad_text"),
        (json.dumps([{str(at): 1 for at in range(70)}]).encode(), "too_many_columns"),
        (json.dumps([{"a": 1}] * (MAX_ROWS + 1)).encode(), "too_many_rows"),
    ],
)
def test_json_of_another_shape_is_refused(raw: bytes, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        json_sheet(raw)
    assert refused.value.code == code


def workbook(*rows: list[Any], fill: Callable[[Any], None] = lambda _: None) -> bytes:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    fill(book.active)
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


def repacked(raw: bytes, changes: dict[str, bytes]) -> bytes:
    """A workbook with other parts, packed as tightly as zip can."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for name in dict.fromkeys([*old.namelist(), *changes]):
            new.writestr(name, changes[name] if name in changes else old.read(name))
    return made.getvalue()


def test_a_workbook_gives_values_and_no_formulas() -> None:
    raw = workbook(
        ["candidate", "gap [eV]"],
        ["CCO", 4.5],
        [None, None],
        ["CCC", "4.25"],
        ["CCN", "=1+1"],
        ["CO", True],
    )
    rows = read(xlsx_sheet(raw))
    assert [(row.line, [one.value for one in row.readings], faults(row)) for row in rows] == [
        (2, [4.5], []),
        (4, [4.25], []),
        (5, [], []),  # saved by a program that computes nothing: there is no value to read
        (6, [], [("wrong_type", "gap [eV]")]),
    ]


def test_the_value_that_was_shown_for_a_formula_is_read() -> None:
    raw = workbook(["candidate", "gap [eV]"], ["CCN", "=1+1"])
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml")
    shown = sheet.replace(b"<f>1+1</f><v></v>", b"<f>1+1</f><v>2</v>").replace(
        b"<f>1+1</f><v />", b"<f>1+1</f><v>2</v>"
    )
    assert shown != sheet
    [row] = read(xlsx_sheet(repacked(raw, {"xl/worksheets/sheet1.xml": shown})))
    assert row.readings[0].value == 2.0


def far(worksheet: Any) -> None:
    worksheet.cell(row=900_000, column=1, value="C")


def wide(worksheet: Any) -> None:
    worksheet.cell(row=1, column=5_000, value="x")


def lying(raw: bytes) -> bytes:
    """The directory announces one byte for what unpacks to a megabyte."""
    packed = repacked(raw, {"xl/worksheets/sheet1.xml": b"<x>" + b" " * 1_000_000 + b"</x>"})
    size = struct.pack("<I", 1_000_007)
    assert size in packed
    return packed.replace(size, struct.pack("<I", 1))


BOOK = workbook(["candidate", "gap [eV]"], ["CCO", 4.5])
# Not so even that the ratio tells.
TAGS = b"".join(b"<x%d/>" % (at * 7919 % 10_007) for at in range(20_000))
ENTITIES = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>'


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "bad_workbook"),
        (b"candidate,value\n", "bad_workbook"),
        (BOOK[:-30], "bad_workbook"),
        (BOOK[:400] + b"\xff" * 60 + BOOK[460:], "bad_workbook"),
        (repacked(BOOK, {"xl/worksheets/sheet1.xml": b"<worksheet><"}), "bad_workbook"),
        (repacked(BOOK, {"xl/worksheets/sheet1.xml": ENTITIES}), "bad_workbook"),
        (repacked(BOOK, {"xl/bomb.bin": b"\0" * 20_000_000}), "packed_too_tight"),
        (repacked(BOOK, {f"xl/{at}.bin": b"\0" * 13_000_000 for at in range(3)}), "unpacks_too_large"),
        (repacked(BOOK, {f"xl/{at}": b"" for at in range(1_001)}), "too_many_entries"),
        (repacked(BOOK, {"xl/worksheets/sheet1.xml": b"<x/>" * 1_000_001}), "packed_too_tight"),
        (repacked(BOOK, {"xl/worksheets/sheet1.xml": TAGS * 60}), "too_much_markup"),
        (repacked(BOOK, {"xl/styles.xml": TAGS * 4}), "too_much_markup"),
        (lying(BOOK), "bad_workbook"),
        (workbook(["candidate", "gap [eV]"], fill=far), "too_many_rows"),
        (workbook(["candidate", "gap [eV]"], fill=wide), "too_many_columns"),
        (workbook(["candidate"], ["C", 1]), "too_many_cells"),
        (workbook(["candidate", "gap [eV]"], ["C" * 5_000, 1]), "cell_too_long"),
        (workbook(), "no_header"),
    ],
)
def test_a_workbook_that_is_a_bomb_or_broken_is_refused(raw: bytes, code: str) -> None:
    assert len(raw) < MAX_UNPACKED_BYTES
    with pytest.raises(InvalidInput) as refused:
        xlsx_sheet(raw)
    assert refused.value.code == code


def test_a_sheet_that_lies_about_its_size_is_read_as_it_is() -> None:
    with zipfile.ZipFile(io.BytesIO(BOOK)) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml")
    huge = sheet.replace(b'ref="A1:B2"', b'ref="A1:XFD1048576"')
    assert huge != sheet
    [row] = read(xlsx_sheet(repacked(BOOK, {"xl/worksheets/sheet1.xml": huge})))
    assert row.readings[0].value == 4.5


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(InvalidInput) as refused:
        xlsx_sheet(BOOK)
    assert refused.value.code == "xlsx_not_installed"
    assert "verifier-service[xlsx]" in refused.value.message


def test_the_format_is_that_of_the_name_or_the_one_that_is_said() -> None:
    raw = base64.b64encode(b'[{"candidate": "C", "x [eV]": 1}]').decode()
    for file in ({"name": "a.JSON"}, {"name": "a", "format": "json"}, {"name": "a.csv", "format": "json"}):
        sheet = sheet_of(request(file={**file, "content": raw}))
        assert sheet is not None
        assert sheet.header == ("candidate", "x [eV]")
    with pytest.raises(ValueError, match="say the format"):
        request(file={"name": "a.exe", "content": raw})
