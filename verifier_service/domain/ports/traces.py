"""Ports of distributed traces (W3C Trace Context, https://www.w3.org/TR/trace-context/)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

MAX_TRACES = 33  # a span has one parent and 32 links


class Traces(Protocol):
    """Which trace a trajectory was submitted in, so that what others do for it joins that trace."""

    def note(self, of: Mapping[int, str]) -> None:
        """Store the ``traceparent`` of trajectories, by pk; what is stored stays."""
        ...

    def of_checks(self, pks: Collection[int]) -> dict[int, tuple[str, ...]]:
        """The traces of the trajectories that demand these checks, oldest first, by check: at most
        ``MAX_TRACES``, from the first thousand demands."""
        ...


@dataclass(frozen=True, slots=True)
class AttemptSpan:
    """An attempt as a trace shows it. ``ago_s`` and ``wall_s``: how long ago it ended, and how long it ran,
    in seconds; ``failed`` says why there is no finding."""

    verifier: str
    attributes: Mapping[str, str | int | float]
    ago_s: float
    wall_s: float
    failed: str | None = None


class Tracer(Protocol):
    """Where spans go."""

    @property
    def on(self) -> bool:
        """Whether anybody collects them."""
        ...

    def current(self) -> str | None:
        """The ``traceparent`` of the work that is being done now; null outside of any."""
        ...

    def attempt(self, parents: Sequence[str], span: AttemptSpan) -> None:
        """Record an attempt in the trace of the first parent, with links to the others. Never raises for
        what it is given, and never waits for whoever collects."""
        ...

    def close(self) -> None:
        """Send what is left, for a few seconds at most."""
        ...
