"""What counts toward the outcome, and what never does."""

from __future__ import annotations

import pytest

from scheduler.beliefs import TierBeliefs
from tests.support.cases import GAP, JUDGING, evidence, ladder
from verifier_service.domain.decisions import Estimate, RungEvidence
from verifier_service.domain.errors import NotFound
from verifier_service.domain.evidence import Evidence, Tier, Verdict
from verifier_service.domain.ladders import Ladder
from verifier_service.domain.maps import MapClass, QuantityMap

SIM, HIGH, LAB = Tier.SIMULATION, Tier.HIGH_FIDELITY, Tier.LAB
XTB_GAP = "ks_gap@gfn2//gfn2"
MAP = QuantityMap(
    name="gfn2-to-r2scan",
    version="1",
    source=XTB_GAP,
    target=GAP,
    unit="eV",
    classes={"aromatic": MapClass(slope=0.5, intercept=3.0, sigma=0.3, n=40)},
    default=MapClass(slope=0.5, intercept=2.0, sigma=0.8, n=9),
)


def named(name: str) -> QuantityMap:
    if name != MAP.name:
        raise NotFound("unknown_map", name)
    return MAP


def believe(*found: tuple[str, Evidence], on: Ladder | None = None) -> Estimate | None:
    items = [RungEvidence(path=path, evidence=item) for path, item in found]
    return TierBeliefs(named).estimate(on or ladder(), items)


def xtb(gap: float, sigma: float | None = 0.1, **changes: object) -> tuple[str, Evidence]:
    return "simulation/0", evidence("xtb.gap", SIM, gap=(XTB_GAP, gap, sigma), **changes)  # type: ignore[arg-type]


def dft(gap: float) -> tuple[str, Evidence]:
    return "high_fidelity/0", evidence("pyscf.gap", HIGH, gap=(GAP, gap, None))


def test_no_evidence_no_number() -> None:
    assert believe() is None
    assert believe(("fast/0", evidence("molecule.validity", Tier.FAST))) is None


def test_the_cheap_scale_counts_only_through_its_map() -> None:
    found = believe(xtb(3.0, labels={"chemistry_class": "aromatic"}))
    assert found is not None
    assert found.mean == pytest.approx(4.5)
    assert found.variance == pytest.approx(0.3**2 + (0.5 * 0.1) ** 2)
    assert found.tier is SIM
    unmapped = ladder()
    use = unmapped.spec.tiers[SIM][0].model_copy(update={"map": None})
    spec = unmapped.spec.model_copy(update={"tiers": unmapped.spec.tiers | {SIM: (use,)}})
    assert believe(xtb(3.0), on=Ladder(name="gap", version=2, digest="x", spec=spec)) is None


def test_the_truth_replaces_the_cheap_value() -> None:
    found = believe(xtb(3.0), dft(5.5))
    assert found is not None
    assert (found.tier, found.mean, found.variance, found.outcome) == (HIGH, 5.5, 0.0, 0.5)
    assert (found.low, found.high) == (0.5, 0.5)


def test_same_tier_measurements_combine_by_inverse_variance() -> None:
    first = ("simulation/0", evidence("a", SIM, gap=(GAP, 4.0, 0.1)))
    second = ("simulation/0", evidence("b", SIM, gap=(GAP, 5.0, 0.2)))
    found = believe(first, second)
    assert found is not None
    assert found.mean == pytest.approx((4.0 / 0.01 + 5.0 / 0.04) / 125.0)
    assert found.variance == pytest.approx(1 / 125.0)


def test_below_the_truth_a_value_without_sigma_cannot_be_weighed() -> None:
    assert believe(("simulation/0", evidence("a", SIM, gap=(GAP, 4.0, None)))) is None


def test_another_quantity_never_counts() -> None:
    assert (
        believe(
            ("high_fidelity/0", evidence("pyscf.gap", HIGH, gap=("ks_gap@pbe/def2-svp//gfn2", 4.5, 0.0)))
        )
        is None
    )


def test_a_lab_measurement_is_shrunk_by_its_own_noise() -> None:
    lab = ("lab/0", evidence("review", LAB, gap=(GAP, 5.0, 0.3)))
    found = believe(xtb(3.0, labels={"chemistry_class": "aromatic"}), lab)
    assert found is not None
    assert found.mean is not None
    assert 4.5 < found.mean < 5.0
    assert found.tier is LAB


def test_a_judging_ladder_takes_its_verifiers_score() -> None:
    judged = believe(("fast/0", evidence("molecule.identity", Tier.FAST, score=1.0)), on=ladder(JUDGING))
    assert judged is not None
    assert (judged.outcome, judged.outcome_variance, judged.mean) == (1.0, 0.0, None)
    unscored = evidence("molecule.identity", Tier.FAST, verdict=Verdict.INCONCLUSIVE)
    assert believe(("fast/0", unscored), on=ladder(JUDGING)) is None
