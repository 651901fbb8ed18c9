"""The joined parts: each event of the story as one transaction."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from verifier_service.bootstrap.snapshots import Snapshots
from verifier_service.bootstrap.steps import Followed, Step
from verifier_service.domain.errors import Contended, InvalidInput
from verifier_service.domain.evidence import Tier
from verifier_service.domain.models import LadderKey
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.costs import CostModel
from verifier_service.domain.ports.dispatch import Dispatcher
from verifier_service.domain.ports.drawing import Drawer
from verifier_service.domain.ports.execution import Done, Harness, Released
from verifier_service.domain.ports.policy import Beliefs, Policy, Tariff
from verifier_service.domain.ports.settlements import MarketFeed
from verifier_service.domain.ports.store import Store, Transaction
from verifier_service.domain.ports.traces import Tracer
from verifier_service.domain.ports.webhooks import Courier
from verifier_service.domain.pricing import Pricing
from verifier_service.domain.records import JsonObject
from verifier_service.domain.runs import Run, RunSpec
from verifier_service.domain.scoring import BUDGET_EXHAUSTED
from verifier_service.domain.trajectories import TrajectorySubmission, Turn
from verifier_service.domain.webhook_rules import Patience
from verifier_service.domain.workers import Counts, Kind
from verifier_service.meter import Meter
from verifier_service.services import (
    advance,
    decide,
    execute,
    foresee,
    grow,
    intake,
    learn,
    learn_costs,
    maintain,
    observe,
    retract,
    settle,
    watch,
)
from verifier_service.settings import Settings

T = TypeVar("T")
Items = Sequence[TrajectorySubmission | InvalidInput]

UNIT_TRIES, UNIT_PAUSE_S = 6, 0.01


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
    costs: CostModel
    meter: Meter
    tracer: Tracer
    harness: Callable[[], Harness]
    quick_harness: Callable[[], Harness]
    courier: Courier
    drawer: Drawer
    feed: MarketFeed
    patience: Patience
    defaults: RunSpec = field(default_factory=RunSpec)
    host: str = field(default_factory=socket.gethostname)
    snapshots: Snapshots = field(default_factory=Snapshots)

    def submit_in(
        self,
        tx: Transaction,
        project: str,
        run: str,
        items: Items,
        foreseen: foresee.Foreseen = foresee.NOTHING,
        traces: Sequence[str | None] = (),
        submitters: Sequence[str | None] = (),
    ) -> intake.Intake:
        """Take a batch in and ask for its fast checks, inside the caller's transaction.

        The caller commits, and afterwards wakes the tiers that have new work. ``traces``, where they are
        collected: that in which each item was submitted; ``submitters``, where any is known: who did.
        """
        taken = intake.submit(
            tx,
            self.catalog,
            project=project,
            run=run,
            defaults=self.defaults,
            items=items,
            rows=foreseen.rows,
        )
        intake.note_origins(tx, taken, traces, submitters)
        known = advance.Known(bodies=taken.created, plans=foreseen.plans)
        followed = self.follow(tx, Step(taken, taken.created.keys(), known=known))
        return replace(taken, woken=followed.woken, issued=followed.issued)

    def foresee(
        self,
        harness: Harness,
        owner: str,
        project: str,
        run: str,
        items: Mapping[int, TrajectorySubmission],
        until: float,
    ) -> foresee.Foreseen:
        """Run the fast checks of items, by position, that are about to be submitted, as far as that goes
        before ``until`` on the monotonic clock."""
        attempt = foresee.Attempt(harness, until)
        sight = foresee.Foresight(self.catalog, self.tariff, project=project, run=run, owner=owner)
        with self.store.read() as tx:
            sight.take_in(tx, self.defaults, items)
        for _ in range(foresee.ROUNDS):
            if not sight.plan():
                break
            with self.store.read() as tx:
                jobs = sight.ask(tx)
            sight.learn(attempt.results(jobs))
        return sight.foreseen(attempt)

    def submit(self, project: str, run: str, items: Items, submitter: str | None = None) -> intake.Intake:
        """``submit_in`` as an event of its own, for a person if ``submitter`` is one."""
        who: dict[str, Any] = {} if submitter is None else {"submitters": (submitter,) * len(items)}
        taken = self.unit(lambda tx: self.submit_in(tx, project, run, items, **who))
        self.dispatcher.wake(taken.woken)
        return taken

    def grow(
        self,
        project: str,
        run: str,
        trajectory: str,
        *,
        index: int,
        turns: Sequence[Turn],
        answer: str | JsonObject | None,
        finished: bool,
    ) -> grow.Grown:
        """Add turns to an unfinished trajectory and ask for their checks."""

        def step(tx: Transaction) -> Step[grow.Grown]:
            grown = grow.grow(
                tx,
                project=project,
                run=run,
                trajectory=trajectory,
                index=index,
                turns=turns,
                answer=answer,
                finished=finished,
            )
            return Step(grown, [grown.pk] if grown.changed else [])

        return self.event(step)

    def cancel(self, project: str, run: str, trajectory: str) -> None:
        """Withdraw what is wanted for a trajectory, and say so in its record."""
        self.event(lambda tx: Step(None, [grow.cancel(tx, project, run, trajectory)]))

    def put_run(self, project: str, run: str, spec: RunSpec) -> Run:
        """Declare a run or change it; what its budget could not pay before is asked for again."""

        def step(tx: Transaction) -> Step[Run]:
            stored = tx.runs.put(project, run, spec, intake.seed_of(project, run))
            return Step(stored, tx.demands.unpaid(project, run, BUDGET_EXHAUSTED), again=True)

        return self.event(step)

    def close_run(self, project: str, run: str) -> None:
        """Take no more trajectories (idempotent); the sweep finishes the run. Raises ``NotFound``."""
        self.unit(lambda tx: maintain.begin_close(tx, project, run))

    def take(
        self,
        tier: Tier,
        limit: int,
        owner: str,
        without: Collection[str] = (),
        only: Collection[Kind] | None = None,
    ) -> execute.Taken:
        """Lease work of one tier for a worker, but none of the verifiers in ``without``, and where ``only``
        is given none but those kinds."""
        ttl_s = self.settings.lease_s

        def step(tx: Transaction) -> Step[execute.Taken]:
            taken = execute.take(
                tx,
                self.catalog,
                self.tariff,
                self.costs,
                tier=tier,
                limit=limit,
                owner=owner,
                ttl_s=ttl_s,
                without=without,
                only=only,
            )
            return Step(taken, taken.ended)

        return self.event(step)

    def report(
        self,
        owner: str,
        taken: execute.Taken,
        results: Sequence[Done | Released],
        count: Callable[[Counts], None] = lambda _: None,
    ) -> None:
        """Complete attempts, advance and settle their cases; ``count`` is told what was committed."""

        def step(tx: Transaction) -> Step[tuple[Counts, list[observe.Traced]]]:
            ended = execute.report(
                tx, self.catalog, self.tariff, owner=owner, host=self.host, taken=taken, results=results
            )
            spans = observe.spans(tx, owner, taken.claims, results) if self.tracer.on else []
            return Step((ended.counts, spans), ended.pks)

        counts, spans = self.event(step)
        count(counts)
        for parents, span in spans:
            self.tracer.attempt(parents, span)

    def beat(self, owner: str, taken: execute.Taken) -> None:
        """Renew the leases of a worker's claims."""
        fences = {claim.pk: claim.fence for claim in taken.claims.values()}
        self.unit(lambda tx: tx.checks.beat(owner, fences, self.settings.lease_s))

    def disown(self, owner: str, held: Mapping[int, int]) -> None:
        """Give back what is leased to a worker that holds no more than ``held``."""
        self.mend(lambda tx: maintain.disown(tx, owner, held))

    def unwanted(self, taken: execute.Taken) -> set[str]:
        """Jobs whose check is no longer running: cancelled, or given to somebody else."""
        with self.store.read() as tx:
            gone = tx.checks.cancelled([claim.pk for claim in taken.claims.values()])
        return {job for job, claim in taken.claims.items() if claim.pk in gone}

    def decide(self, project: str, run: str, *, revisit_held: bool = False) -> int:
        """Ask the policy about one run; returns how many cases it looked at."""
        minds = decide.Minds(
            self.policy, self.beliefs, self.tariff, self.costs, elsewhere=not self.settings.runs_workers
        )

        def step(tx: Transaction) -> Step[int]:
            decided = decide.decide(
                tx, self.catalog, minds, project=project, run=run, revisit_held=revisit_held
            )
            return Step(len(decided.pks), decided.pks, woken=decided.woken)

        return self.event(step)

    def learn(self, key: LadderKey) -> bool:
        """Fit the next model of a ladder version, outside of any transaction; whether there is one."""
        with self.store.read() as tx:
            lesson = learn.lesson(tx, self.beliefs, key)
        if lesson is None:
            return False
        model = self.beliefs.learn(lesson.ladder, lesson.examples, lesson.previous, lesson.alarms)
        return model is not None and self.unit(lambda tx: learn.keep(tx, key, model))

    def watch(self, key: LadderKey) -> bool:
        """Look at the audits of a ladder that have ended; whether they raise an alarm."""
        return bool(self.unit(lambda tx: watch.watch(tx, self.beliefs, key)))

    def relook(self, key: LadderKey, after: int) -> int | None:
        """Tell what a new model has moved, a part of it; returns where to go on."""

        def step(tx: Transaction) -> Step[int | None]:
            pks, further = learn.changed(tx, key, after)
            return Step(further, pks)

        return self.event(step)

    def mend(self, find: Callable[[Transaction], maintain.Left]) -> int:
        """Run one maintenance step and bring on what it found; returns how many cases."""

        def step(tx: Transaction) -> Step[int]:
            left = find(tx)
            return Step(len(left.pks), left.pks)

        return self.event(step)

    def learn_costs(self) -> int:
        """Learn from a part of the attempts that ended since the last time; returns how many there were."""
        return self.unit(lambda tx: learn_costs.learn_costs(tx, self.catalog, self.costs))

    def pricing(self, tx: Transaction) -> Pricing:
        """Expected prices as learned by now."""
        return Pricing(self.catalog, self.tariff, self.costs, tx.costs.fits(), tx.queues.approvals())

    def retract_step(self, project: str, retraction: str) -> bool:
        """One step of a retraction; False when it is done."""

        def step(tx: Transaction) -> tuple[bool, Followed]:
            touched = retract.step(tx, self.catalog, project, retraction)
            followed = self.follow(tx, Step(None, touched.open, reopened=touched.reopened))
            rest = settle.settle(tx, self.beliefs, touched.closed, closing=True, correcting=True)
            rest |= settle.settle(tx, self.beliefs, touched.draining, correcting=True)
            issued = len(rest) + len(followed.issued.keys() & set(touched.reopened))
            retract.note_records(tx, project, retraction, issued)
            corrected = (*touched.closed, *touched.draining)
            places = {(case.standing.project, case.standing.run) for case in corrected}
            return touched.done, followed._replace(told=followed.told | places)

        done, followed = self.unit(step)
        self.announce(followed)
        return not done

    def close_step(self, project: str, run: str) -> bool:
        """One step of closing a run; True when it is closed."""

        def step(tx: Transaction) -> bool:
            left, done = maintain.close_step(tx, project, run)
            cases = tx.trajectories.cases(left.pks, lock=True)
            settle.settle(tx, self.beliefs, cases, closing=True)
            return done

        done = self.unit(step)
        self.dispatcher.announce(project, run)
        return done

    def unit(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in one transaction, again when another was in the way: nothing of it happened.

        Raises ``Contended`` when that does not help.
        """
        for attempt in range(UNIT_TRIES - 1):
            try:
                with self.store.begin() as tx:
                    return work(tx)
            except Contended:
                time.sleep(UNIT_PAUSE_S * random.uniform(1, 2**attempt))  # noqa: S311 - jitter
        with self.store.begin() as tx:
            return work(tx)

    def event(self, work: Callable[[Transaction], Step[T]]) -> T:
        """A unit whose cases are advanced and settled in it; after the commit, wake and announce."""

        def done(tx: Transaction) -> tuple[T, Followed]:
            step = work(tx)
            return step.value, self.follow(tx, step)

        value, followed = self.unit(done)
        self.announce(followed)
        return value

    def announce(self, followed: Followed) -> None:
        """Wake the tiers and tell of the runs, after the commit."""
        if followed.woken:
            self.dispatcher.wake(followed.woken)
        for project, run in followed.told:
            self.dispatcher.announce(project, run)

    def follow(self, tx: Transaction, step: Step[T]) -> Followed:
        """Advance and settle the cases of a step."""
        woken = frozenset(step.woken)
        if not step.pks:
            return Followed(woken)
        advanced = advance.advance(
            tx, self.catalog, step.pks, step.known, again=step.again, reopened=step.reopened
        )
        issued = settle.settle(tx, self.beliefs, advanced.cases, correcting=bool(step.reopened))
        places = frozenset((case.standing.project, case.standing.run) for case in advanced.cases)
        return Followed(woken | advanced.woken, places, issued)
