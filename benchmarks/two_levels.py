"""Verifiers of a ladder that learns: features at once, a rough value soon, the exact one a little later."""

from __future__ import annotations

import zlib
from typing import Any

from verifier_service.domain.evidence import Finding, Measurement, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

LADDER: dict[str, Any] = {
    "name": "two-levels",
    "candidate": {"kind": "text", "format": "text", "from": "answer"},
    "quantity": {"name": "level@exact", "unit": "1"},
    "utility": {"kind": "linear", "zero": 0.0, "one": 1.0},
    "truth": "high_fidelity",
    "tiers": {
        "fast": [{"use": "levels.features"}],
        "simulation": [{"use": "levels.rough"}],
        "high_fidelity": [{"use": "levels.exact"}],
    },
}


def draw(text: str, part: str) -> float:
    """A number in [0, 1) that belongs to a text."""
    return zlib.crc32(f"{text}/{part}".encode()) / 2**32


class _Level(Verifier):
    """Measures the exact value within a scatter."""

    scatter = 0.0

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - the port's signature
        """Measure."""
        text = str(item.candidate)
        exact = 0.5 + 0.4 * (draw(text, "a") - draw(text, "b"))
        value = exact + self.scatter * (draw(text, "noise") - 0.5)
        sigma = self.scatter / 12**0.5
        measured = Measurement(quantity="level@exact", value=value, unit="1", sigma=sigma)
        return Finding(verdict=Verdict.INCONCLUSIVE, measurements=(measured,))


def _info(name: str, tier: Tier) -> VerifierInfo:
    limits = Limits(time_s=5.0, memory_mb=512, max_batch=64)
    return VerifierInfo(name=name, version="1", tier=tier, summary=name, limits=limits, typical_cpu_s=1e-4)


class Features(Verifier):
    """What the exact value follows from, seven of them."""

    info = _info("levels.features", Tier.FAST)

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - the port's signature
        """Draw."""
        text = str(item.candidate)
        return Finding(verdict=Verdict.ACCEPT, features={name: draw(text, name) for name in "abcdefg"})


class Rough(_Level):
    """Within a tenth or so."""

    info = _info("levels.rough", Tier.SIMULATION)
    scatter = 0.4


class Exact(_Level):
    """The truth."""

    info = _info("levels.exact", Tier.HIGH_FIDELITY)


VERIFIERS = (Features, Rough, Exact)
