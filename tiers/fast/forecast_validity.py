"""``forecast.validity``: is the answer a forecast of the task's event that could be scored?"""

from __future__ import annotations

from typing import ClassVar

from verifier_service.domain.evidence import Finding, Hint, Reason, Tier, Verdict
from verifier_service.domain.forecasts import NotAForecast, event_of, read_forecast
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo


class ForecastValidity(Verifier):
    """Hold the answer against ``inputs.event``: its shape, its event, its outcomes and bounds.

    An object is taken as it is; text must be JSON and nothing else. It says nothing of how good the
    forecast is, and gives no features: what is learned from how settled events were forecast would be
    told to forecasts of the same events.
    """

    info: ClassVar[VerifierInfo] = VerifierInfo(
        name="forecast.validity",
        version="1",
        tier=Tier.FAST,
        summary="JSON that forecasts the task's event: probabilities, a number, or quantiles",
        reads=frozenset({"candidate", "inputs"}),
        on_limit="reject",
        limits=Limits(time_s=5.0, memory_mb=512, max_batch=256),
        typical_cpu_s=0.0001,
    )

    def verify(self, item: CheckInput, params: Params) -> Finding:  # noqa: ARG002 - it has none
        """Return ``accept`` or a named rejection. Raises ``TaskError``: ``bad_event``."""
        event = event_of(item.inputs)
        assumptions = (
            f"scored by {event.scored_by}",
            f"counts if accepted before {event.close.isoformat()}",
        )
        try:
            read_forecast(item.candidate, event)
        except NotAForecast as why:
            return Finding(
                verdict=Verdict.REJECT,
                score=0.0,
                reason=Reason(code=why.code, message=why.message),
                hints=(Hint(kind="forecast", text=why.message),),
                assumptions=assumptions,
            )
        return Finding(verdict=Verdict.ACCEPT, score=1.0, assumptions=assumptions)
