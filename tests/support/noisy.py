"""Deterministic verifiers of a ladder that can be learned: a biased rough value, and the exact one. They
take the time that they say they take.

The candidate is a text of two numbers, ``"0.31 0.88"``; everything follows from them and from hashes. One
that ends with ``gamed`` looks better, from its features, than it is.
"""

from __future__ import annotations

import math
import time
import zlib
from abc import abstractmethod
from typing import Any

from verifier_service.domain.errors import Permanent
from verifier_service.domain.evidence import Finding, Measurement, Reason, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

QUANTITY = "level@exact"
LIMITS = Limits(time_s=0.5, memory_mb=512, max_batch=64)
LADDER: dict[str, Any] = {
    "name": "noisy",
    "candidate": {"kind": "text", "format": "text", "from": "answer"},
    "quantity": {"name": QUANTITY, "unit": "1"},
    "utility": {"kind": "linear", "zero": 0.0, "one": 10.0},
    "truth": "high_fidelity",
    "tiers": {
        "fast": [{"use": "noisy.gate", "gate": "hard"}],
        "simulation": [{"use": "noisy.rough"}],
        "high_fidelity": [{"use": "noisy.exact"}],
    },
}

JUDGING: dict[str, Any] = {
    "name": "opinions",
    "candidate": {"kind": "text", "format": "text", "from": "answer"},
    "outcome": {"use": "noisy.judge"},
    "truth": "high_fidelity",
    "tiers": {"fast": [{"use": "noisy.opinion"}], "high_fidelity": [{"use": "noisy.judge"}]},
}


def numbers(candidate: object) -> tuple[float, float]:
    """The two numbers of a candidate."""
    one, other = str(candidate).split()[:2]
    return float(one), float(other)


def exact(candidate: object) -> float:
    """The truth, in 0 to 10."""
    one, other = numbers(candidate)
    gamed = 3.0 if str(candidate).endswith("gamed") else 0.0
    return 5.0 + 3.0 * math.sin(3.0 * one) + 1.5 * (other - 0.5) - gamed


def noise(candidate: object) -> float:
    """Of mean 0 and variance 1, the same each time."""
    parts = [zlib.crc32(f"{candidate}/{k}".encode()) / 2**32 for k in range(12)]
    return sum(parts) - 6.0


def rough(candidate: object) -> float:
    """What the cheap tier says: on another scale, and noisy."""
    return 0.5 * exact(candidate) + 2.0 + 0.4 * noise(candidate)


def burn(seconds: float) -> None:
    """Use up CPU time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def _info(name: str, tier: Tier, cpu_s: float) -> VerifierInfo:
    return VerifierInfo(
        name=name,
        version="1",
        tier=tier,
        summary=name,
        reads=frozenset({"candidate", "inputs"}),
        limits=LIMITS,
        typical_cpu_s=cpu_s,
    )


class NoisyGate(Verifier):
    """Lets everything through that has two numbers, which are its features."""

    info = _info("noisy.gate", Tier.FAST, 0.00001)

    def verify(self, item: CheckInput, params: Params) -> Finding:
        one, other = numbers(item.candidate)
        return Finding(verdict=Verdict.ACCEPT, features={"one": one, "other": other})


class _Measures(Verifier):
    quantity = QUANTITY
    sigma: float | None = 0.0

    @abstractmethod
    def value(self, candidate: object) -> float:
        """What is measured of a candidate."""

    def verify(self, item: CheckInput, params: Params) -> Finding:
        burn(self.info.typical_cpu_s)
        if "fail" in item.inputs:
            raise Permanent("test_failure", "asked to fail")
        measured = Measurement(
            quantity=self.quantity, value=self.value(item.candidate), unit="1", sigma=self.sigma
        )
        return Finding(verdict=Verdict.INCONCLUSIVE, measurements=(measured,))


class NoisyRough(_Measures):
    """Says that it is within 2, although it is biased."""

    info = _info("noisy.rough", Tier.SIMULATION, 0.003)
    sigma = 2.0

    def value(self, candidate: object) -> float:
        return rough(candidate)


class NoisyExact(_Measures):
    """The truth."""

    info = _info("noisy.exact", Tier.HIGH_FIDELITY, 0.03)

    def value(self, candidate: object) -> float:
        return exact(candidate)


def is_good(candidate: object) -> bool:
    """The verdict that is true."""
    return exact(candidate) > 6.0


class NoisyOpinion(Verifier):
    """How good it looks at first sight: mostly right, and too sure of itself."""

    info = _info("noisy.opinion", Tier.FAST, 0.00001)

    def verify(self, item: CheckInput, params: Params) -> Finding:
        looks = exact(item.candidate) - 6.0 + 0.8 * noise(item.candidate)
        return Finding(verdict=Verdict.INCONCLUSIVE, score=1.0 / (1.0 + math.exp(-6.0 * looks)))


class NoisyJudge(Verifier):
    """The true verdict."""

    info = _info("noisy.judge", Tier.HIGH_FIDELITY, 0.03)

    def verify(self, item: CheckInput, params: Params) -> Finding:
        burn(self.info.typical_cpu_s)
        if is_good(item.candidate):
            return Finding(verdict=Verdict.ACCEPT, score=1.0)
        return Finding(verdict=Verdict.REJECT, score=0.0, reason=Reason(code="not_good", message="too low"))


VERIFIERS = (NoisyGate, NoisyRough, NoisyExact, NoisyOpinion, NoisyJudge)
