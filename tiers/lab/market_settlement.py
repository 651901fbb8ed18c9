"""``market.settlement``: what becomes of an event decides. Declared like any verifier, never executed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from verifier_service.domain.errors import Permanent
from verifier_service.domain.evidence import Finding, Tier
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo


class SettlementParams(Params):
    """``source``: the name of a source that the operator of the server declares, which is asked from the
    event's close on. Without it, or where the server knows no such source, imports tell the actual."""

    source: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)] | None = None


class MarketSettlement(Verifier):
    """Waits until the event in ``inputs.event`` is settled, and scores the forecast by a proper scoring
    rule in [0, 1]: see ``domain/forecast_scores.py``.

    A void event, and an actual that does not answer the task's question, give no score. Whether a forecast
    was registered before the event's close is looked at per trajectory, not here: a check is shared by all
    trajectories with the same forecast.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="market.settlement",
        version="1",
        tier=Tier.LAB,
        summary="The actual of an event scores a forecast that was registered before its close.",
        reads=frozenset({"candidate", "inputs"}),
        limits=Limits(time_s=86_400.0, memory_mb=1),
        typical_cpu_s=0.0,
        external=True,
        awaits="settlement",
    )
    params_model: ClassVar[type[Params]] = SettlementParams

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - nothing to run
        """Raises ``Permanent``: the event makes this evidence, not a process."""
        raise Permanent("external_verifier", "an event decides this check; it cannot be executed")
