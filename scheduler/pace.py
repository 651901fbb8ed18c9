"""What the policy remembers of a run between two decisions: how much has come, and what it looked like."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler.pool import Pool

FORMAT = "pace/1"
RECENT = 240
DIGITS = 6


@dataclass(frozen=True, slots=True)
class Arrival:
    """A candidate as it stood when the policy first looked, in units of the reward.

    ``after``: variance left once each level has been bought; ``costs``: in credits, ``None`` where a level
    cannot be bought.
    """

    mean: float
    variance: float
    group: str
    multiplicity: int
    after: tuple[float, ...]
    costs: tuple[float | None, ...]


@dataclass(slots=True)
class Pace:
    """``seen``: candidates looked at. ``explored``: sent to the truth to begin with, ``explored_credits``
    what that was quoted at, ``audit_credits`` the same of audits. ``price``: what a credit had to buy the
    last time, by account. By ladder, the latest last: ``recent`` arrivals, and the outcomes of cases that
    ``rested``."""

    seen: int = 0
    explored: int = 0
    explored_credits: float = 0.0
    audit_credits: float = 0.0
    price: dict[str, float] = field(default_factory=dict)
    recent: dict[str, list[Arrival]] = field(default_factory=dict)
    rested: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def read(cls, document: str | None) -> Pace:
        """What was noted; a new beginning where nothing was, or another version of this code noted it."""
        found = json.loads(document) if document is not None else {}
        if found.pop("format", None) != FORMAT:
            return cls()
        recent = {name: [_arrival(*row) for row in rows] for name, rows in found.pop("recent").items()}
        return cls(recent=recent, **found)

    def note(self) -> str:
        """The document that ``read`` reads."""
        return json.dumps(
            {
                "format": FORMAT,
                "seen": self.seen,
                "explored": self.explored,
                "explored_credits": self.explored_credits,
                "audit_credits": self.audit_credits,
                "price": self.price,
                "rested": self.rested,
                "recent": {name: [_line(one) for one in rows] for name, rows in self.recent.items()},
            },
            separators=(",", ":"),
        )

    def arrived(self, ladder: str, arrivals: Sequence[Arrival]) -> None:
        """Remember the latest."""
        self.recent[ladder] = [*self.recent.get(ladder, ()), *arrivals][-RECENT:]

    def came_to_rest(self, ladder: str, outcomes: Sequence[float]) -> None:
        """Remember the latest outcomes with which cases came to rest."""
        self.rested[ladder] = [*self.rested.get(ladder, ()), *map(_short, outcomes)][-RECENT:]

    def pool(self, ladder: str) -> Pool | None:
        """Recent arrivals of a ladder as if they came now; ``None`` while there are none."""
        rows = self.recent.get(ladder)
        if not rows:
            return None
        width = len(rows[-1].costs)
        rows = [row for row in rows if len(row.costs) == width]
        names = {name: place for place, name in enumerate(dict.fromkeys(row.group for row in rows))}
        return Pool.of(
            np.array([row.mean for row in rows]),
            np.array([row.variance for row in rows]),
            np.array([row.after for row in rows], dtype=np.float64).reshape(len(rows), width),
            np.array([[np.inf if cost is None else cost for cost in row.costs] for row in rows]),
            group=np.array([names[row.group] for row in rows]),
            multiplicity=np.array([float(row.multiplicity) for row in rows]),
        )


def _arrival(
    mean: float,
    variance: float,
    group: str,
    multiplicity: int,
    after: Sequence[float],
    costs: Sequence[float | None],
) -> Arrival:
    return Arrival(mean, variance, group, multiplicity, tuple(after), tuple(costs))


def _line(one: Arrival) -> list[object]:
    return [
        _short(one.mean),
        _short(one.variance),
        one.group,
        one.multiplicity,
        [_short(value) for value in one.after],
        [None if cost is None else _short(cost) for cost in one.costs],
    ]


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
