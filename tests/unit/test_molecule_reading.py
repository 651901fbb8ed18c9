"""The strict reader: every refusal has its name, and every molecule one spelling."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from tiers.molecule import MAX_CHARS, Refusal, inchikey, read_smiles, same_molecule

REFUSED = {
    "empty_structure": ["", " ", "\t\r\n ", None, 7, 3.5, True, [], ["CCO"], {"smiles": "CCO"}],
    "too_long": ["C" * (MAX_CHARS + 1), "C" * 1_000_000, " " * 1_000_000, "C1CC1" * 3_000],
    "too_large": ["C" * 401, "C1" * 500, "[Fe]" * 401, "c1ccccc1" * 70, "C12CC12" * 60, "%10" * 500],
    "non_ascii": ["CC–O", "С", "CCO\u200b", "C→N", "CCO\u00a0", "\u00a0", "C＝O"],
    "trailing_text": [
        "CCO or CCN",
        "CCO (ethanol)",
        "CCO ethanol",
        "CCO\tethanol",
        "CCO\nCCN",
        "CCO |$R1$|",
        "CC(C)O|o1:1|",
        "C CO",
        "CCO,CCN",
        "CCO;",
    ],
    "reaction": ["CC>>CC", "CCO>[Na+]>CC", ">>C", "C>>", "CCO>", "CC(=O)OCC.[Na+].[Cl-]>>CC(=O)OCC"],
    "query": [
        "C~C",
        "[#6]",
        "[C,N]",
        "[C;H1]",
        "[!C]C",
        "C!@C",
        "[$(CO)]",
        "[CX4]",
        "[CD3]",
        "[A]",
        "[C&H]",
    ],
    "dummy_atom": ["*", "CC*", "[*:1]c1ccccc1", "[1*]CC", "*CC*", "R", "CCR", "[R1]CC", "CC[R]", "C(R#)C"],
    "multiple_fragments": ["CCO.c1ccccc1", "[Na+].[Cl-]", "C.C", "CC(=O)[O-].[Na+]"],
    "dative_bond": ["CCO->CCN", "C->C", "C<-N"],
    "syntax": [
        "CC(",
        "C1CC",
        "[C",
        "C]",
        "=C",
        "C=",
        "C==C",
        "ethanol",
        "InChI=1S/CH4/h1H4",
        "CCO.",
        "CCO\0",
        "CCO\0junk",
        "[C-99]",
        "[99999C]",
        "`CCO`",
        "[]",
        "[Zz]",
    ],
    "valence": ["C(C)(C)(C)(C)C", "F(C)C", "N(C)(C)(C)C", "[CH5]", "CO(C)C"],
    "kekulize": ["c1cccc1", "n1cccc1", "c1ccccc1c", "cc", "C:C"],
}


@pytest.mark.parametrize(
    ("code", "text"), [(code, text) for code, texts in REFUSED.items() for text in texts]
)
def test_refusals_are_named(code: str, text: object) -> None:
    with pytest.raises(Refusal) as caught:
        read_smiles(text)
    assert caught.value.code == code
    assert caught.value.message
    assert not caught.value.internal


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("OCC", "CCO"),
        ("  OCC\n", "CCO"),
        ("C1=CC=CC=C1", "c1ccccc1"),
        ("[CH3:1][CH2:2][OH:3]", "CCO"),
        ("[H]C([H])([H])[H]", "C"),
        ("[2H]OC", "[2H]OC"),
        ("[13CH4]", "[13CH4]"),
        ("C[CH2]", "[CH2]C"),
        ("CN(=O)=O", "C[N+](=O)[O-]"),
        ("[H][H]", "[H][H]"),
        ("C%(12)CC%(12)", "C1CC1"),
        ("[NH3]->[Fe]", "[NH3]->[Fe]"),
        ("F[C@](Cl)(Br)I", "F[C@](Cl)(Br)I"),
    ],
)
def test_canonical_forms(text: str, canonical: str) -> None:
    read = read_smiles(text)
    assert read.canonical == read_smiles(canonical).canonical
    assert read_smiles(read.canonical).canonical == read.canonical
    if ">" not in canonical:  # the bracket style of dative bonds is RDKit's business
        assert read.canonical == canonical


def test_atom_maps_are_dropped_with_a_note_and_make_no_stereocentre() -> None:
    read = read_smiles("[CH3:1][C@H](C)[OH:2]")
    assert read.canonical == "CC(C)O"
    assert "atom-map" in read.notes[0]
    assert read_smiles("CC(C)O").notes == ()


def test_fragments_and_dummies_pass_when_allowed() -> None:
    assert read_smiles("O.CC", allow_fragments=True).canonical == "CC.O"
    assert read_smiles("O.CC", allow_fragments=True).fragments == 2
    assert read_smiles("*CC", allow_dummies=True).has_dummies


def test_facts_of_a_molecule() -> None:
    nitroxide = read_smiles("CC1(C)CCCC(C)(C)N1[O]")
    assert (nitroxide.unpaired_electrons, nitroxide.charge, nitroxide.heavy_atoms) == (1, 0, 11)
    assert nitroxide.formula == "C9H18NO"
    assert read_smiles("CC(=O)[O-]").charge == -1
    assert nitroxide.toolkit == "rdkit 2026.09.1"


def test_the_caller_can_lower_the_size() -> None:
    assert read_smiles("CCCC", max_heavy_atoms=4).heavy_atoms == 4
    for text in ("CCCCC", "C1CCCC1"):
        with pytest.raises(Refusal) as caught:
            read_smiles(text, max_heavy_atoms=4)
        assert caught.value.code == "too_large"
    assert read_smiles("[H]C([H])([H])[H]", max_heavy_atoms=1).heavy_atoms == 1


def test_inchikey_is_empty_where_inchi_has_none() -> None:
    assert inchikey(read_smiles("CCO").mol) == "LFQSCWFLJHTTHZ-UHFFFAOYSA-N"
    assert inchikey(read_smiles("*CC", allow_dummies=True).mol) == ""


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("O=O", "[O][O]"),
        ("[N]=O", "[N+][O-]"),
        ("N[Pt@SP1](N)(Cl)Cl", "N[Pt@SP2](N)(Cl)Cl"),
        ("C[Sn@](CC)(F)Cl", "C[Sn@@](CC)(F)Cl"),
    ],
)
def test_inchi_is_not_asked_what_it_cannot_tell(left: str, right: str) -> None:
    first, second = read_smiles(left), read_smiles(right)
    assert inchikey(first.mol) == inchikey(second.mol)
    assert same_molecule(first, second) is None


PATHOLOGICAL = {
    "long chain": "C" * 100_000,
    "3,000 rings": "C1CC1" * 3_000,
    "chain at the cap": "C" * 2_000,
    "open parentheses": "(" * 2_000,
    "nesting": "C(" * 660 + "C" + ")" * 660,
    "nesting within the caps": "C(" * 390 + "C" + ")" * 390,
    "brackets": "[" * 2_000,
    "bracket of letters": "[" + "a" * 1_999,
    "bracket of commas": "[" + "," * 1_990,
    "bracket of signs": "[" + "+" * 1_990,
    "bracket of digits": "[H" + "1" * 1_990,
    "huge ring number": "C%(" + "9" * 1_900 + ")C",
    "ring numbers": "%(" * 1_000,
    "huge atom map": "[C:" + "1" * 1_900 + "]",
    "colons": ":1" * 1_000,
    "ring digits": "1" * 2_000,
    "fragments": ".".join("C" * 1_000),
    "metal clusters": "[Fe]12345" * 200,
}


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_hostile_text_costs_next_to_nothing(name: str) -> None:
    read_smiles("CCO")

    def seconds() -> float:
        started = time.perf_counter()
        with suppress(Refusal):
            read_smiles(PATHOLOGICAL[name], allow_fragments=True)
        return time.perf_counter() - started

    assert min(seconds() for _ in range(3)) < 20.0


def test_the_largest_admitted_molecules_are_bounded() -> None:
    read_smiles("CCO")
    for text in ("C" * 400, "C1CC1" * 100, "N=N" * 130, ".".join(["F[C@](Cl)(Br)I"] * 80)):
        started = time.perf_counter()
        read_smiles(text, allow_fragments=True)
        assert time.perf_counter() - started < 20.0
