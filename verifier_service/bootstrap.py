"""The only place where the parts meet: ports get their implementations, services get their ports."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.beliefs import TierBeliefs
from scheduler.costs import HourlyTariff
from scheduler.policy import ThresholdPolicy
from tiers.catalog import VerifierCatalog
from tiers.catalog_sources import Sources
from tiers.harness import ProcessHarness
from tiers.harness_options import HarnessOptions
from verifier_service.dispatch.embedded import EmbeddedDispatcher
from verifier_service.domain.cases import Body
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.dispatch import Dispatcher
from verifier_service.domain.ports.execution import Done, Harness, Released
from verifier_service.domain.ports.policy import Beliefs, Policy, Tariff
from verifier_service.domain.ports.store import Store, Transaction
from verifier_service.domain.runs import Budgets, RunSpec
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.persistence import migrate
from verifier_service.persistence.engine import create_store
from verifier_service.services import advance, decide, execute, intake, maintain, settle, tenants
from verifier_service.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Service:
    """The joined parts. Each method is one unit of work: one transaction, committed at its end."""

    settings: Settings
    store: Store
    catalog: Catalog
    dispatcher: Dispatcher
    policy: Policy
    beliefs: Beliefs
    tariff: Tariff
    harness: Callable[[], Harness]
    defaults: RunSpec = field(default_factory=RunSpec)

    def submit(
        self, project: str, run: str, items: Sequence[TrajectorySubmission | InvalidInput]
    ) -> intake.Intake:
        """Take a batch in and ask for its fast checks, in one transaction."""
        with self.store.begin() as tx:
            taken = self.submit_in(tx, project, run, items)
        self.dispatcher.wake([Tier.FAST])
        return taken

    def submit_in(
        self,
        tx: Transaction,
        project: str,
        run: str,
        items: Sequence[TrajectorySubmission | InvalidInput],
    ) -> intake.Intake:
        """``submit`` inside the caller's transaction; the caller wakes the fast tier afterwards."""
        taken = intake.submit(
            tx, self.catalog, project=project, run=run, defaults=self.defaults, items=items
        )
        if taken.created:
            self._follow(tx, taken.created.keys(), taken.created)
        return taken

    def take(self, tier: Tier, limit: int, owner: str) -> execute.Taken:
        """Lease work of one tier for a worker."""
        with self.store.begin() as tx:
            taken = execute.take(
                tx,
                self.catalog,
                self.tariff,
                tier=tier,
                limit=limit,
                owner=owner,
                ttl_s=self.settings.lease_s,
            )
            woken, told = self._follow(tx, taken.unpaid)
        self._tell(woken, told)
        return taken

    def report(self, owner: str, taken: execute.Taken, results: Sequence[Done | Released]) -> None:
        """Complete attempts, advance and settle their cases: one transaction."""
        with self.store.begin() as tx:
            ended = execute.report(tx, self.catalog, self.tariff, owner=owner, taken=taken, results=results)
            woken, told = self._follow(tx, ended.pks)
        self._tell(woken, told)

    def beat(self, owner: str, taken: execute.Taken) -> None:
        """Renew the leases of a worker's claims."""
        fences = {claim.pk: claim.fence for claim in taken.claims.values()}
        with self.store.begin() as tx:
            tx.checks.beat(owner, fences, self.settings.lease_s)

    def unwanted(self, taken: execute.Taken) -> set[str]:
        """Jobs whose check is no longer running: cancelled, or given to somebody else."""
        with self.store.read() as tx:
            gone = tx.checks.cancelled([claim.pk for claim in taken.claims.values()])
        return {job for job, claim in taken.claims.items() if claim.pk in gone}

    def decide(self, project: str, run: str, *, revisit_held: bool = False) -> int:
        """Ask the policy about one run; returns how many cases it looked at."""
        minds = decide.Minds(self.policy, self.beliefs, self.tariff)
        with self.store.begin() as tx:
            decided = decide.decide(
                tx, self.catalog, minds, project=project, run=run, revisit_held=revisit_held
            )
            woken, told = self._follow(tx, decided.pks)
        self._tell(woken | decided.woken, told)
        return len(decided.pks)

    def mend(self, step: Callable[[Transaction], maintain.Left]) -> int:
        """Run one maintenance step and bring on what it found; returns how many cases."""
        with self.store.begin() as tx:
            left = step(tx)
            woken, told = self._follow(tx, left.pks)
        self._tell(woken, told)
        return len(left.pks)

    def close_step(self, project: str, run: str) -> bool:
        """One step of closing a run; True when it is closed."""
        with self.store.begin() as tx:
            left, done = maintain.close_step(tx, project, run)
            cases = tx.trajectories.cases(left.pks, lock=True)
            settle.settle(tx, self.beliefs, cases, closing=True)
        self._tell((), [(project, run)])
        return done

    def _follow(
        self, tx: Transaction, pks: Collection[int], known: Mapping[int, Body] | None = None
    ) -> tuple[frozenset[Tier], set[tuple[str, str]]]:
        """Advance and settle cases; returns the tiers to wake and the runs to announce."""
        if not pks:
            return frozenset(), set()
        advanced = advance.advance(tx, self.catalog, pks, known)
        settle.settle(tx, self.beliefs, advanced.cases)
        return advanced.woken, {(case.standing.project, case.standing.run) for case in advanced.cases}

    def _tell(self, woken: Collection[Tier], told: Collection[tuple[str, str]]) -> None:
        """After the commit: wake workers and waiters."""
        if woken:
            self.dispatcher.wake(woken)
        for project, run in told:
            self.dispatcher.announce(project, run)


def build(settings: Settings) -> Service:
    """Join the parts for the settings: migrate the database, ship the ladders."""
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    url = settings.engine_url()
    migrate.upgrade(url)
    catalog = VerifierCatalog(Sources(settings.plugins))
    service = Service(
        settings=settings,
        store=create_store(url),
        catalog=catalog,
        dispatcher=EmbeddedDispatcher(),
        policy=ThresholdPolicy(),
        beliefs=TierBeliefs(catalog.map),
        tariff=HourlyTariff(
            cpu_hour=settings.cpu_hour, gpu_hour=settings.gpu_hour, human_hour=settings.human_hour
        ),
        harness=lambda: ProcessHarness(
            catalog, HarnessOptions(beat_s=settings.lease_s / 3, plugins=tuple(settings.plugins))
        ),
        defaults=RunSpec(budgets=Budgets(compute=settings.budget_compute, human=settings.budget_human)),
    )
    with service.store.begin() as tx:
        tenants.create_project(tx, catalog, settings.project)
    return service
