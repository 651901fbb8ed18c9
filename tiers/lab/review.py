"""``review``: people decide. Declared like any verifier, never executed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from verifier_service.domain.errors import Permanent
from verifier_service.domain.evidence import Finding, Tier
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo


class ReviewParams(Params):
    """Which desk the item goes to, and how many votes it takes; without ``approvals`` as many as the queue
    says."""

    queue: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]
    approvals: Annotated[int, Field(ge=1, le=5)] | None = None


class Review(Verifier):
    """Waits at a desk until people have judged the candidate for the task's inputs.

    The prompt is shown to reviewers but does not key the check: two wordings of one task must not cost
    two reviews.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="review",
        version="1",
        tier=Tier.LAB,
        summary="People judge the candidate at a review desk.",
        reads=frozenset({"candidate", "inputs"}),
        deterministic=False,
        limits=Limits(time_s=86_400.0, memory_mb=1),
        typical_cpu_s=0.0,
        typical_human_s=900.0,
        external=True,
    )
    params_model: ClassVar[type[Params]] = ReviewParams

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - nothing to run
        """Raises ``Permanent``: the desk makes this evidence, not a process."""
        raise Permanent("external_verifier", "people decide this check; it cannot be executed")
