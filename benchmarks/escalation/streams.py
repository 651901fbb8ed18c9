"""Streams: which candidates come when, in which groups, and what is free.

A stream is a random order of the ladder's rows, every row once. In the protocols ``free`` and ``charged``
the first 30 rows are measured on every level beforehand, at the scheduler's expense in the second; they
are not part of the stream. ``cold`` starts with nothing. The rest arrives in rounds of 6 groups of 8; an
incomplete last group is left out. The budget is a share of what measuring the truth of the whole stream
costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmarks.escalation.ladders import ReplayLadder
from scheduler.pool import Ints
from scheduler.worth import Floats

Protocol = Literal["free", "charged", "cold"]
PROTOCOLS: tuple[Protocol, ...] = ("free", "charged", "cold")
WARM = 30
GROUP = 8
ROUND_GROUPS = 6


@dataclass(frozen=True, eq=False, slots=True)
class Stream:
    """``rows``: the ladder's rows in order of arrival; ``warm``: those measured before. ``budget`` is what
    the warm-up left of it. ``quoted`` (n, K): costs as the scheduler is told them."""

    ladder: ReplayLadder
    rows: Ints
    warm: Ints
    budget: float
    quoted: Floats
    cold: bool
    seed: int

    @property
    def group(self) -> Ints:
        """Of each member of the stream."""
        return np.arange(self.rows.size) // GROUP

    @property
    def rounds(self) -> list[Ints]:
        """Places in the stream that arrive together."""
        places = np.arange(self.rows.size)
        step = GROUP * ROUND_GROUPS
        return [places[start : start + step] for start in range(0, places.size, step)]


def stream(
    ladder: ReplayLadder, protocol: Protocol, share: float, seed: int, *, cost_error: str = "none"
) -> Stream:
    """The stream of a seed; see the module. ``cost_error``: ``none``, ``low`` (a third of the cost is
    quoted), ``high`` (three times) or ``mixed`` (a factor between, per purchase)."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(ladder.y))
    warm = order[:0] if protocol == "cold" else order[:WARM]
    rows = order[warm.size :]
    rows = rows[: rows.size // GROUP * GROUP]
    budget = share * float(ladder.costs[rows, ladder.top].sum())
    if protocol == "charged":
        budget -= float(ladder.costs[warm].sum())
    quoted = ladder.quoted * _error(cost_error, ladder.quoted.shape, rng)
    return Stream(ladder, rows, warm, max(budget, 0.0), quoted, protocol == "cold", seed)


def _error(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    exponents = {"none": 0.0, "low": -1.0, "high": 1.0}
    drawn = rng.uniform(-1.0, 1.0, shape)
    return 3.0 ** (drawn if kind == "mixed" else np.full(shape, exponents[kind]))
