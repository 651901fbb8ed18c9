"""Reading holds for molecules nobody picked, and for text nobody meant."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tiers.fast.molecule_plausibility import motifs
from tiers.molecule import Refusal, read_smiles, same_molecule, toolkit

SMILES_TOKENS = (
    "C c N n O o S s P F Cl Br I B [nH] [C@H] [C@@] [O-] [N+] [2H] [13C] [Fe] [Na+] [CH2] * ( ) = # : $ "
    ". / \\ - 1 2 3 %10 %11 -> > ~ [ ] @ + R | ,"
)


@cache
def collection() -> list[str]:
    from rdkit import RDConfig

    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text().splitlines()
    return [line.split()[0] for line in lines if line.strip()]


def read(text: str) -> Any:
    return read_smiles(text, allow_fragments=True, allow_dummies=True)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 4_990), st.integers(0, 2**31 - 1))
def test_every_spelling_of_a_molecule_reads_as_the_same_molecule(index: int, seed: int) -> None:
    try:
        molecule = read(collection()[index])
    except Refusal:
        return
    (spelling,) = toolkit().chem.MolToRandomSmilesVect(molecule.mol, 1, randomSeed=seed)
    again = read(spelling)
    assert again.canonical == molecule.canonical
    assert same_molecule(again, molecule) == "canonical"


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 4_990))
def test_canonical_forms_are_fixed_points(index: int) -> None:
    try:
        canonical = read(collection()[index]).canonical
    except Refusal:
        return
    assert read(canonical).canonical == canonical


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60), st.lists(st.sampled_from(SMILES_TOKENS.split()), max_size=60).map("".join)
    )
)
@example("C%(00001)CC%(1)")
@example("[Fe]12345[Fe]12345")
@example("C\x00C")
@example("\ud800")
def test_arbitrary_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    try:
        molecule = read(text)
    except Refusal:
        return
    assert molecule.mol.GetNumAtoms() > 0
    assert read(molecule.canonical).canonical == molecule.canonical
    motifs(molecule)


@pytest.mark.parametrize("value", [None, 1, 2.5, True, [], {}, b"CCO", object()])
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(Refusal) as caught:
        read_smiles(value)
    assert caught.value.code == "empty_structure"
