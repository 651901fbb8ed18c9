"""Small deterministic verifiers for tests of the story: they measure text, count calls and misbehave."""

from __future__ import annotations

import time
import zlib
from pathlib import Path
from typing import ClassVar, Literal

from verifier_service.domain.errors import Permanent, TaskError, Transient
from verifier_service.domain.evidence import Finding, Measurement, Reason, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

LIMITS = Limits(time_s=20.0, memory_mb=512, max_attempts=2)
QUANTITY = "carbons@test"


class NoiseParams(Params):
    """How noisy the measurement says it is."""

    sigma: float = 0.0


class _Carbons(Verifier):
    """Counts the letter C: a stand-in for a property."""

    params_model: ClassVar[type[Params]] = NoiseParams

    def verify(self, item: CheckInput, params: Params) -> Finding:
        assert isinstance(params, NoiseParams)
        if "repaired" in item.inputs and not Path(str(item.inputs["repaired"])).exists():
            raise Transient("test_failure", f"not repaired yet on {self.info.tier}")
        if "fail" in item.inputs:
            kind = item.inputs["fail"]
            error = {"task": TaskError, "transient": Transient}.get(str(kind), Permanent)
            raise error("test_failure", f"asked to fail on {self.info.tier}")
        value = float(str(item.candidate).upper().count("C"))
        measured = Measurement(quantity=QUANTITY, value=value, unit="1", sigma=params.sigma)
        return Finding(verdict=Verdict.INCONCLUSIVE, measurements=(measured,))


def _info(name: str, tier: Tier, cpu_s: float) -> VerifierInfo:
    return VerifierInfo(
        name=name,
        version="1",
        tier=tier,
        summary="counts carbons",
        reads=frozenset({"candidate", "inputs"}),
        quantities=(QUANTITY,),
        limits=LIMITS,
        typical_cpu_s=cpu_s,
    )


class RoughCarbons(_Carbons):
    """The cheap measurement."""

    info = _info("test.rough", Tier.SIMULATION, 1.0)


class ExactCarbons(_Carbons):
    """The dear measurement."""

    info = _info("test.exact", Tier.HIGH_FIDELITY, 10.0)


class Gate(Verifier):
    """A hard gate: texts with a nitrogen are refused."""

    info = VerifierInfo(name="test.gate", version="1", tier=Tier.FAST, summary="no nitrogen", limits=LIMITS)

    def verify(self, item: CheckInput, params: Params) -> Finding:
        del params
        drawn(item)
        if "N" in str(item.candidate):
            return Finding(
                verdict=Verdict.REJECT, score=0.0, reason=Reason(code="nitrogen", message="has nitrogen")
            )
        return Finding(verdict=Verdict.ACCEPT)


class Opening(Verifier):
    """A hard gate that is broken until the file is there that the inputs name."""

    info = VerifierInfo(
        name="test.opening",
        version="1",
        tier=Tier.FAST,
        summary="lets everything through",
        reads=frozenset({"candidate", "inputs"}),
        limits=LIMITS,
    )

    def verify(self, item: CheckInput, params: Params) -> Finding:
        del params
        if not Path(str(item.inputs["repaired"])).exists():
            raise Transient("test_failure", "not repaired yet")
        return Finding(verdict=Verdict.ACCEPT)


def drawn(item: CheckInput) -> None:
    """Sleep for a time that the candidate draws, the same each time, of 0 to 60 ms."""
    time.sleep(zlib.crc32(str(item.candidate).encode()) % 60 / 1000)


class SlowRough(RoughCarbons):
    """The cheap measurement, taking its time."""

    info = _info("test.slow_rough", Tier.SIMULATION, 1.0)

    def verify(self, item: CheckInput, params: Params) -> Finding:
        drawn(item)
        return super().verify(item, params)


class SlowExact(ExactCarbons):
    """The dear measurement, taking its time."""

    info = _info("test.slow_exact", Tier.HIGH_FIDELITY, 10.0)

    def verify(self, item: CheckInput, params: Params) -> Finding:
        drawn(item)
        return super().verify(item, params)


class Judge(Verifier):
    """A fast judge: the answer must equal the reference."""

    info = VerifierInfo(
        name="test.judge",
        version="1",
        tier=Tier.FAST,
        summary="compares with the reference",
        reads=frozenset({"candidate", "reference"}),
        limits=LIMITS,
    )

    def verify(self, item: CheckInput, params: Params) -> Finding:
        del params
        if "value" not in item.reference:
            raise TaskError("bad_reference", "reference.value is missing")
        right = item.candidate == item.reference["value"]
        verdict: Literal[Verdict.ACCEPT, Verdict.INCONCLUSIVE] = (
            Verdict.ACCEPT if right else Verdict.INCONCLUSIVE
        )
        return Finding(verdict=verdict, score=1.0 if right else 0.0)


VERIFIERS = (RoughCarbons, ExactCarbons, Gate, Opening, SlowRough, SlowExact, Judge)
