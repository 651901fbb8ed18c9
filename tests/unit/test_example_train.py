"""The reference loop's fast verifier, its fit, its molecules and its ladders: what needs no torch."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from rdkit import Chem, rdBase

from examples.train import fit_pi_gap, molecules
from examples.train.pi_gap import FIT, QUANTITY, PiGap, PiGapParams, features
from scheduler.value import utility_at
from tiers.conformance import conformance, read_samples
from tiers.simulation.xtb_gap import QUANTITY as TOP_QUANTITY
from verifier_service.domain.errors import Permanent
from verifier_service.domain.evidence import Measurement
from verifier_service.domain.ladders import LadderSpec
from verifier_service.domain.verifiers import CheckInput

EXAMPLE = Path(fit_pi_gap.__file__).parent
WINDOW = PiGapParams(low=1.5, high=2.2)


def measured(smiles: str) -> Measurement:
    return PiGap().verify(CheckInput(candidate=smiles), WINDOW).measurements[0]


def ladder(name: str) -> LadderSpec:
    return LadderSpec.model_validate_json((EXAMPLE / "ladders" / f"{name}.json").read_text())


@pytest.mark.parametrize(
    ("smiles", "gap"),
    [
        # Levels of linear polyenes: 2 cos(k pi / (n + 1)) (Coulson 1939); benzene has 1 and -1.
        ("C=C", 2.0),
        ("C=CC=C", 1.2360679774997896),
        ("c1ccccc1", 2.0),
        ("C=CC=CC=C", 0.8900837358252576),
    ],
)
def test_hueckel_levels_of_hydrocarbons(smiles: str, gap: float) -> None:
    found = features(Chem.MolFromSmiles(smiles))
    assert found is not None
    assert found[0] == pytest.approx(gap, abs=1e-12)
    assert found[1:] == (0.0, 0.0)


def test_formaldehyde_by_hand() -> None:
    """Two levels: h/2 ± sqrt((h/2)² + k²) with h = 0.97 and k = 1.06."""
    found = features(Chem.MolFromSmiles("C=O"))
    assert found == (pytest.approx(2 * (0.485**2 + 1.06**2) ** 0.5), 1.0, 0.0)


def test_what_has_no_pi_electrons_gets_the_saturated_mean_with_its_spread() -> None:
    assert features(Chem.MolFromSmiles("CCO")) is None
    found = measured("CCO")
    assert found.value > 8.0
    assert found.sigma is not None
    assert found.sigma > 1.0


@pytest.mark.parametrize("smiles", ["C[Si]=C", "C=[N+](C)C", "C=C[CH2]", "[Na+].[Cl-]", "hello", ""])
def test_what_the_model_does_not_cover_is_a_failure_and_no_number(smiles: str) -> None:
    with pytest.raises(Permanent):
        PiGap().verify(CheckInput(candidate=smiles), WINDOW)


def test_hints_say_on_which_side_of_the_window_the_estimate_lies() -> None:
    def kinds(smiles: str, window: PiGapParams) -> list[str]:
        found = PiGap().verify(CheckInput(candidate=smiles), window)
        return [hint.kind for hint in found.hints]

    value = measured("C=CC=O").value
    assert kinds("C=CC=O", PiGapParams(low=value - 1, high=value - 0.1)) == ["gap_too_high"]
    assert kinds("C=CC=O", PiGapParams(low=value + 0.1, high=value + 1)) == ["gap_too_low"]
    assert kinds("C=CC=O", PiGapParams(low=value, high=value)) == []
    assert kinds("C=CC=O", PiGapParams()) == []


def test_the_shipped_fit_follows_from_the_shipped_gaps() -> None:
    stored = json.loads(FIT.read_text())
    again = fit_pi_gap.fit(stored["gaps_ev"])
    assert again["coefficients"] == pytest.approx(stored["coefficients"], abs=2e-4)
    assert again["sigma"] == pytest.approx(stored["sigma"], abs=2e-4)
    assert again["saturated"] == pytest.approx(stored["saturated"], abs=2e-3)
    assert again["n"] == stored["n"] >= 90


def test_the_gaps_of_the_fit_are_those_that_xtb_measures() -> None:
    stored = json.loads(FIT.read_text())["gaps_ev"]
    some = random.Random(2).sample(sorted(stored), 3)
    again = dict(fit_pi_gap.measured(some))
    assert {smiles: round(gap, 2) for smiles, gap in again.items()} == {
        smiles: pytest.approx(stored[smiles], abs=0.02) for smiles in some
    }


def test_it_is_wrong_in_one_direction_outside_of_its_domain() -> None:
    """Isocyanates look as if they were in the window, and are not: what a policy paid by it finds."""
    promised = [measured(smiles).value for smiles in ("O=C=NCO", "CNN=C=O", "O=C=NF")]
    true = [gap for _, gap in fit_pi_gap.measured(["O=C=NCO", "CNN=C=O", "O=C=NF"])]
    utility = ladder("ladder").utility
    assert utility is not None
    assert all(utility_at(utility, value) > 0.9 for value in promised)
    assert len(true) == 3
    assert all(utility_at(utility, value) == 0.0 for value in true)


def test_the_ladders_differ_only_in_who_estimates() -> None:
    fast, top, both = (ladder(name) for name in ("fast-only", "all-at-top", "ladder"))
    assert fast.utility == top.utility == both.utility
    assert fast.quantity == top.quantity == both.quantity
    assert fast.quantity is not None
    assert fast.quantity.name == QUANTITY == TOP_QUANTITY
    assert (fast.truth, top.truth, both.truth) == ("fast", "simulation", "simulation")
    gates = [use for use in fast.tiers[fast.truth] if use.gate]
    assert all([use for use in uses.tiers[fast.truth] if use.gate] == gates for uses in (top, both))
    assert top.tiers[top.truth] == both.tiers[top.truth]
    assert fast.tiers[fast.truth] == both.tiers[fast.truth]


def test_molecules_are_plausible_different_and_the_same_every_time() -> None:
    lines = molecules.FILE.read_text().split()
    assert len(set(lines)) == len(lines) == molecules.COUNT
    with rdBase.BlockLogs():
        made = [molecules.enumerate_molecules(random.Random(7), 40) for _ in range(2)]
    assert made[0] == made[1]
    assert set(made[0]) <= set(lines)
    assert all(Chem.MolFromSmiles(line).GetNumHeavyAtoms() <= molecules.MAX_HEAVY_ATOMS for line in lines)
    assert all(molecules.plausible(line) for line in random.Random(3).sample(lines, 100))
    assert not any(map(molecules.plausible, ("COOC", "CNO", "C=C=C=C", "not a molecule")))


def test_it_conforms() -> None:
    samples = read_samples((EXAMPLE / "samples.jsonl").read_bytes().splitlines())
    report = conformance("examples.train.pi_gap:PiGap", samples)
    assert report.conforms, [check for check in report.checks if check.verdict == "failed"]
