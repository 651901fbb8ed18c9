"""The XYZ reader: dialects that are read, and the named refusal of everything else."""

from __future__ import annotations

import pytest

from tiers.structure import MAX_ATOMS, MAX_TEXT, Problem, Structure, read_xyz

WATER = "3\nwater\nO 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n"
ATOMS = "O 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n"


def accepted(text: object) -> Structure:
    structure = read_xyz(text)
    assert isinstance(structure, Structure), structure
    return structure


def refused(text: object) -> str:
    problem = read_xyz(text)
    assert isinstance(problem, Problem), problem
    assert problem.blame == "answer"
    return problem.code


@pytest.mark.parametrize(
    "text",
    [
        WATER,
        "3\n\nO\t0\t0\t0\nH\t0.96\t0\t0\nH\t-0.24\t0.93\t0\n",
        "3\n42\n" + ATOMS,
        "  3  \n-1.5e3\n" + ATOMS,
        WATER.replace("\n", "\r\n"),
        WATER.replace("\n", "\r"),
        "\ufeff" + WATER,
        WATER.rstrip("\n"),
        "3\nwater\no 0. .0 +0\nh 9.6e-1 0 0\nH -2.4E-1 0.93 -0\n",
        "3\nwater\n8 0 0 0\n1 0.96 0 0\n1 -0.24 0.93 0\n",
        "3\nO 0 0 0\n" + ATOMS,
    ],
    ids=[
        "plain",
        "tabs",
        "numeric",
        "spaces",
        "crlf",
        "cr",
        "bom",
        "no-end",
        "floats",
        "Z",
        "atomlike-comment",
    ],
)
def test_dialects_give_the_same_water(text: str) -> None:
    structure = accepted(text)
    assert structure.symbols == ("O", "H", "H")
    assert structure.positions == ((0, 0, 0), (0.96, 0, 0), (-0.24, 0.93, 0))
    assert structure.notes == ()


def test_qm9_extras_are_ignored_and_reported() -> None:
    atoms = "O 0 0 0 -0.4\nH 0.96 0 0 0.2\nH -0.24 0.93 0 0.2\n"
    text = "3\n17 gdb 1\n" + atoms + "1341.3 1562.6\nO\nInChI=1S/H2O/h1H2\n"
    structure = accepted(text)
    assert len(structure.symbols) == 3
    assert structure.notes == (
        "1 extra column(s) after the coordinates ignored",
        "3 line(s) after the last atom ignored",
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("3\n" + ATOMS, "missing_comment_line"),
        ("3\n" + ATOMS + "1341.3 1562.6\n", "missing_comment_line"),
        ("1\nH 0 0 0\n", "missing_comment_line"),
        ("3\nx\nO 0 0 0\nH 0,96 0 0\nH -0,24 0,93 0\n", "bad_number"),
        ("3\nx\nO 0 0 0\nH 9.6*^-1 0 0\nH -0.24 0.93 0\n", "bad_number"),
        ("3\nx\nO 0 0 0\nH 9.6D-1 0 0\nH -0.24 0.93 0\n", "bad_number"),
        ("3\nx\nO 0 0 0\nH 1_0 0 0\nH -0.24 0.93 0\n", "bad_number"),
        ("3\nx\nO 0 0 0\nH 0x1 0 0\nH -0.24 0.93 0\n", "bad_number"),
        ("3\nx\nO 0 0 0\nH ٣ 0 0\nH -0.24 0.93 0\n", "bad_number"),
        ("3\nx\nO 0 0 0\nH __import__('os') 0 0\nH -0.24 0.93 0\n", "bad_number"),
        ("3\nx\nO 0 0 0\nH ******** 0 0\nH -0.24 0.93 0\n", "bad_number"),
        ("4\nx\n" + ATOMS, "atom_count"),
        ("2\nx\n" + ATOMS, "atom_count"),
        ("3\nx\nO 0 0 0\n\nH 0.96 0 0\nH -0.24 0.93 0\n", "atom_count"),
        ("3\nx\nO 0 0 nan\nH 0.96 0 0\nH -0.24 0.93 0\n", "non_finite"),
        ("3\nx\nO 0 0 -Inf\nH 0.96 0 0\nH -0.24 0.93 0\n", "non_finite"),
        ("3\nx\nO 0 0 1e999\nH 0.96 0 0\nH -0.24 0.93 0\n", "non_finite"),
        ("3\nx\nO 0 0 1e5\nH 0.96 0 0\nH -0.24 0.93 0\n", "out_of_range"),
        ("3\nx\nO 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n", "bad_atom_line"),
        ("3\nx\nQq 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n", "unknown_element"),
        ("3\nx\nO1 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n", "unknown_element"),
        ("3\nx\n119 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n", "unknown_element"),
        ("3\nx\nGhost-H 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n", "ghost_atom"),
        ("3\nx\nX 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n", "ghost_atom"),
        ("3\nx\nGH-O 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n", "ghost_atom"),
        ("3\nx\n0 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n", "unknown_element"),
        (WATER + "3\nnext\n" + ATOMS, "several_structures"),
        ("", "bad_header"),
        ("\n" + WATER, "bad_header"),
        ("three\nx\n" + ATOMS, "bad_header"),
        ("-3\nx\n" + ATOMS, "bad_header"),
        ("3.0\nx\n" + ATOMS, "bad_header"),
        ("0\n\n", "empty_structure"),
        (f"{MAX_ATOMS + 1}\n\n" + "H 0 0 0\n" * (MAX_ATOMS + 1), "too_many_atoms"),
        ("9" * 9 + "\n\n", "too_many_atoms"),
        (WATER + " " * MAX_TEXT, "too_long"),
        (None, "not_text"),
        (3, "not_text"),
        (["O", 0, 0, 0], "not_text"),
    ],
)
def test_refusals_are_named(text: object, code: str) -> None:
    assert refused(text) == code
