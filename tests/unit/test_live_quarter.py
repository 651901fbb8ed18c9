"""How the live benchmark reads its records: what is a fact, and what a missing reward counts as."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.live_quarter import advantages, correlation, is_true
from verifier_service.domain.evidence import Tier
from verifier_service.domain.rewards import RewardRecord


def record(outcome: float | None, variance: float | None, tier: Tier | None) -> Any:
    return RewardRecord.model_construct(outcome=outcome, variance=variance, tier=tier)


@pytest.mark.parametrize(
    ("outcome", "variance", "tier", "known"),
    [
        (0.4, 1e-4, Tier.HIGH_FIDELITY, True),
        (0.0, 0.0, Tier.FAST, True),  # a hard gate
        (0.8, 0.1, Tier.FAST, False),  # a belief
        (0.4, 1e-4, Tier.SIMULATION, False),
        (None, None, None, False),
    ],
)
def test_a_belief_is_no_truth(
    outcome: float | None, variance: float | None, tier: Tier | None, known: bool
) -> None:
    assert is_true(record(outcome, variance, tier)) is known


def test_a_missing_reward_is_no_score() -> None:
    records = {
        "a": record(0.2, 0.0, Tier.HIGH_FIDELITY),
        "b": record(0.6, 0.0, Tier.HIGH_FIDELITY),
        "c": record(None, None, None),
        "d": record(0.9, 0.0, Tier.HIGH_FIDELITY),
    }
    members = [("a", "one"), ("b", "one"), ("c", "one"), ("d", "two")]
    assert advantages(records, members) == pytest.approx([-0.2, 0.2, 0.0, 0.0])


def test_the_error_of_r_is_over_groups() -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(60)
    mine = truth + rng.standard_normal(60)
    r, error = correlation(mine, truth, [f"group {at // 5}" for at in range(60)])
    assert r == pytest.approx(np.corrcoef(mine, truth)[0, 1])
    assert 0.02 < error < 0.15
