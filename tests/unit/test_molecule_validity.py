"""The identifier and the hard gate."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tiers.fast.molecule_identify import MoleculeIdentify
from tiers.fast.molecule_validity import ADVICE, MoleculeValidity, ValidityParams, refused
from tiers.molecule import Molecule, Refusal
from verifier_service.domain.errors import Permanent
from verifier_service.domain.evidence import Failure, Finding, Identity, Verdict
from verifier_service.domain.verifiers import CheckInput, Params


def judge(candidate: object, **params: object) -> Finding:
    item = CheckInput.model_validate({"candidate": candidate})
    return MoleculeValidity().verify(item, ValidityParams.model_validate(params))


def identify(candidate: object) -> Finding:
    return MoleculeIdentify().verify(CheckInput.model_validate({"candidate": candidate}), Params())


@pytest.mark.parametrize("candidate", ["", " ", None, "\n", {}, []])
def test_mol_01_an_empty_structure_is_no_molecule(candidate: object) -> None:
    finding = judge(candidate)
    assert finding.verdict is Verdict.REJECT
    assert finding.reason is not None
    assert finding.reason.code == "empty_structure"
    assert finding.score is None


@pytest.mark.parametrize("candidate", ["*", "CC*", "[*:1]c1ccccc1", "[3*]C", "C[R1]", "*.CC"])
def test_mol_09_open_places_are_not_atoms(candidate: str) -> None:
    finding = judge(candidate, allow_fragments=True)
    assert finding.reason is not None
    assert finding.reason.code == "dummy_atom"


def test_a_passed_gate_is_not_a_score() -> None:
    finding = judge("CC(=O)Oc1ccccc1C(=O)O")
    assert finding.verdict is Verdict.ACCEPT
    assert finding.score is None
    assert finding.reason is None
    assert finding.labels == {
        "charge": "0",
        "unpaired_electrons": "0",
        "fragments": "1",
        "elements": "organic",
    }


@pytest.mark.parametrize(
    ("candidate", "elements"),
    [
        ("C[Si](C)(C)C", "organic"),
        ("[Fe]", "metal"),
        ("C[Se]C", "other"),
        ("F[Xe]F", "other"),
        ("C[Hg]C", "metal"),
    ],
)
def test_elements_are_labelled(candidate: str, elements: str) -> None:
    assert judge(candidate).labels["elements"] == elements


def test_fragments_pass_only_by_parameter() -> None:
    assert judge("[Na+].[Cl-]").reason is not None
    accepted = judge("[Na+].[Cl-]", allow_fragments=True)
    assert accepted.verdict is Verdict.ACCEPT
    assert accepted.labels["fragments"] == "2"


def test_radicals_pass_flagged_or_are_refused() -> None:
    flagged = judge("C[CH2]")
    assert flagged.verdict is Verdict.ACCEPT
    assert flagged.labels["unpaired_electrons"] == "1"
    assert [hint.kind for hint in flagged.hints] == ["radical"]
    refused_ = judge("C[CH2]", allow_radicals=False)
    assert refused_.reason is not None
    assert refused_.reason.code == "radical"


def test_size_is_a_parameter_within_the_service_bound() -> None:
    rejected = judge("CCCCC", max_heavy_atoms=4)
    assert rejected.reason is not None
    assert rejected.reason.code == "too_large"
    with pytest.raises(ValidationError):
        ValidityParams(max_heavy_atoms=100_000)


def test_every_rejection_says_what_to_do() -> None:
    for candidate in ("", "CC(", "c1cccc1", "CCO or CCN", "F(C)C", "C.C", "*C"):
        finding = judge(candidate)
        assert finding.reason is not None
        assert finding.hints[0].kind == finding.reason.code
        assert finding.hints[0].text == ADVICE[finding.reason.code]


def test_valence_messages_name_the_atom() -> None:
    finding = judge("CC(C)(C)(C)C")
    assert finding.reason is not None
    assert "atom # 1" in finding.reason.message


def test_a_toolkit_contradiction_is_no_rejection() -> None:
    with pytest.raises(Permanent):
        refused(Refusal("canonical_unreadable", "does not read back", internal=True))


def test_a_canonical_form_that_cannot_be_read_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def contradict(*_: object, **__: object) -> Molecule:
        raise Refusal("canonical_unreadable", "does not read back", internal=True)

    monkeypatch.setattr("tiers.fast.molecule_validity.read_smiles", contradict)
    outcome = MoleculeValidity().attempt(CheckInput(candidate="CCO"), ValidityParams())
    assert isinstance(outcome, Failure)
    assert outcome.code == "canonical_unreadable"


def test_identify_gives_equal_spellings_one_identity() -> None:
    found = {identify(text).identity for text in ("OCC", "C(O)C", " CCO ", "[CH3:1]CO")}
    assert found == {Identity(kind="molecule", canonical="CCO", toolkit="rdkit 2026.09.1")}


@pytest.mark.parametrize(
    "candidate", ["CCO.c1ccccc1", "CC*", "C[CH2]", "[2H]OC", "[Na+].[Cl-]", "F[C@](Cl)(Br)I", "*"]
)
def test_identify_refuses_nothing_by_policy(candidate: str) -> None:
    finding = identify(candidate)
    assert finding.verdict is Verdict.ACCEPT
    assert finding.identity is not None
    again = identify(finding.identity.canonical)
    assert again.identity == finding.identity


@pytest.mark.parametrize(
    ("candidate", "code"),
    [
        ("", "empty_structure"),
        ("CCO or CCN", "trailing_text"),
        ("CC>>C", "reaction"),
        ("C" * 5000, "too_long"),
    ],
)
def test_identify_leaves_unreadable_text_to_the_gate(candidate: str, code: str) -> None:
    finding = identify(candidate)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.identity is None
    assert finding.reason is not None
    assert finding.reason.code == code
    gate = judge(candidate)
    assert gate.reason == finding.reason
