"""Strata: which beliefs are watched, and corrected, together.

A stratum is the level that was measured below the truth, the build that measured it, and the third of the
outcomes that the belief lies in: a new version of a verifier, or a policy that games one, shows there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scheduler.levels import Value, levels_of
from verifier_service.domain.decisions import RungEvidence
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ladders import Ladder


class Stratum(NamedTuple):
    """The build that measured (verifier and version), and the name of the stratum."""

    build: str
    name: str


def stratum_of(
    ladder: Ladder, evidence: Sequence[RungEvidence], values: Mapping[Tier, Value], outcome: float
) -> Stratum:
    """The stratum of a belief in ``outcome``, in [0, 1], that rests on ``values`` below the truth."""
    below = [tier for tier in levels_of(ladder)[:-1] if tier in values]
    level = below[-1] if below else Tier.FAST
    builds = sorted(
        f"{item.evidence.provenance.verifier} {item.evidence.provenance.version}"
        for item in evidence
        if below and item.evidence.tier is level and _counts(ladder, item)
    )
    build = " + ".join(builds) or "features"
    third = min(int(outcome * 3), 2)
    return Stratum(build, f"{level.value}|{build}|{third}")


def level_of(stratum: str) -> str:
    """The level of a stratum's name."""
    return stratum.partition("|")[0]


def _counts(ladder: Ladder, item: RungEvidence) -> bool:
    """Whether it says something of the truth."""
    if ladder.spec.outcome is None:
        return bool(item.evidence.measurements)
    return item.evidence.score is not None
