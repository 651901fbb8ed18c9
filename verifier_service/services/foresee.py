"""Run the fast checks of a batch before it is stored, so that they are stored as ended.

Nothing is written and nothing is promised here. The climb is that of ``advance`` (both read
``domain.climb``), on cases that exist in memory only. When the batch is stored, ``advance`` decides by
itself what to ask for and takes from here only how those checks ended. What was not judged at once, is
asked for by others already, or would need a reservation, goes through the queue.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from verifier_service.domain.attempts import completion_of, job_of
from verifier_service.domain.cases import Body, Case, NewTrajectory
from verifier_service.domain.checks import CheckRef, CheckView, Claim, Completion, DemandView, NewCheck
from verifier_service.domain.climb import (
    PlanKey,
    demand_on,
    identified,
    missing,
    plan_key,
    subject_of,
    view_of,
    with_demands,
)
from verifier_service.domain.contents import body_of, new_trajectory, standing_of
from verifier_service.domain.errors import InvalidInput, NotFound
from verifier_service.domain.evidence import Cost, Tier
from verifier_service.domain.ladders import Ladder, Rung
from verifier_service.domain.planning import plan_check, unplannable
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.execution import Done, Harness, Job, Released
from verifier_service.domain.ports.policy import Tariff
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.runs import RunSpec, RunState
from verifier_service.domain.states import CheckState
from verifier_service.domain.trajectories import TrajectorySubmission

ROUNDS = 2  # identify, then the ladder
QUICK_S = 0.02  # what takes longer gains nothing from being foreseen
FIRST_S = 2.0  # until the first result: a cold child has to load its libraries
NEXT_S = 0.5  # between results
SLICE_S = 0.2  # what is asked of the child at once, by the verifiers' own estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class Foreseen:
    """Rows by the position of their item in the batch, and plans of checks: some have ended.

    ``gave_up`` when an item did not end in time: its child is gone.
    """

    rows: Mapping[int, NewTrajectory] = field(default_factory=dict)
    plans: Mapping[PlanKey, NewCheck] = field(default_factory=dict)
    gave_up: bool = False


NOTHING = Foreseen()


class Attempt:
    """Jobs run as long as results keep coming: a batch must not wait for an item that does not end, nor for
    long at all. Between slices nothing is executing, so that to stop there hurts nobody."""

    def __init__(self, harness: Harness, until: float) -> None:
        self._harness = harness
        self._until = until
        self.gave_up = False

    def results(self, slices: Iterable[Sequence[Job]]) -> Iterator[Done | Released]:
        """What came of the jobs, as far as they were run."""
        for jobs in slices:
            if self.gave_up or time.monotonic() > self._until:
                return
            yield from self._slice(jobs)

    def _slice(self, jobs: Sequence[Job]) -> Iterator[Done | Released]:
        left = {job.id for job in jobs}
        patience = [time.monotonic() + FIRST_S]
        for result in self._harness.run(jobs, lambda: left if time.monotonic() > patience[0] else ()):
            patience[0] = time.monotonic() + NEXT_S
            left.discard(result.id)
            self.gave_up |= isinstance(result, Released)
            yield result


class Foresight:
    """The climb of one batch for one run: ``take_in``, then in rounds ``plan``, ``ask``, run, ``learn``.

    A run that is not open, or whose budget has a limit, is not foreseen: there, checks need a reservation
    before they run.
    """

    def __init__(self, catalog: Catalog, tariff: Tariff, *, project: str, run: str, owner: str) -> None:
        self._catalog = catalog
        self._tariff = tariff
        self._project = project
        self._run = run
        self._owner = owner
        self._secret = ""
        self._rows: dict[int, NewTrajectory] = {}
        self._bodies: dict[int, Body] = {}
        self._climbing: dict[int, Case] = {}
        self._planned: list[tuple[int, Rung, NewCheck]] = []
        self._found: Mapping[str, CheckView | None] = {}
        self._asked: list[Claim] = []
        self._endings: dict[str, Completion] = {}
        self._plans: dict[PlanKey, NewCheck] = {}

    def take_in(
        self, tx: Transaction, defaults: RunSpec, items: Mapping[int, TrajectorySubmission]
    ) -> None:
        """Make the rows of submissions, by position, and imagine their cases."""
        versions = self._pins(tx, defaults)
        if versions is None:
            return
        self._secret = tx.projects.secret(self._project)
        names = {item.ladder for item in items.values()}
        ladders = {name: self._ladder(tx, versions, name) for name in names}
        for position, item in items.items():
            ladder = ladders[item.ladder]
            if ladder is not None:
                self._imagine(position, item, ladder)
        ids = {row.id for row in self._rows.values()}
        seen = set(tx.trajectories.find(self._project, self._run, ids))
        for position, row in self._rows.items():
            if row.id in seen:
                del self._climbing[position]
            seen.add(row.id)

    def _pins(self, tx: Transaction, defaults: RunSpec) -> Mapping[str, int] | None:
        """Pinned versions of ladders, ``None`` where nothing is to be foreseen."""
        try:
            run = tx.runs.get(self._project, self._run)
        except NotFound:
            return {} if defaults.budgets.compute is None else None
        bounded = any(one.limit is not None for one in run.accounts if one.kind == "compute")
        return None if bounded or run.state is not RunState.OPEN else run.ladder_versions

    def _ladder(self, tx: Transaction, versions: Mapping[str, int], name: str) -> Ladder | None:
        version = versions.get(name)
        if version is None:
            return tx.ladders.latest(self._project, name)
        return tx.ladders.version(self._project, name, version)

    def _imagine(self, position: int, item: TrajectorySubmission, ladder: Ladder) -> None:
        """Intake names what is wrong with an item; here it is left out."""
        try:
            if self._catalog.precheck(ladder.spec, item) is not None:
                return
            row = new_trajectory(item, ladder, self._secret)
        except (InvalidInput, NotFound):
            return
        self._rows[position] = row
        self._bodies[position] = body_of(item)
        standing = standing_of(row, self._project, self._run, position)
        self._climbing[position] = Case(standing=standing, ladder=ladder, demands=())

    def plan(self) -> bool:
        """Find the checks that the cases should have by now; false when there are none."""
        self._planned = [ask for position in tuple(self._climbing) for ask in self._plan(position)]
        return bool(self._planned)

    def _plan(self, position: int) -> list[tuple[int, Rung, NewCheck]]:
        case = self._climbing[position]
        subject = subject_of(self._catalog, case)
        if subject is not None:
            case = self._climbing[position] = identified(case, subject)
        rungs = list(missing(self._catalog, case, again=False))
        if not rungs or not all(self._can_run(rung) for rung in rungs):
            del self._climbing[position]
            return []
        body, source = self._bodies[position], case.ladder.spec.candidate
        plan = partial(plan_check, self._catalog, case.standing, source=source, secret=self._secret)
        return [(position, rung, plan(rung, body)) for rung in rungs]

    def _can_run(self, rung: Rung) -> bool:
        if unplannable(self._catalog, rung) is not None:
            return False
        info = self._catalog.verifier(rung.use.use)
        quick = info.tier is Tier.FAST and not info.external and info.typical_cpu_s <= QUICK_S
        return quick and self._catalog.availability(info.name) is None

    def ask(self, tx: Transaction) -> Iterator[list[Job]]:
        """What was planned and nobody has asked for before, as jobs, in slices of one verifier each."""
        new = {check.key: check for _, _, check in self._planned if check.key not in self._endings}
        self._found = tx.checks.found(self._project, new.keys()) if new else {}
        unknown = [check for key, check in new.items() if key not in self._found]
        self._asked = [self._claim(number, check) for number, check in enumerate(unknown)]
        of_verifier: dict[str, list[Job]] = {}
        for claim in self._asked:
            job = job_of(self._catalog, self._tariff, claim, self._price(claim), cut=False)
            of_verifier.setdefault(claim.verifier, []).append(job)
        return self._slices(of_verifier)

    def _slices(self, of_verifier: Mapping[str, list[Job]]) -> Iterator[list[Job]]:
        for name, jobs in of_verifier.items():
            size = 1 + int(SLICE_S / max(1e-6, self._catalog.verifier(name).typical_cpu_s))
            yield from (jobs[at : at + size] for at in range(0, len(jobs), size))

    def learn(self, results: Iterable[Done | Released]) -> None:
        """Take the results in. A case goes on where all that it asked for was answered, by them or by the
        store; the others, and what may be tried again, are left to the queue."""
        for result in results:
            claim = self._asked[int(result.id.partition(".")[0])]
            end = completion_of(self._catalog, self._tariff, self._owner, claim, result)
            if end.state in (CheckState.SUCCEEDED, CheckState.FAILED):
                self._endings[claim.key] = replace(end, credits=min(end.credits, self._price(claim)))
        views: dict[int, list[DemandView]] = {}
        open_cases: set[int] = set()
        for position, rung, plan in self._planned:
            check = plan._replace(ended=self._endings.get(plan.key))
            standing = self._climbing[position].standing
            self._plans[plan_key(standing, rung.path)] = check
            view = self._view(check)
            if view is None:
                open_cases.add(position)
            else:
                views.setdefault(position, []).append(demand_on(rung, view))
        for position in open_cases:
            del self._climbing[position]
        for position, case in self._climbing.items():
            self._climbing[position] = with_demands(case, views[position])

    def _view(self, check: NewCheck) -> CheckView | None:
        if check.ended is None:
            return self._found.get(check.key)
        ref = CheckRef(pk=0, key=check.key, state=check.ended.state, created=True)
        return view_of(check, ref, self._run)

    def foreseen(self, attempt: Attempt) -> Foreseen:
        """What is known by now."""
        return Foreseen(rows=self._rows, plans=self._plans, gave_up=attempt.gave_up)

    def _claim(self, number: int, check: NewCheck) -> Claim:
        return Claim(
            pk=number,
            key=check.key,
            project=self._project,
            verifier=check.verifier,
            version=check.version,
            tier=check.tier,
            params=check.params,
            item=check.item,
            method=check.method,
            attempt=0,
            max_attempts=check.max_attempts,
            fence=1,
            payer=self._run,
            external=False,
        )

    def _price(self, claim: Claim) -> float:
        """What the ledger would have reserved: the most that the attempt may be charged."""
        return self._tariff.credits(Cost(cpu_s=self._catalog.verifier(claim.verifier).limits.time_s))
