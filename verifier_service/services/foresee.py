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

from verifier_service.domain.attempts import completion_of, job_of
from verifier_service.domain.cases import Body, Case, NewTrajectory
from verifier_service.domain.checks import CheckRef, CheckView, Claim, Completion, NewCheck
from verifier_service.domain.climb import identified, missing, subject_of, view_of, with_demand
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
FIRST_S = 1.0  # until the first result: a cold child has to load its libraries
NEXT_S = 0.25  # between results


@dataclass(frozen=True, kw_only=True, slots=True)
class Foreseen:
    """Rows by the position of their item in the batch, and how checks ended, by key."""

    rows: Mapping[int, NewTrajectory] = field(default_factory=dict)
    endings: Mapping[str, Completion] = field(default_factory=dict)


NOTHING = Foreseen()


def promptly(harness: Harness, jobs: Sequence[Job]) -> Iterator[Done | Released]:
    """Run jobs as long as results keep coming: a batch must not wait for an item that does not end."""
    if not jobs:
        return
    left = {job.id for job in jobs}
    until = [time.monotonic() + FIRST_S]
    for result in harness.run(jobs, lambda: left if time.monotonic() > until[0] else ()):
        until[0] = time.monotonic() + NEXT_S
        left.discard(result.id)
        yield result


class Foresight:
    """The climb of one batch for one run: ``take_in``, then in rounds ``plan``, ``ask``, run, ``learn``.

    ``items`` are the submissions by position. A run that is not open, or whose budget has a limit, is not
    foreseen: its checks need a reservation first.
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
        self._endings: dict[str, Completion] = {}
        self._asked: dict[str, tuple[Claim, NewCheck]] = {}
        self._planned: list[tuple[int, Rung, NewCheck]] = []
        self._waiting: list[tuple[int, Rung, str]] = []

    def take_in(
        self, tx: Transaction, defaults: RunSpec, items: Mapping[int, TrajectorySubmission]
    ) -> None:
        """Make the rows and imagine their cases."""
        versions: Mapping[str, int] = {}
        limit = defaults.budgets.compute
        try:
            run = tx.runs.get(self._project, self._run)
        except NotFound:
            pass
        else:
            if run.state is not RunState.OPEN:
                return
            versions = run.ladder_versions
            limit = next((one.limit for one in run.accounts if one.kind == "compute"), None)
        if limit is not None:
            return
        self._secret = tx.projects.secret(self._project)
        ladders = {
            name: self._ladder(tx, versions, name) for name in {one.ladder for one in items.values()}
        }
        for position, item in items.items():
            ladder = ladders[item.ladder]
            if ladder is not None:
                self._imagine(position, item, ladder)
        stored = tx.trajectories.find(self._project, self._run, {row.id for row in self._rows.values()})
        seen = set(stored)
        for position, row in self._rows.items():
            if row.id in seen:
                del self._climbing[position]
            seen.add(row.id)

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
        self._asked, self._waiting = {}, []
        self._planned = [ask for position in tuple(self._climbing) for ask in self._plan(position)]
        return bool(self._planned)

    def ask(self, tx: Transaction) -> list[Job]:
        """What was planned, as jobs. Checks that somebody has asked for before are answered from the
        store, or end the foresight of their case."""
        keys = {check.key for _, _, check in self._planned} - self._endings.keys()
        found = tx.checks.found(self._project, keys) if keys else {}
        for position, rung, check in self._planned:
            view = found.get(check.key)
            if check.key in self._endings:
                self._attach(position, rung, self._view(check, self._endings[check.key]))
            elif view is not None:
                self._attach(position, rung, view)
            elif check.key in found:
                self._climbing.pop(position, None)
            else:
                if check.key not in self._asked:
                    self._asked[check.key] = (self._claim(check), check)
                self._waiting.append((position, rung, check.key))
        return [self._job(claim) for claim, _ in self._asked.values()]

    def learn(self, results: Iterable[Done | Released]) -> None:
        """Take the results in. What was released, or may be tried again, is left to the queue."""
        asked = {str(claim.pk): claim for claim, _ in self._asked.values()}
        for result in results:
            claim = asked[result.id.partition(".")[0]]
            end = completion_of(self._catalog, self._tariff, self._owner, claim, result)
            if end.state in (CheckState.SUCCEEDED, CheckState.FAILED):
                self._endings[claim.key] = replace(end, credits=min(end.credits, self._price(claim)))
        for position, rung, key in self._waiting:
            if key in self._endings:
                self._attach(position, rung, self._view(self._asked[key][1], self._endings[key]))
            else:
                self._climbing.pop(position, None)

    def foreseen(self) -> Foreseen:
        """What is known by now."""
        return Foreseen(rows=self._rows, endings=self._endings)

    def _plan(self, position: int) -> list[tuple[int, Rung, NewCheck]]:
        case = self._climbing[position]
        subject = subject_of(self._catalog, case)
        if subject is not None:
            case = self._climbing[position] = identified(case, subject)
        rungs = list(missing(self._catalog, case, again=False))
        if not rungs or not all(self._can_run(rung) for rung in rungs):
            del self._climbing[position]
            return []
        body = self._bodies[position]
        return [
            (position, rung, plan_check(self._catalog, case.standing, rung, body, secret=self._secret))
            for rung in rungs
        ]

    def _can_run(self, rung: Rung) -> bool:
        if unplannable(self._catalog, rung) is not None:
            return False
        info = self._catalog.verifier(rung.use.use)
        return (
            info.tier is Tier.FAST and not info.external and self._catalog.availability(info.name) is None
        )

    def _attach(self, position: int, rung: Rung, view: CheckView) -> None:
        case = self._climbing.get(position)
        if case is not None:
            self._climbing[position] = with_demand(case, rung, view)

    def _view(self, check: NewCheck, end: Completion) -> CheckView:
        ref = CheckRef(pk=0, key=check.key, state=end.state, created=True)
        return view_of(replace(check, ended=end), ref, self._run)

    def _claim(self, check: NewCheck) -> Claim:
        return Claim(
            pk=len(self._asked),
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

    def _job(self, claim: Claim) -> Job:
        return job_of(self._catalog, self._tariff, claim, self._price(claim), cut=False)

    def _price(self, claim: Claim) -> float:
        """What the ledger would have reserved: the most that the attempt may be charged."""
        return self._tariff.credits(Cost(cpu_s=self._catalog.verifier(claim.verifier).limits.time_s))
