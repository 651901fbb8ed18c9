"""Is the answer the reference molecule? Every level, every named rejection."""

from __future__ import annotations

from typing import Any

import pytest

from tiers.fast.molecule_forms import FormUnavailable, parent_form, tautomer_form
from tiers.fast.molecule_identity import MoleculeIdentity
from tiers.molecule import Refusal, inchikey, read_smiles
from verifier_service.domain.errors import Permanent, TaskError
from verifier_service.domain.evidence import Failure, Finding, Verdict
from verifier_service.domain.verifiers import CheckInput, Params

MACROCYCLE = (
    "CC(C)(C)COc1ccc2c(c1)C1=NC3=NC(=NC4=NC(=NC5=NC(=NC2=N1)c1ccc(OCC(C)(C)C)cc15)c1cc(OCC(C)(C"
    ")C)ccc14)c1cc(OCC(C)(C)C)ccc13"
)
MACROCYCLE_TOO = (
    "CC(C)(C)COc1ccc2c(c1)C1=NC2=NC2=NC(=NC3=NC(=NC4=NC(=N1)c1ccc(OCC(C)(C)C)cc14)c1ccc(OCC(C)("
    "C)C)cc13)c1cc(OCC(C)(C)C)ccc12"
)


def judge(gold: object, candidate: object, identity: str | None = None) -> Finding:
    inputs: dict[str, Any] = {} if identity is None else {"identity": identity}
    item = CheckInput.model_validate(
        {"candidate": candidate, "reference": {"smiles": gold}, "inputs": inputs}
    )
    return MoleculeIdentity().verify(item, Params())


def code(finding: Finding) -> str | None:
    return finding.reason.code if finding.reason else None


def accepted(finding: Finding) -> bool:
    assert finding.score in (0.0, 1.0)
    assert (finding.score == 1.0) is (finding.verdict is Verdict.ACCEPT)
    return finding.score == 1.0


@pytest.mark.parametrize("gold", ["CCO", "[Na+].[Cl-]", "CC*"])
@pytest.mark.parametrize("candidate", ["", " ", None])
def test_mol_01_empty_structures(gold: str, candidate: str | None) -> None:
    finding = judge(gold, candidate)
    assert (code(finding), finding.score) == ("empty_structure", 0.0)


@pytest.mark.parametrize(
    ("gold", "candidate"),
    [
        (MACROCYCLE, MACROCYCLE_TOO),
        (MACROCYCLE_TOO, MACROCYCLE),
        ("C1=CC=CC=C1", "c1ccccc1"),
        ("Oc1ccccn1", "O=c1cccc[nH]1"),
        ("Cc1c[nH]cn1", "Cc1cnc[nH]1"),
        ("CC1=C(C)C=CC=C1", "Cc1ccccc1C"),
        ("CS(C)=O", "C[S+](C)[O-]"),
        ("CC1=C(C)C=CC=CC=C1", "CC1=CC=CC=CC=C1C"),
    ],
)
def test_mol_04_kekule_variants_are_one_molecule(gold: str, candidate: str) -> None:
    assert accepted(judge(gold, candidate))


def test_an_inchi_match_says_what_inchi_merges() -> None:
    finding = judge(MACROCYCLE, MACROCYCLE_TOO)
    assert finding.labels["match"] == "inchikey"
    assert any("InChI merges" in text for text in finding.assumptions)
    plain = judge("CCO", "OCC")
    assert plain.labels["match"] == "canonical"
    assert not any("InChI" in text for text in plain.assumptions)


MOL_06 = ["Oc1ccccn1", "O=c1cccc[nH]1", "CC(=O)CC(C)=O", "CC(O)=CC(C)=O", "Cc1c[nH]cn1", "Cc1cnc[nH]1"]


def test_mol_06_each_level_counts_its_own_number() -> None:
    read = [read_smiles(text) for text in MOL_06]
    assert len({each.canonical for each in read}) == 6
    assert len({inchikey(each.mol) for each in read}) == 4
    assert len({tautomer_form(each).canonical for each in read}) == 3
    more = [
        read_smiles(text) for text in ("OC(C)=NC", "CNC(C)=O", "NC(N)=S", "NC(S)=N", "C=C(O)C", "CC(C)=O")
    ]
    assert len({tautomer_form(each).canonical for each in more}) == 3


@pytest.mark.parametrize(
    ("gold", "candidate"),
    [
        ("CO", "[2H]OC"),
        ("CO", "[2H]C([2H])([2H])O"),
        ("[2H]OC", "[2H]C([2H])([2H])O"),
        ("C", "[13CH4]"),
        ("[14C]C", "[13C]C"),
    ],
)
@pytest.mark.parametrize("level", ["exact", "inchikey", "tautomer", "parent"])
def test_mol_07_isotopes_are_identity(gold: str, candidate: str, level: str) -> None:
    finding = judge(gold, candidate, level)
    assert not accepted(finding)
    assert code(finding) == "different_molecule"
    assert "isotope" in [hint.kind for hint in finding.hints]


@pytest.mark.parametrize(
    ("gold", "candidate"), [("CC", "C[CH2]"), ("O=O", "[O][O]"), ("CO", "C[O]"), ("[N+][O-]", "[N]=O")]
)
def test_mol_07_radicals_are_identity_and_flagged(gold: str, candidate: str) -> None:
    finding = judge(gold, candidate, "inchikey")
    assert not accepted(finding)
    assert finding.labels["unpaired_electrons"] != "0"
    assert finding.hints[0].kind == "radical"


def test_mol_07_a_tautomer_that_does_not_read_back_is_no_score() -> None:
    deuterated = "[2H]C([2H])(C(=O)O)C([2H])([2H])C=O"
    with pytest.raises(FormUnavailable):
        tautomer_form(read_smiles(deuterated))
    same = judge(deuterated, "O=CC([2H])([2H])C([2H])([2H])C(O)=O", "tautomer")
    assert accepted(same)
    other = judge("OC(=O)CCC=O", deuterated, "tautomer")
    assert code(other) == "different_molecule"


def test_a_tautomer_enumeration_cut_short_is_not_a_score() -> None:
    peptide = "N" + "[C@@H](C)C(=O)N" * 11 + "CC(=O)O"
    other = "N" + "[C@@H](C)C(=O)N" * 10 + "[C@H](C)C(=O)N" + "CC(=O)O"
    with pytest.raises(Permanent, match="cannot be compared"):
        judge(peptide, other, "tautomer")
    assert accepted(judge(peptide, peptide, "tautomer")), "equal molecules need no tautomers"


def test_cages_of_other_formulas_never_reach_inchi(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> str:
        raise AssertionError("InChI was asked")

    monkeypatch.setattr("tiers.molecule.inchikey", refuse)
    assert code(judge("CCO", "C1CCCCC1")) == "different_molecule"


@pytest.mark.parametrize("candidate", ["*", "CC*", "[*:1]c1ccccc1", "*CC*", "[R1]CC", "[2*]C"])
@pytest.mark.parametrize("gold", ["CC*", "CCC"])
def test_mol_09_wildcards_are_refused_whatever_the_gold(gold: str, candidate: str) -> None:
    finding = judge(gold, candidate)
    assert (code(finding), finding.score) == ("dummy_atom", 0.0)


@pytest.mark.parametrize(
    ("gold", "candidate", "level", "expected"),
    [
        ("CCO", "CCO.c1ccccc1", None, "multiple_fragments"),
        ("[Na+].[Cl-]", "[Na]Cl", "inchikey", None),
        ("CC(=O)O", "CC(=O)[O-].[Na+]", "default", "multiple_fragments"),
        ("CC(=O)O", "CC(=O)[O-].[Na+]", "parent", None),
        ("[NH4+].[Cl-]", "N.Cl", "inchikey", None),
        ("[Na]Cl", "[Na+].[Cl-]", "exact", None),
        ("[Na+].[Cl-]", "[K+].[Cl-]", "exact", "different_molecule"),
        ("[Na+].[Cl-]", "[K+].[Cl-]", "parent", "different_molecule"),
        ("CCO", "CCO.CCN", "tautomer", "multiple_fragments"),
        ("CCCCO", "CCCCO.CCCCCC", "parent", "multiple_fragments"),
        ("CCO", "CCO.[Na+].[Cl-]", "parent", None),
        ("CN1CCC[C@H]1c1cccnc1", "CN1CCC[C@H]1c1cccnc1.OC(=O)C(O)C(O)C(=O)O", "parent", None),
        ("CN1CCC[C@H]1c1cccnc1", "CN1CCC[C@@H]1c1cccnc1.Cl", "parent", "different_molecule"),
        ("c1ccncc1", "c1cc[nH+]cc1.[Cl-]", "parent", None),
        ("CC(=O)O", "CC(=O)O[Na]", "parent", None),
        ("CC(=O)O", "CC(=O)[O-]", "exact", "different_molecule"),
        ("CC(=O)O", "CC(=O)[O-]", "parent", None),
        ("CCO.O", "O.OCC", "exact", None),
        ("CCO.O", "CCO", "exact", "different_molecule"),
        ("CCO.O", "CCO", "parent", None),
    ],
)
def test_mol_10_salts_and_mixtures(
    gold: str, candidate: str, level: str | None, expected: str | None
) -> None:
    finding = judge(gold, candidate, level)
    assert code(finding) == expected
    assert accepted(finding) is (expected is None)


def test_mol_10_proton_placement_is_said() -> None:
    finding = judge("[NH4+].[Cl-]", "N.Cl", "inchikey")
    assert any("proton" in text for text in finding.assumptions)


@pytest.mark.parametrize(
    ("gold", "candidate"),
    [
        ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"),
        ("C[C@H](N)C(=O)O", "CC(N)C(=O)O"),
        ("C/C=C/C", "C/C=C\\C"),
        ("N[Pt@SP1](N)(Cl)Cl", "N[Pt@SP2](N)(Cl)Cl"),
        ("CCO", "COC"),
        ("CC[C@H](C)C(C)=O", "CC[C@@H](C)C(C)=O"),
    ],
)
@pytest.mark.parametrize("level", ["exact", "tautomer", "parent"])
def test_stereo_and_constitution_are_identity_at_every_level(gold: str, candidate: str, level: str) -> None:
    assert code(judge(gold, candidate, level)) == "different_molecule"


@pytest.mark.parametrize(
    ("gold", "candidate"),
    [
        ("CC(=O)CC(C)=O", "CC(O)=CC(C)=O"),
        ("CC(C)=O", "C=C(O)C"),
        ("CC=NO", "CCN=O"),
        ("NC(N)=S", "NC(S)=N"),
    ],
)
def test_tautomers_are_equal_only_by_request(gold: str, candidate: str) -> None:
    by_request = judge(gold, candidate, "tautomer")
    assert accepted(by_request)
    assert "identity level: tautomer" in by_request.assumptions
    if inchikey(read_smiles(gold).mol) != inchikey(read_smiles(candidate).mol):
        assert not accepted(judge(gold, candidate))


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        ("CCO or CCN", "trailing_text"),
        ("CCO (ethanol)", "trailing_text"),
        ("CC>>CCO", "reaction"),
        ("C~C", "query"),
        ("CCО", "non_ascii"),
        ("CC(O", "syntax"),
        ("C" * 3_000, "too_long"),
        ("C(C)(C)(C)(C)C", "valence"),
        ("c1cccc1", "kekulize"),
    ],
)
def test_unreadable_answers_are_wrong_by_name(candidate: str, expected: str) -> None:
    finding = judge("CCO", candidate)
    assert (code(finding), finding.score) == (expected, 0.0)


@pytest.mark.parametrize(
    "reference", [{}, {"smiles": None}, {"smiles": ""}, {"smiles": "C("}, {"smiles": ["C"]}]
)
@pytest.mark.parametrize("candidate", ["CCO", "", "garbage"])
def test_a_bad_reference_is_nobodys_score(reference: dict[str, Any], candidate: str) -> None:
    item = CheckInput(candidate=candidate, reference=reference)
    outcome = MoleculeIdentity().attempt(item, Params())
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.code, outcome.retryable) == ("task_error", "bad_reference", False)


def test_a_reference_with_wildcards_cannot_be_met() -> None:
    with pytest.raises(TaskError) as caught:
        judge("CC*", "CCO")
    assert caught.value.code == "bad_reference"


@pytest.mark.parametrize("level", ["", "Exact", "fuzzy", None, 3, ["exact"]])
def test_unknown_levels_are_task_errors(level: Any) -> None:
    item = CheckInput(candidate="C", reference={"smiles": "C"}, inputs={"identity": level})
    with pytest.raises(TaskError) as caught:
        MoleculeIdentity().verify(item, Params())
    assert caught.value.code == "bad_identity_level"


def test_the_reference_never_leaks() -> None:
    gold = "CN1CCC[C@H]1c1cccnc1"
    for candidate in ("CCO", "CCO.CC", "", "[2H]C", "C[CH2]", "CN1CCC[C@@H]1c1cccnc1"):
        text = judge(gold, candidate, "parent").model_dump_json()
        assert gold not in text
        assert "C10H14N2" not in text
        assert inchikey(read_smiles(gold).mol) not in text


def test_parents_never_pick_the_largest_piece() -> None:
    with pytest.raises(Refusal) as caught:
        parent_form(read_smiles("CCCO.CCCCCCCCCC", allow_fragments=True))
    assert caught.value.code == "multiple_fragments"
    twice = parent_form(read_smiles("CCCCN.CCCCN.OS(=O)(=O)O", allow_fragments=True))
    assert twice.canonical == "CCCCN"
    assert parent_form(read_smiles("[CH3+].[Cl-]", allow_fragments=True)).canonical == "[CH3+]"
