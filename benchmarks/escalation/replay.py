"""Replays a stream under a policy, with one belief model for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.escalation.ledger import Ledger
from benchmarks.escalation.streams import Stream
from scheduler.chain import Belief, Chain
from scheduler.gains import edge_of
from scheduler.observations import Observations
from scheduler.pacing import cold_start
from scheduler.pool import Ints, Pool
from scheduler.worth import Floats

Purchase = tuple[int, int]  # place in the round, level
MOST_PASSES = 6


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """What a policy sees when it may buy: the round's candidates and what is left for them.

    ``pool``: this round's. ``y``: what has been bought of them (n, K). ``budget``: what the policy may
    spend now. ``turn``: 0 at arrival, one more after each lot of results. ``edge``: of the best tenth
    over all seen. ``truth``, ``chain`` and ``x`` are there for the oracle.
    """

    pool: Pool
    x: Floats
    y: Floats
    truth: Floats
    all_y: Floats
    chain: Chain
    budget: float
    turn: int
    edge: float
    true_edge: float
    price: float
    rng: np.random.Generator


Select = Callable[[View], list[Purchase]]


@dataclass(frozen=True, slots=True)
class Policy:
    """A name, how it chooses, and how it spreads the budget over rounds (evenly by default)."""

    name: str
    select: Select
    pace: Callable[[Replay], tuple[float, float]] | None = None
    ours: bool = False
    limited: bool = True

    @property
    def kind(self) -> str:
        """``ours``, ``oracle``, ``ceiling`` (spends without a limit) or ``baseline``."""
        if self.ours:
            return "ours"
        if self.name.startswith("oracle"):
            return "oracle"
        return "baseline" if self.limited else "ceiling"


@dataclass(eq=False)
class Replay:
    """State of one replay; ``run`` fills it.

    ``y`` (n, K): what was bought of the stream. ``delivered``: the belief about each candidate at the end
    of its round, after the refit with that round's results. ``final``: at the end of the stream.
    """

    stream: Stream
    policy: Policy
    ledger: Ledger = field(init=False)
    y: Floats = field(init=False)
    chain: Chain = field(init=False)
    round: int = 0
    seen: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    delivered: Belief = field(init=False)
    final: Belief = field(init=False)

    def __post_init__(self) -> None:
        stream, levels = self.stream, self.stream.ladder.top + 1
        limit = stream.budget if self.policy.limited else float("inf")
        self.ledger = Ledger(limit, levels)
        self.y = np.full((stream.rows.size, levels), np.nan)
        self.x = stream.ladder.x[stream.rows]
        self.truth = stream.ladder.y[stream.rows]
        self.costs = stream.ladder.costs[stream.rows]
        self.quoted = stream.quoted[stream.rows]
        for row in stream.warm.tolist():
            for level in range(levels):
                self.ledger.learn(level, stream.quoted[row, level], stream.ladder.costs[row, level])
        self.rng = np.random.default_rng([stream.seed, 1])
        n = stream.rows.size
        self.delivered = Belief(np.zeros(n), np.zeros(n), np.ones(n))
        self.true_edge = float(np.quantile(self.truth[:, -1], 0.9))
        self.refit()

    def run(self) -> Replay:
        """All rounds; returns itself."""
        for number, places in enumerate(self.stream.rounds):
            self.round = number
            self._arrive(places)
            self._spend(places)
            self.refit()
            belief = self.believe(places)
            for name in ("mean", "variance", "scale"):
                getattr(self.delivered, name)[places] = getattr(belief, name)
        self.final = self.believe(np.arange(self.stream.rows.size))
        return self

    @property
    def left(self) -> float:
        """What may be spent on choices: what those who are still to come will cost on arrival is not."""
        arrival, next_round = self.stream.ladder.arrival, self.round + 1
        if arrival < 0 or next_round >= len(self.stream.rounds):
            return self.ledger.left
        coming = self.ledger.predicted(self.quoted[self.stream.rounds[next_round][0] :])[:, arrival]
        return max(self.ledger.left - float(coming.sum()), 0.0)

    def believe(self, places: Ints) -> Belief:
        """The belief about some members of the stream."""
        return self.chain.believe(self.x[places], self.y[places])

    def refit(self) -> None:
        """From the warm-up and everything that was bought."""
        warm, ladder = self.stream.warm, self.stream.ladder
        places = self.seen
        x = np.vstack([ladder.x[warm], self.x[places]])
        y = np.vstack([ladder.y[warm], self.y[places]])
        key = np.concatenate([np.arange(warm.size) - warm.size, places])
        self.chain = Chain.fit(Observations.of(x, y, key=key), ladder.declared, seed=self.stream.seed)

    def pool(self, places: Ints, y: Floats | None = None) -> Pool:
        """These members as a policy sees them, or as if only ``y`` had been bought of them."""
        bought = self.y[places] if y is None else y
        belief = self.chain.believe(self.x[places], bought)
        levels = bought.shape[1]
        there = ~np.isnan(bought)
        level = np.where(there.any(axis=1), levels - 1 - np.argmax(there[:, ::-1], axis=1), -1)
        after = np.tile(belief.variance[:, None], (1, levels))
        costs = self.ledger.predicted(self.quoted[places])
        for now in np.unique(level):
            rows = np.flatnonzero(level == now)
            costs[rows, : now + 1] = np.inf
            for then in range(now + 1, levels):
                after[rows, then] -= self.chain.gain(int(now), then, belief.variance[rows])
        return Pool.of(
            belief.mean,
            belief.variance,
            after,
            costs,
            group=self.stream.group[places],
            level=level,
            key=places,
        )

    def arrivals(self, places: Ints) -> Floats:
        """What these members came with (n, K)."""
        y = np.full((places.size, self.truth.shape[1]), np.nan)
        arrival = self.stream.ladder.arrival
        if arrival >= 0:
            y[:, arrival] = self.truth[places, arrival]
        return y

    def buy(self, place: int, level: int) -> bool:
        """Whether the purchase was dispatched; its value is noted if it came through."""
        quoted = float(self.quoted[place, level])
        done = self.ledger.buy(level, quoted, float(self.costs[place, level]))
        if done:
            self.y[place, level] = self.truth[place, level]
        return done is not None

    def _arrive(self, places: Ints) -> None:
        arrival = self.stream.ladder.arrival
        if arrival >= 0:
            for place in places.tolist():
                self.buy(place, arrival)
        self.seen = np.concatenate([self.seen, places])
        if self.stream.cold and self.round == 0:
            self._cold_start(places)

    def _cold_start(self, places: Ints) -> None:
        levels = self.truth.shape[1]
        lines = self.stream.ladder.declared.lines
        above = [k for k in range(self.stream.ladder.arrival + 1, levels - 1) if lines[k] is not None]
        costs = self.ledger.predicted(self.quoted[places])
        plan = cold_start(costs, np.array(above, np.int64), self.ledger.limit, self.stream.seed)
        for at, level in zip(*np.nonzero(plan), strict=True):
            self.buy(int(places[at]), int(level))
        self.refit()

    def _spend(self, places: Ints) -> None:
        even = self.left * places.size / (self.stream.rows.size - places[0])
        budget, price = (even, 0.0) if self.policy.pace is None else self.policy.pace(self)
        start = self.ledger.spent
        for turn in range(MOST_PASSES):
            left = max(budget - (self.ledger.spent - start), 0.0)
            picks = self.policy.select(self._view(places, left, turn, price))
            bought = [self.buy(int(places[at]), level) for at, level in picks]
            if not any(bought):
                break

    def _view(self, places: Ints, budget: float, turn: int, price: float) -> View:
        everyone = self.believe(self.seen)
        return View(
            pool=self.pool(places),
            x=self.x[places],
            y=self.y[places],
            truth=self.truth[places, -1],
            all_y=self.truth[places],
            chain=self.chain,
            budget=budget,
            turn=turn,
            edge=edge_of(everyone.mean, everyone.variance),
            true_edge=self.true_edge,
            price=price,
            rng=self.rng,
        )
