"""What a check costs by its size: before any data, from data, and whatever the data do."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest

from scheduler.cost_model import FORMAT, KEPT_PER_CELL, MAX_CELL, PowerLaw
from tiers.basis_size import of_smiles
from tiers.catalog import VerifierCatalog
from verifier_service.domain.costs import LearnedCost, NotedAttempt
from verifier_service.domain.evidence import Tier
from verifier_service.domain.verifiers import CheckInput, Limits, VerifierInfo

MODEL = PowerLaw()
DATA = Path(__file__).resolve().parents[2] / "tiers/maps/gfn2-to-r2scan/data.csv"
INFO = VerifierInfo(
    name="test.law",
    version="1",
    tier=Tier.SIMULATION,
    summary="for tests",
    limits=Limits(time_s=60.0, memory_mb=512),
    typical_cpu_s=2.0,
    typical_size=50.0,
    cost_exponent=2.0,
)


def attempt(size: float, cpu_s: float, *, found: bool = True) -> NotedAttempt:
    return NotedAttempt("test.law", "m", size, cpu_s, found)


def law(
    exponent: float, at_50: float, count: int, *, noise: float = 0.3, seed: int = 1
) -> list[NotedAttempt]:
    draw = np.random.default_rng(seed)
    sizes = np.exp(draw.uniform(math.log(10), math.log(250), count))
    seconds = at_50 * (sizes / 50.0) ** exponent * np.exp(noise * draw.standard_normal(count))
    return [attempt(float(size), float(cpu_s)) for size, cpu_s in zip(sizes, seconds, strict=True)]


def median(size: float, learned: LearnedCost | None, info: VerifierInfo = INFO) -> float:
    return MODEL.predict(info, size, None if learned is None else learned.fit).median_s


def exponent(learned: LearnedCost) -> float:
    found: float = json.loads(learned.fit)["exponent"]
    return found


def test_without_data_the_declaration_is_the_price_and_size_counts() -> None:
    assert median(50.0, None) == pytest.approx(2.0)
    assert median(250.0, None) == pytest.approx(50.0)
    catalog = VerifierCatalog()
    dft = catalog.verifier("pyscf.gap")
    small, large = (catalog.size("pyscf.gap", {}, CheckInput(candidate="C" * count)) for count in (8, 40))
    assert median(large, None, dft) > 40 * median(small, None, dft)
    unscaled = INFO.model_copy(update={"cost_exponent": 0.0})
    assert median(5_000.0, None, unscaled) == median(5.0, None, unscaled) == pytest.approx(2.0)


@pytest.mark.parametrize(("truth", "at_50"), [(2.7, 2.0), (1.2, 20.0), (0.0, 0.3)])
def test_it_learns_exponent_and_level(truth: float, at_50: float) -> None:
    learned = MODEL.learn(INFO, law(truth, at_50, 200), None)
    assert exponent(learned) == pytest.approx(truth, abs=0.12)
    for size in (10.0, 50.0, 250.0):
        assert median(size, learned) == pytest.approx(at_50 * (size / 50.0) ** truth, rel=0.2)


def test_a_handful_of_attempts_moves_the_level_and_keeps_the_exponent() -> None:
    learned = MODEL.learn(INFO, [attempt(50.0, 10.0) for _ in range(5)], None)
    assert median(50.0, learned) == pytest.approx(10.0, rel=0.15)
    assert exponent(learned) == pytest.approx(2.0, abs=0.01)
    one = MODEL.learn(INFO, [attempt(50.0, 10.0)], None)
    assert 2.0 < median(50.0, one) < 10.0


def test_one_in_five_that_took_ten_times_as_long_moves_little() -> None:
    sound = law(2.5, 3.0, 150)
    stalled = [one._replace(cpu_s=one.cpu_s * (10 if at % 5 == 0 else 1)) for at, one in enumerate(sound)]
    plain, robust = (MODEL.learn(INFO, attempts, None) for attempts in (sound, stalled))
    for size in (10.0, 50.0, 250.0):
        assert median(size, robust) == pytest.approx(median(size, plain), rel=0.3)


def test_another_machine_is_believed_over_the_declaration() -> None:
    for factor in (0.01, 100.0):
        learned = MODEL.learn(INFO, law(2.0, 2.0 * factor, 30), None)
        assert median(50.0, learned) == pytest.approx(2.0 * factor, rel=0.2)
    moved = INFO.model_copy(update={"typical_size": 1.0, "cost_exponent": 0.0})
    learned = MODEL.learn(moved, [attempt(5.0 + at, 1e-5 * (1 + at % 4)) for at in range(12)], None)
    assert median(10.0, learned, moved) == pytest.approx(2.5e-5, rel=0.5)


def test_in_pieces_or_at_once_is_the_same() -> None:
    attempts = law(2.2, 4.0, 300)
    pieces = None
    for start in range(0, 300, 7):
        pieces = MODEL.learn(INFO, attempts[start : start + 7], pieces)
    assert pieces == MODEL.learn(INFO, attempts, None)


def test_what_is_kept_is_bounded_and_the_newest() -> None:
    old, new = law(2.0, 1.0, 3_000, seed=2), law(2.0, 9.0, 3_000, seed=3)
    learned = MODEL.learn(INFO, [*old, *new], None)
    cells = json.loads(learned.attempts)["cells"]
    assert max(len(kept) for kept in cells.values()) == KEPT_PER_CELL
    assert median(50.0, learned) == pytest.approx(9.0, rel=0.1)
    wild = [attempt(10.0 ** (at % 60 - 30), 1.0) for at in range(6_000)]
    document = json.loads(MODEL.learn(INFO, wild, None).attempts)
    assert sum(map(len, document["cells"].values())) <= (2 * MAX_CELL + 1) * KEPT_PER_CELL


def test_documents_survive_json_and_other_formats_are_learned_anew() -> None:
    learned = MODEL.learn(INFO, law(2.0, 5.0, 50), None)
    again = LearnedCost(*(json.dumps(json.loads(one)) for one in learned))
    assert MODEL.learn(INFO, [attempt(50.0, 5.0)], again) == MODEL.learn(
        INFO, [attempt(50.0, 5.0)], learned
    )
    foreign = LearnedCost(*(one.replace(f'"format": {FORMAT}', '"format": 99') for one in learned))
    assert MODEL.predict(INFO, 50.0, foreign.fit) == MODEL.predict(INFO, 50.0, None)
    assert MODEL.learn(INFO, [attempt(50.0, 5.0)], foreign) == MODEL.learn(INFO, [attempt(50.0, 5.0)], None)


def test_attempts_that_find_nothing_cost_too() -> None:
    sound = law(2.0, 2.0, 40)
    failed = [one._replace(found=False) for one in law(2.0, 2.0, 20, seed=5)]
    plain, with_failures = (MODEL.learn(INFO, attempts, None) for attempts in (sound, [*sound, *failed]))
    factor = MODEL.predict(INFO, 50.0, with_failures.fit)
    assert MODEL.predict(INFO, 50.0, plain.fit).retries == 1.0
    assert factor.retries == pytest.approx(1.5, abs=0.15)
    assert factor.cpu_s == pytest.approx(factor.median_s * factor.retries)
    assert factor.median_s == pytest.approx(median(50.0, plain))
    hopeless = MODEL.learn(INFO, [attempt(50.0, 1e6, found=False) for _ in range(20)], None)
    assert MODEL.predict(INFO, 50.0, hopeless.fit).retries == 10.0
    assert median(50.0, hopeless) == pytest.approx(2.0)  # nothing was found: nothing is known of the line


def test_the_spread_is_known_and_covers() -> None:
    learned = MODEL.learn(INFO, law(2.0, 2.0, 300, noise=0.6), None)
    fresh = law(2.0, 2.0, 1_000, noise=0.6, seed=9)
    below = [one.cpu_s <= MODEL.predict(INFO, one.size, learned.fit).upper(0.95) for one in fresh]
    assert 0.92 <= sum(below) / len(below) <= 0.995
    assert MODEL.predict(INFO, 50.0, None).log_sd > MODEL.predict(INFO, 50.0, learned.fit).log_sd
    assert MODEL.predict(INFO, 50.0, None).upper(0.5) == pytest.approx(median(50.0, None))


def test_times_that_cannot_be_are_left_out() -> None:
    learned = MODEL.learn(INFO, [attempt(50.0, math.nan), attempt(50.0, math.inf)], None)
    assert median(50.0, learned) == pytest.approx(2.0)
    odd = MODEL.learn(INFO, [attempt(-1.0, 1.0), attempt(math.inf, 0.0), attempt(0.0, 1e300)], None)
    assert 0.0 < median(50.0, odd) < math.inf
    free = INFO.model_copy(update={"typical_cpu_s": 0.0})
    assert median(50.0, None, free) < 1e-6


@pytest.mark.parametrize(
    ("verifier", "column", "within"), [("xtb.gap", "xtb_s", 1.1), ("pyscf.gap", "pyscf_s", 0.35)]
)
def test_real_attempts_are_predicted(verifier: str, column: str, within: float) -> None:
    """198 molecules, half to learn from and half to predict: median error of ln(seconds), and coverage."""
    info = VerifierCatalog().verifier(verifier)
    with DATA.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row[column]]
    attempts = [
        NotedAttempt(verifier, "m", of_smiles(row["smiles"]), float(row[column]), True) for row in rows
    ]
    learned = MODEL.learn(info, attempts[::2], None)
    held_out = attempts[1::2]
    errors = [abs(math.log(one.cpu_s / median(one.size, learned, info))) for one in held_out]
    assert float(np.median(errors)) < within / 2
    assert float(np.sqrt(np.mean(np.square(errors)))) < within
    covered = [one.cpu_s <= MODEL.predict(info, one.size, learned.fit).upper() for one in held_out]
    assert sum(covered) / len(covered) >= 0.91
    typical = [abs(math.log(one.cpu_s / info.typical_cpu_s)) for one in held_out]
    declared = [abs(math.log(one.cpu_s / median(one.size, None, info))) for one in held_out]
    assert float(np.median(declared)) < 0.6 * float(np.median(typical))
