"""A verifier that does next to nothing, so that what the service adds can be seen."""

from __future__ import annotations

from typing import ClassVar

from verifier_service.domain.evidence import Finding, Measurement, Reason, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo


class TextEqual(Verifier):
    """Accept an answer that is the reference's ``text``."""

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="bench.text_equal",
        version="1",
        tier=Tier.FAST,
        summary="Whether the answer is the reference's text",
        reads=frozenset({"candidate", "reference"}),
        limits=Limits(time_s=5.0, memory_mb=1024, max_batch=256),
        typical_cpu_s=0.00001,
    )

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - the port's signature
        """Compare."""
        if item.candidate == item.reference.get("text"):
            return Finding(verdict=Verdict.ACCEPT, score=1.0)
        reason = Reason(code="different_text", message="the answer is another text")
        return Finding(verdict=Verdict.REJECT, score=0.0, reason=reason)


class TextPresent(Verifier):
    """Accept an answer that is not blank."""

    info: ClassVar[VerifierInfo] = TextEqual.info.model_copy(
        update={
            "name": "bench.text_present",
            "summary": "Whether there is an answer",
            "reads": frozenset({"candidate"}),
        }
    )

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - the port's signature
        """Look for a character that is no space."""
        if str(item.candidate or "").strip():
            return Finding(verdict=Verdict.ACCEPT, score=1.0)
        return Finding(verdict=Verdict.REJECT, score=0.0, reason=Reason(code="blank", message="no answer"))


class Length(Verifier):
    """Measure how long an answer is, on a dearer tier."""

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="bench.length",
        version="1",
        tier=Tier.HIGH_FIDELITY,
        summary="The length of the answer",
        quantities=("length@bench",),
        limits=Limits(time_s=5.0, memory_mb=1024),
        typical_cpu_s=3_600.0,
    )

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - the port's signature
        """Count characters."""
        length = float(len(str(item.candidate or "")))
        measured = Measurement(quantity="length@bench", value=length, unit="1", sigma=0.1)
        return Finding(verdict=Verdict.INCONCLUSIVE, measurements=(measured,))


VERIFIERS = (TextEqual, TextPresent, Length)
