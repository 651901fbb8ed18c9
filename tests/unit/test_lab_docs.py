"""The examples of docs/lab-results.md are read as the page says, and its tables name what there is."""

from __future__ import annotations

import json
import re
from pathlib import Path

from verifier_service.domain import lab_evaluation, lab_matching, lab_rows
from verifier_service.domain.lab_numbers import __file__ as numbers
from verifier_service.domain.lab_results import PlateMap, Role
from verifier_service.domain.lab_rows import rows_of
from verifier_service.domain.lab_sheets import MEANINGS, columns_of
from verifier_service.domain.lab_sheets import __file__ as sheets
from verifier_service.lab_files.text import csv_sheet

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "lab-results.md").read_text()


def block(kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_file_is_read() -> None:
    sheet = csv_sheet(block("csv").encode())
    rows = rows_of(sheet, columns_of(sheet.header), None)
    assert [row.errors for row in rows] == [[], [], []]
    assert [(row.texts["trajectory"], row.readings[0].value, row.readings[0].unit) for row in rows] == [
        ("mol-12", 4.31, "eV"),
        ("mol-12", 4.36, "eV"),
        ("mol-13", 472.8, "kJ/mol"),
    ]


def test_the_example_map_is_one() -> None:
    [plate] = [PlateMap.model_validate(one) for one in json.loads(block("json"))]
    controls = [well for well in plate.wells if well.role is Role.NEGATIVE]
    assert len(controls) == 2


def test_every_column_and_every_code_is_explained() -> None:
    for names in MEANINGS.values():
        for name in names:
            assert f"`{name}`" in PAGE, name
    for file in (lab_evaluation.__file__, lab_matching.__file__, lab_rows.__file__, numbers, sheets):
        source = Path(file).read_text()
        codes = re.findall(r'(?:refuse|NotANumber|BadCell)\(\s*"([a-z_]+)"', source)
        codes += re.findall(r'refused = \("([a-z_]+)"', source)
        for code in codes:
            assert f"`{code}`" in PAGE, code
