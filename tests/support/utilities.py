"""Utilities of every kind, for tests of what beliefs make of them."""

from __future__ import annotations

from verifier_service.domain.ladders import (
    LinearUtility,
    SigmoidUtility,
    ThresholdUtility,
    Utility,
    WindowUtility,
)

UTILITIES: list[Utility] = [
    WindowUtility(kind="window", low=4.0, high=5.0, softness=1.0),
    WindowUtility(kind="window", low=4.0, high=4.0, softness=0.25),
    ThresholdUtility(kind="threshold", at=4.5, direction="above"),
    ThresholdUtility(kind="threshold", at=4.5, direction="below"),
    LinearUtility(kind="linear", zero=3.0, one=6.0),
    LinearUtility(kind="linear", zero=6.0, one=3.0),
    SigmoidUtility(kind="sigmoid", midpoint=4.5, scale=0.3),
    SigmoidUtility(kind="sigmoid", midpoint=4.5, scale=-0.3),
]
