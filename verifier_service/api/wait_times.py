"""How long the clients of this process waited, for its scrape: the database does not know."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class WaitTimes:
    """A histogram of waits in seconds: those that ended with what they waited for, those that ran out of
    time, and those whose client left or that failed."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        waits = Histogram(
            "verifier_wait_seconds",
            "Waits of clients of this process, by how they ended",
            ["end"],
            registry=self.registry,
            buckets=BUCKETS_S,
        )
        self._of = {end: waits.labels(end=end) for end in ("met", "timeout", "gone")}

    def ended(self, seconds: float, *, met: bool | None) -> None:
        """A wait has ended; ``met`` is null where nobody was left to be told."""
        end = "gone" if met is None else "met" if met else "timeout"
        self._of[end].observe(seconds)
