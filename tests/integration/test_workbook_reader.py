"""Hostile workbooks: each is refused for what it is, in a process that can be killed; others are served."""

from __future__ import annotations

import base64
import os
import random
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support import server, slow_workbooks
from tests.unit.test_lab_files import BOOK, repacked, workbook
from verifier_service.domain.errors import InvalidInput, LimitExceeded
from verifier_service.domain.lab_sheets import BadCell
from verifier_service.lab_files import workbook_reader
from verifier_service.lab_files.workbook_reader import read_workbook
from verifier_service.lab_files.workbooks import xlsx_sheet

SHEET = "xl/worksheets/sheet1.xml"
RELATIONS = "xl/_rels/workbook.xml.rels"
with zipfile.ZipFile(BytesIO(BOOK)) as _archive:
    PARTS = {name: _archive.read(name) for name in _archive.namelist()}
ROWS = PARTS[SHEET]
NOISE = base64.b64encode(os.urandom(130_000))  # so that the ratio tells nothing
TAGS = ROWS.replace(b"<sheetData>", b"<sheetData><!--" + NOISE + b"-->" + b"<x/>" * 7_600_000)
ENTITY = b'<!DOCTYPE l [<!ENTITY a "' + b"E" * 60_000 + b'">]>'
_TEXT = b'<row r="2"><c r="A2" t="inlineStr"><is><t>' + b"&a;" * 8_500 + b"</t></is></c></row>"
EXPANDED = ENTITY + ROWS.replace(b"<sheetData>", b"<sheetData>" + _TEXT)
DECLARED = b'<?xml version="1.0" encoding="%s"?>'


def moved(sheet: bytes, name: str, target: str | None = None) -> bytes:
    """The workbook with its sheet in another part, to which relationships and content types lead."""
    place = target or f"/xl/{name}"
    changes = {
        RELATIONS: PARTS[RELATIONS].replace(b"/xl/worksheets/sheet1.xml", place.encode()),
        "[Content_Types].xml": PARTS["[Content_Types].xml"].replace(
            b"/xl/worksheets/sheet1.xml", f"/xl/{name}".encode()
        ),
        f"xl/{name}": sheet,
    }
    assert changes[RELATIONS] != PARTS[RELATIONS]
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for one, content in ({**PARTS, **changes}).items():
            if one != SHEET:
                archive.writestr(one, content)
    return made.getvalue()


def twice(raw: bytes) -> bytes:
    made = BytesIO(raw)
    with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/Worksheets/sheet1.xml", ROWS)
    return made.getvalue()


@pytest.mark.parametrize(
    ("make", "code", "words"),
    [
        (lambda: moved(TAGS, "worksheets/sheet1.dat"), "bad_workbook", "not where"),
        (lambda: moved(ROWS, "worksheets/sheet1.dat"), "bad_workbook", "not where"),
        (lambda: moved(ROWS, "media/image1.png"), "bad_workbook", "not where"),
        (lambda: moved(ROWS, "worksheets/deep/sheet1.xml"), "bad_workbook", "not where"),
        (lambda: moved(ROWS, "worksheets/a.xml", "../../x/../x.xml"), "bad_workbook", "not where"),
        (lambda: repacked(BOOK, {SHEET: TAGS}), "too_much_markup", "tags"),
        (lambda: moved(EXPANDED, "worksheets/sheet1.dat"), "bad_workbook", "not where"),
        (lambda: repacked(BOOK, {SHEET: EXPANDED}), "bad_workbook", "entities"),
        (lambda: repacked(BOOK, {SHEET: EXPANDED.decode().encode("utf-16")}), "bad_workbook", "UTF-8"),
        (lambda: repacked(BOOK, {SHEET: EXPANDED.decode().encode("utf-16-le")}), "bad_workbook", "UTF-8"),
        (lambda: repacked(BOOK, {SHEET: DECLARED % b"UTF-16" + EXPANDED}), "bad_workbook", "UTF-8"),
        (
            lambda: repacked(BOOK, {SHEET: DECLARED % b"cp037" + EXPANDED.decode().encode("cp037")}),
            "bad_workbook",
            "UTF-8",
        ),
        (
            lambda: repacked(BOOK, {"xl/workbook.xml": ENTITY + PARTS["xl/workbook.xml"]}),
            "bad_workbook",
            "entities",
        ),
        (lambda: repacked(BOOK, {RELATIONS: ENTITY + PARTS[RELATIONS]}), "bad_workbook", "entities"),
        (lambda: repacked(BOOK, {"docProps/core.xml": NOISE * 30}), "unpacks_too_large", "one part"),
        (lambda: twice(BOOK), "bad_workbook", "two parts"),
        (lambda: b"PK\x03\x04" + b"\0" * 100, "bad_workbook", "no XLSX"),
    ],
)
def test_a_hostile_workbook_is_refused_before_it_is_parsed(
    make: Callable[[], bytes], code: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = make()
    with pytest.raises(InvalidInput, match=words) as apart:
        read_workbook(raw)
    assert apart.value.code == code
    import openpyxl

    def parsed(*_: Any, **__: Any) -> None:
        raise AssertionError("a parser saw it")

    monkeypatch.setattr(openpyxl, "load_workbook", parsed)
    with pytest.raises(InvalidInput, match=words) as here:
        xlsx_sheet(raw)
    assert here.value.code == code


def test_what_is_left_out_is_not_missed() -> None:
    more = {
        "xl/media/image1.png": os.urandom(100_000),
        "xl/calcChain.xml": b"".join(b'<c r="%d"/>' % random.getrandbits(40) for _ in range(70_000)),
        "xl/charts/chart1.xml": b"<!DOCTYPE x><x/>",
        "customXml/item1.xml": "<x/>".encode("utf-16"),
    }
    assert read_workbook(repacked(BOOK, more)) == xlsx_sheet(BOOK)
    marked = b"\xef\xbb\xbf" + DECLARED % b"utf-8" + ROWS.removeprefix(DECLARED % b"UTF-8")
    assert read_workbook(repacked(BOOK, {SHEET: marked})) == xlsx_sheet(BOOK)


def test_a_sheet_comes_back_as_it_was_read() -> None:
    raw = workbook(["run", "gap [eV]", "note"], ["r", 1.5, True], [None, None], ["漢;\n😀", -2, "x"])
    sheet = read_workbook(raw)
    assert sheet == xlsx_sheet(raw)
    assert isinstance(sheet.rows[0].cells[2], BadCell)
    assert sheet.rows[1].cells == ("漢;\n😀", -2.0, "x")


def test_texts_that_cells_share_count_each_time() -> None:
    long = base64.b64encode(os.urandom(2_900)).decode()
    raw = workbook(["a [eV]", "note"], *([random.random(), long] for _ in range(2_200)))
    with pytest.raises(LimitExceeded) as refused:
        read_workbook(raw)
    assert refused.value.code == "too_much_text"


def alive() -> list[psutil.Process]:
    """Processes that read for this one."""
    children = psutil.Process().children(recursive=True)
    return [one for one in children if slow_workbooks.CHILD in one.cmdline()]


def test_reading_is_bounded_in_time_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook_reader, "CHILD", slow_workbooks.CHILD)
    with pytest.raises(LimitExceeded) as greedy:
        read_workbook(slow_workbooks.GREEDY)
    assert (greedy.value.code, greedy.value.limit) == ("too_much_memory", 1 << 30)
    monkeypatch.setattr(workbook_reader, "DEADLINE_S", 1.0)
    with pytest.raises(LimitExceeded) as endless:
        read_workbook(slow_workbooks.ENDLESS)
    assert (endless.value.code, endless.value.limit) == ("too_slow", 1.0)
    assert alive() == []


def test_the_child_that_dies_is_a_workbook_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook_reader, "CHILD", "tests.support.no_such_module")
    with pytest.raises(InvalidInput, match="cannot be read") as refused:
        read_workbook(b"x" * 1_000_000)
    assert refused.value.code == "bad_workbook"


def test_the_server_answers_while_a_workbook_hangs(tmp_path: Path) -> None:
    running = server.start(tmp_path, module="tests.support.slow_workbooks")

    def sent(raw: bytes) -> Any:
        content = base64.b64encode(raw).decode()
        body = {"file": {"name": "a.xlsx", "content": content}, "dry_run": True}
        with running.client() as http:
            return http.post("/v1/lab-results", json=body)

    try:
        before = psutil.Process(running.process.pid).memory_info().rss
        with ThreadPoolExecutor(3) as pool, running.client() as http:
            hanging = [pool.submit(sent, slow_workbooks.ENDLESS) for _ in range(2)]
            time.sleep(0.5)
            for _ in range(5):
                assert http.get("/healthz").status_code == 200
                assert http.get("/v1/runs").status_code == 200
            assert not any(one.done() for one in hanging)
            answers = [one.result() for one in hanging]
            answers.append(sent(slow_workbooks.GREEDY))
        assert [(one.status_code, one.json()["code"]) for one in answers] == [
            (422, "too_slow"),
            (422, "too_slow"),
            (422, "too_much_memory"),
        ]
        assert sent(BOOK).json()["state"] == "dry_run"
        assert psutil.Process(running.process.pid).memory_info().rss - before < 200 << 20
    finally:
        running.close()
