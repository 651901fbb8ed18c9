"""What a measured cost is worth in credits."""

from __future__ import annotations

from dataclasses import dataclass

from verifier_service.domain.evidence import Cost

HOUR_S = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class HourlyTariff:
    """Credits per hour of each resource; 1 credit is 1 US dollar unless an operator says otherwise.

    Defaults: cpu core-hour 0.05, gpu-hour 2, human-hour 60; external charges are already credits.
    """

    cpu_hour: float = 0.05
    gpu_hour: float = 2.0
    human_hour: float = 60.0

    def credits(self, cost: Cost) -> float:
        """Price of ``cost``."""
        hours = cost.cpu_s * self.cpu_hour + cost.gpu_s * self.gpu_hour + cost.human_s * self.human_hour
        return hours / HOUR_S + cost.external

    def seconds(self, credits: float) -> float:
        """CPU seconds that ``credits`` buy; infinite where CPU time is free."""
        return float("inf") if self.cpu_hour <= 0 else credits * HOUR_S / self.cpu_hour
