"""The whole story in one thread: every step is called by the test, so that order is under control."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tiers.catalog import VerifierCatalog
from tiers.catalog_sources import Sources
from tiers.harness import ProcessHarness
from tiers.harness_options import HarnessOptions
from verifier_service import bootstrap
from verifier_service.bootstrap import Service
from verifier_service.domain.cases import Standing
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ladders import LadderSpec
from verifier_service.domain.reviews import ClaimRequest
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.runs import Budgets, Run, RunReport, RunSpec
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.services import desk, intake, tenants
from verifier_service.services.intake import Intake
from verifier_service.settings import Settings
from verifier_service.worker.loop import TierWorker
from verifier_service.worker.sweep import Sweep

PROJECT = "default"
PLUGINS = ("tests.support.measuring",)
LADDER: dict[str, Any] = {
    "name": "carbons",
    "candidate": {"kind": "molecule", "format": "smiles", "from": "answer"},
    "quantity": {"name": "carbons@test", "unit": "1"},
    "utility": {"kind": "linear", "zero": 0.0, "one": 10.0},
    "truth": "high_fidelity",
    "process": {"weight": 0.2, "checks": [{"use": "turns.tool_calls"}, {"use": "turns.errors"}]},
    "tiers": {
        "fast": [{"use": "molecule.validity", "gate": "hard"}],
        "simulation": [{"use": "test.rough", "params": {"sigma": 2.0}}],
        "high_fidelity": [{"use": "test.exact"}],
        "lab": [{"use": "review", "params": {"queue": "chemists", "approvals": 1}}],
    },
}


def story_harness() -> ProcessHarness:
    """Warm children that one thread's stories may share."""
    return ProcessHarness(VerifierCatalog(Sources(PLUGINS)), HarnessOptions(plugins=PLUGINS))


class Story:
    """A service with one worker per tier and a sweep, none of them in a thread."""

    def __init__(
        self,
        folder: Path,
        harness: ProcessHarness,
        ladder: dict[str, Any] | None = LADDER,
        **settings: Any,
    ) -> None:
        values = {"review_grace_s": 0.0, "plugins": PLUGINS} | settings
        built = bootstrap.build(Settings(data=folder, **values))
        self.service: Service = replace(built, harness=lambda: harness)
        self.workers = [
            TierWorker(self.service, tier, f"embedded/test/{tier}", batch=64)
            for tier in (Tier.FAST, Tier.SIMULATION, Tier.HIGH_FIDELITY)
        ]
        self.sweep = Sweep(self.service, "embedded/test/sweep")
        if ladder is not None:
            self.put_ladder(ladder)

    def put_ladder(self, document: dict[str, Any]) -> None:
        spec = LadderSpec.model_validate_json(json.dumps(document))
        with self.service.store.begin() as tx:
            tenants.put_ladder(tx, self.service.catalog, PROJECT, spec)

    def put_run(
        self, run: str, *, compute: float | None = None, human: float | None = None, **spec: Any
    ) -> None:
        declared = RunSpec(budgets=Budgets(compute=compute, human=human), **spec)
        with self.service.store.begin() as tx:
            tx.runs.put(PROJECT, run, declared, intake.seed_of(PROJECT, run))

    def submit(self, run: str, *items: dict[str, Any]) -> Intake:
        parsed = [
            TrajectorySubmission.model_validate_json(json.dumps({"ladder": "carbons"} | item))
            for item in items
        ]
        return self.service.submit(PROJECT, run, parsed)

    def rest(self, rounds: int = 50) -> None:
        """Work and sweep until nothing moves."""
        for _ in range(rounds):
            self.sweep._slow_due = 0.0
            self.sweep.tick()
            busy = [worker.drain_once() for worker in self.workers]
            if not any(busy):
                with self.service.store.read() as tx:
                    if not tx.runs.undecided(10) and not tx.checks.ready():
                        return
        raise AssertionError("the story did not come to rest")

    def until(self, met: Callable[[], bool], seconds: float = 20.0) -> None:
        """Rest again and again, with pauses, until ``met``: for backoffs and deadlines."""
        end = time.monotonic() + seconds
        while not met():
            assert time.monotonic() < end, "it did not happen in time"
            self.rest()
            time.sleep(0.05)

    def fast(self) -> None:
        """Only the fast worker."""
        while self.workers[0].drain_once():
            continue

    def standing(self, run: str, trajectory: str) -> Standing:
        with self.service.store.read() as tx:
            return tx.trajectories.find(PROJECT, run, [trajectory])[trajectory]

    def latest(self, run: str, trajectory: str) -> RewardRecord:
        with self.service.store.read() as tx:
            return tx.rewards.latest(PROJECT, run, [trajectory])[trajectory]

    def feed(self, run: str) -> list[RewardRecord]:
        with self.service.store.read() as tx:
            return tx.rewards.feed(PROJECT, run, 0, 10_000)

    def report(self, run: str) -> RunReport:
        with self.service.store.read() as tx:
            return tx.runs.report(PROJECT, run)

    def run(self, run: str) -> Run:
        return self.report(run).run

    def close(self) -> None:
        self.service.store.close()


@contextmanager
def story(folder: Path, harness: ProcessHarness, **settings: Any) -> Iterator[Story]:
    told = Story(folder, harness, **settings)
    try:
        yield told
    finally:
        told.close()


def claim(told: Story, reviewer: str = "ann") -> str:
    """Claim the next review of the chemists; its id."""
    with told.service.store.begin() as tx:
        review = desk.claim_review(tx, PROJECT, ClaimRequest(reviewer=reviewer, queue="chemists"))
    assert review is not None
    return review.id
