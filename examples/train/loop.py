"""One run: a policy writes molecules, the service scores them, the policy learns from the records."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from examples.train.objectives import Learner, Records, Tuning
from examples.train.policy import Batch, Policy
from examples.train.quality import Judge
from examples.train.service import Service
from verifier_service.client import Client
from verifier_service.domain.wire import Until
from verifier_service.trainers import chat
from verifier_service.trainers.replay import ReplayBuffer
from verifier_service.trainers.scoring import Scoring, score_blocking

PROMPT = (
    "Propose a small molecule with a GFN2-xTB orbital gap between 1.5 and 2.2 eV. Answer with one SMILES."
)
IDLE_S = 0.05

Teach = Callable[[Batch, Records], int]
Teaching = Callable[[Learner, Client, "Plan"], Teach]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a run is: its ladder, how many steps of how many samples, how often its quality is measured.

    ``late``: a step waits for the fast tier only, and revised rewards of up to ``staleness`` policy
    versions ago are trained on when they come. ``budget``: credits that must last for all samples, spent
    where they move an advantage most; ``None``: no limit. ``tag`` sets a repeated run apart where runs are
    kept.
    """

    condition: str
    algorithm: str
    seed: int
    steps: int = 30
    samples: int = 32
    every: int = 3
    judged: int = 48
    late: bool = False
    staleness: int = 3
    budget: float | None = None
    tuning: Tuning = field(default_factory=Tuning)
    tag: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def name(self) -> str:
        """What its result is called."""
        kind = f"{'late-' if self.late else ''}{'budget-' if self.budget is not None else ''}"
        return f"{kind}{self.algorithm}-{self.condition}-{self.seed}"

    @property
    def run(self) -> str:
        """The run's name in the service."""
        return f"{self.name}-{self.tag}"

    @property
    def declared(self) -> dict[str, Any]:
        """The run as the service is told of it."""
        if self.budget is None:
            return {}
        return {
            "budgets": {"compute": self.budget},
            "horizon": {"trajectories": self.steps * self.samples},
            "objective": "advantage",
        }

    @property
    def ladder(self) -> str:
        """The ladder's name in the service."""
        return f"train-{self.condition}"


@dataclass(frozen=True, slots=True)
class Point:
    """The policy after ``step`` updates: credits spent, true quality, samples without any, and how many
    different texts there were among the samples."""

    step: int
    credits: float
    quality: float
    unscored: int
    distinct: int


class Rewarder:
    """Asks the service for the rewards of batches, and for those that came late."""

    def __init__(self, plan: Plan, service: Service, client: Client) -> None:
        self._plan = plan
        self._client = client
        # Not "final": a sample whose simulation the budget cannot pay for would be waited for in vain.
        until: Until = "fast" if plan.late else "simulation"
        self._scoring = Scoring(
            run=plan.run, ladder=plan.ladder, until=until, seconds=120.0, url=service.url, key=service.key
        )
        self._buffer: ReplayBuffer[Batch] = ReplayBuffer(max_staleness=plan.staleness)
        self._read = 0  # of the feed; the answer to a submission is ahead of what was read

    def records(self, step: int, batch: Batch) -> Records:
        """The newest record of every sample, ``None`` where the service gave none."""
        submissions = [
            chat.submission(
                self._plan.ladder,
                prompt=PROMPT,
                completion=text,
                id=_name(self._plan, step, place),
                group=f"step-{step}",
                group_size=len(batch),
                policy_version=str(step),
            )
            for place, text in enumerate(batch.texts)
        ]
        return [scored.record for scored in score_blocking(self._scoring, submissions)]

    def revised(self, step: int, batch: Batch, records: Records) -> tuple[Batch, list[float]] | None:
        """Hold a batch, take in what arrived for earlier ones: samples to train on with their advantages.

        These are the new ones, and older ones whose advantage a late reward has changed.
        """
        self._buffer.advance(step)
        fresh = {}
        for place, (row, record) in enumerate(zip(batch.rows(), records, strict=True)):
            name = _name(self._plan, step, place)
            fresh[name] = row
            self._buffer.add(name, row, group=str(step), record=record)
        changed: set[str] = set()
        for record in self._client.follow(self._plan.run, after=self._read, idle_s=IDLE_S):
            self._read = record.seq
            changed |= {change.id for change in self._buffer.apply(record)}
        taught = [held for held in self._buffer.trainable() if held.id in changed or held.id in fresh]
        if not taught:
            return None
        return Batch.joined([held.rollout for held in taught]), [held.advantage or 0.0 for held in taught]

    def credits(self) -> float:
        """What the run has spent so far."""
        accounts = self._client.run(self._plan.run).run.accounts
        return sum(account.spent for account in accounts)


def train(
    plan: Plan,
    start: Policy,
    service: Service,
    judge: Judge,
    teach: Teaching | None = None,
    finished: Callable[[Policy], object] = id,
) -> Iterator[Point]:
    """Train a copy of ``start``; yields where the policy stands, the start included.

    ``teach`` makes the algorithm's own step; by default it is ``learner.grpo`` or ``learner.ppo``.
    ``finished`` is given the policy at the end.
    """
    torch.manual_seed(plan.seed)
    generator = torch.Generator().manual_seed(1_000 + plan.seed)
    learner = Learner(copy.deepcopy(start), start, plan.tuning)
    with service.client() as client:
        client.put_run(plan.run, plan.declared)
        rewarder = Rewarder(plan, service, client)
        own = {"grpo": learner.grpo, "ppo": learner.ppo}
        step_of = own[plan.algorithm] if teach is None else teach(learner, client, plan)
        for step in range(plan.steps + 1):
            if step % plan.every == 0:
                texts = learner.policy.sample(plan.judged, generator).texts
                found = judge.quality(texts)
                yield Point(step, rewarder.credits(), found.mean, found.unscored, len(set(texts)))
            if step == plan.steps:
                finished(learner.policy)
                return
            batch = learner.policy.sample(plan.samples, generator)
            records = rewarder.records(step, batch)
            if plan.late:
                _late_step(learner, rewarder, step, batch, records)
            else:
                step_of(batch, records)


def as_json(plan: Plan, points: list[Point]) -> dict[str, Any]:
    """What is kept of a run."""
    return {"plan": asdict(plan), "points": [asdict(point) for point in points]}


def _late_step(learner: Learner, rewarder: Rewarder, step: int, batch: Batch, records: Records) -> None:
    found = rewarder.revised(step, batch, records)
    if found is not None:
        joined, advantages = found
        learner.weighted(joined, np.array(advantages), np.ones(len(advantages), dtype=np.bool_))


def _name(plan: Plan, step: int, place: int) -> str:
    return f"{plan.run}-{step}-{place}"
