"""The soft gate: absurd molecules are named, ordinary and energetic ones pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiers.fast.molecule_plausibility import MoleculePlausibility, PlausibilityParams, motifs
from tiers.molecule import Refusal, read_smiles
from verifier_service.domain.evidence import Finding, Verdict
from verifier_service.domain.verifiers import CheckInput

ABSURD = {
    "NN=NN=NNN=NN": "chain of 9 N",
    "COOOOOO": "O-O-O chain",
    "NNNNNN": "chain of 6 N",
    "NN=NN=N": "chain of 5 N",
    "CNN(C)NC": "saturated N-N-N",
    "n1nnnnn1": "five N",
    "c1nnnnn1": "five N",
    "CN=NN=NC": "between two N=N",
    "O=NN=NC": "between two N=N",
    "OOO": "O-O-O chain",
    "COOOC": "O-O-O chain",
    "O1OO1": "O-O-O chain",
    "CONON": "heteroatoms",
    "NONONO": "heteroatoms",
    "COSOSOC": "heteroatoms",
    "CSSSSSSSSSSC": "chain of 10 chalcogen",
    "CP(C)P(C)P(C)P(C)P(C)P(C)P(C)C": "pnictogen",
    "COF": "O-F bond",
    "CCOOCl": "O-Cl bond",
    "ClOCCOCl": "several O-halogen",
    "CN(F)N(C)C": "N-F bond",
    "OC(O)(O)O": "three OH",
    "CC(O)(O)N": "three OH",
    "C1#CC1": "triple bond in a ring of 3",
    "C1#CCC1": "triple bond in a ring of 4",
    "C1#CCCC1": "triple bond in a ring of 5",
    "C1#CC=CC=C1": "triple bond in a ring of 6",
    "C1=C=CCC1": "cumulated double bonds in a ring of 5",
    "C=C=C=C=C": "4 cumulated",
    "C1=CO1": "antiaromatic",
    "C1=CN1": "antiaromatic",
    "C1=CC=C1": "cyclobutadiene",
    "C12C3C1C23": "tetrahedrane",
    "C1CC2CCC1=C2": "bridgehead double bond",
    "C1CC2CCCC(=C2)C1": "bridgehead double bond",
    "C1CC2=CCC1C2": "bridgehead double bond",
    "C[CH2+]": "carbocation",
    "C[N+](C)(C)[N+](C)(C)C": "like sign",
    "C[F+]C": "positive F",
    "C[C]": "carbene",
    "[CH2]": "carbene",
    "[CH2]C([CH2])[CH2]": "3 unpaired",
    "[50CH4]": "no nuclide",
    "[Og]": "atom by atom",
    "C$C": "quadruple",
    "C#CC#CC#CC#CC#CC#CC#CC#C": "conjugated triple",
}
PLAUSIBLE = {
    "azide": "CCN=[N+]=[N-]",
    "diazo": "CCOC(=O)C=[N+]=[N-]",
    "diazonium": "c1ccccc1[N+]#N",
    "tetrazole": "c1nnn[nH]1",
    "benzotriazole": "c1ccc2[nH]nnc2c1",
    "azidotetrazole": "[N-]=[N+]=Nc1nnn[nH]1",
    "tetrazene": "CN(C)N=NN(C)C",
    "triazene": "CN(C)N=Nc1ccccc1",
    "nitro": "Cc1c(cc(cc1[N+](=O)[O-])[N+](=O)[O-])[N+](=O)[O-]",
    "nitramine (RDX)": "C1N(CN(CN1[N+](=O)[O-])[N+](=O)[O-])[N+](=O)[O-]",
    "nitrate (PETN)": "C(CO[N+](=O)[O-])(CO[N+](=O)[O-])(CO[N+](=O)[O-])CO[N+](=O)[O-]",
    "dinitrogen tetroxide": "[O-][N+](=O)[N+](=O)[O-]",
    "sulfonyl": "CS(=O)(=O)c1ccccc1",
    "peroxide": "CC(C)(C)OOC(C)(C)C",
    "hydrogen peroxide": "OO",
    "artemisinin": "CC1CCC2C(C)C(=O)OC3OC4(C)CCC1C23OO4",
    "ozonide": "C1OOC(O1)C",
    "ozone": "[O-][O+]=O",
    "peroxynitrate (PAN)": "CC(=O)OO[N+](=O)[O-]",
    "hydrazine": "NN",
    "phenylhydrazine": "NNc1ccccc1",
    "hydroxylamine": "NO",
    "diazeniumdiolate": "CCN(CC)[N+]([O-])=NOC",
    "N-halo imide": "O=C1CCC(=O)N1Br",
    "chloramine-T": "Cc1ccc(cc1)S(=O)(=O)[N-]Cl",
    "tert-butyl hypochlorite": "CC(C)(C)OCl",
    "perchlorate": "OCl(=O)(=O)=O",
    "periodinane": "CC(=O)OI1(OC(C)=O)(OC(C)=O)OC(=O)c2ccccc12",
    "disulfide": "CSSC",
    "S8": "S1SSSSSSS1",
    "P4": "P12P3P1P23",
    "ATP": "Nc1ncnc2c1ncn2C1OC(COP(=O)(O)OP(=O)(O)OP(=O)(O)O)C(O)C1O",
    "ATP tetraanion": "Nc1ncnc2c1ncn2C1OC(COP(=O)([O-])OP(=O)([O-])OP(=O)([O-])[O-])C(O)C1O",
    "chloral hydrate": "OC(O)C(Cl)(Cl)Cl",
    "orthoester": "COC(OC)OC",
    "Tris": "NC(CO)(CO)CO",
    "guanidinium": "NC(N)=[NH2+]",
    "betaine": "C[N+](C)(C)CC(=O)[O-]",
    "trityl cation": "c1ccccc1[C+](c1ccccc1)c1ccccc1",
    "TEMPO": "CC1(C)CCCC(C)(C)N1[O]",
    "dioxygen": "[O][O]",
    "N-heterocyclic carbene": "CN1C=CN(C)[C]1",
    "cyclooctyne": "C1#CCCCCCC1",
    "cyclopropene": "C1=CC1",
    "cyclopropenone": "O=C1C=C1",
    "2H-azirine": "CC1=NC1",
    "allene": "C=C=C",
    "butatriene": "C=C=C=C",
    "carbon suboxide": "O=C=C=C=O",
    "cubane": "C12C3C4C1C5C2C3C45",
    "propellane": "C1C23CC12C3",
    "norbornene": "C1CC2CC1C=C2",
    "bicyclo[3.3.1]non-1-ene": "C1=C2CCCC(C2)CC1",
    "octalin": "C1CCC2=CCCCC2C1",
    "ferrocene": "[Fe+2].[cH-]1cccc1.[cH-]1cccc1",
    "sodium peroxide": "[Na+].[Na+].[O-][O-]",
    "calcium carbide": "[C-]#[C-].[Ca+2]",
    "nitrosamine": "CN(C)N=O",
    "nitroso dimer": "C[N+]([O-])=[N+](C)[O-]",
    "azine": "CC=NN=CC",
    "tetrazine": "c1nncnn1",
    "table salt": "[Na+].[Cl-]",
    "deuterochloroform": "[2H]C(Cl)(Cl)Cl",
    "biphenylene": "c1ccc2c(c1)-c1ccccc1-2",
    "caffeine": "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "paclitaxel": (
        "CC1=C2C(C(=O)C3(C(CC4C(C3C(C(C2(C)C)(CC1OC(=O)C(C(C5=CC=CC=C5)NC(=O)C6=CC=CC=C6)O)O)"
        "OC(=O)C7=CC=CC=C7)(CO4)OC(=O)C)O)C)OC(=O)C"
    ),
}


def judge(candidate: object, **params: object) -> Finding:
    item = CheckInput.model_validate({"candidate": candidate})
    return MoleculePlausibility().verify(item, PlausibilityParams.model_validate(params))


@pytest.mark.parametrize(("smiles", "motif"), ABSURD.items())
def test_absurd_molecules_are_rejected_by_name(smiles: str, motif: str) -> None:
    finding = judge(smiles)
    assert finding.verdict is Verdict.REJECT
    assert finding.reason is not None
    assert finding.reason.code == "implausible"
    assert motif in finding.reason.message
    assert any(hint.kind == "implausible" for hint in finding.hints)
    assert finding.score is None


@pytest.mark.parametrize("name", PLAUSIBLE)
def test_real_molecules_pass(name: str) -> None:
    finding = judge(PLAUSIBLE[name])
    assert finding.reason is None
    assert finding.verdict is Verdict.ACCEPT
    assert finding.score is None


@pytest.mark.parametrize(
    ("candidate", "code"), [("CCO>>CC", "reaction"), ("", "empty_structure"), ("C(", "syntax")]
)
def test_unreadable_text_keeps_its_name(candidate: str, code: str) -> None:
    finding = judge(candidate)
    assert finding.reason is not None
    assert finding.reason.code == code


def test_radicals_that_pass_are_flagged() -> None:
    finding = judge("CC1(C)CCCC(C)(C)N1[O]")
    assert finding.labels["unpaired_electrons"] == "1"
    assert [hint.kind for hint in finding.hints] == ["radical"]


def test_the_accessibility_score_is_measured_and_bounded_by_parameter() -> None:
    aspirin = judge("CC(=O)Oc1ccccc1C(=O)O")
    assert aspirin.measurements[0].quantity == "sa_score"
    assert 1.0 < aspirin.measurements[0].value < 2.0
    strict = judge("CC(=O)Oc1ccccc1C(=O)O", max_sa_score=1.1)
    assert strict.reason is not None
    assert "synthetic accessibility" in strict.reason.message
    assert judge("CCO", max_sa_score=10.0).measurements == ()
    peptide = judge("N" + "[C@@H](C)C(=O)N" * 60 + "CC(=O)O")
    assert peptide.verdict is Verdict.ACCEPT
    assert peptide.measurements == ()


def test_at_most_two_percent_of_a_real_collection_is_called_implausible() -> None:
    from rdkit import RDConfig

    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text().splitlines()
    judged = rejected = 0
    for line in lines[::5]:
        try:
            molecule = read_smiles(line.split()[0])
        except (Refusal, IndexError):
            continue
        judged += 1
        rejected += bool(motifs(molecule))
    assert judged > 900
    assert rejected / judged < 0.02
