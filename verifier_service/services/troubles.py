"""Checks that need an operator: found, asked again, cancelled."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from verifier_service.domain.cases import Case
from verifier_service.domain.cursors import cursor_of
from verifier_service.domain.digests import raw_digest, version_of
from verifier_service.domain.evidence import WORKED_TIERS, Tier
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.operations import (
    ActResult,
    ActStatus,
    Cited,
    FailedPage,
    FailureKind,
    StuckKind,
    StuckPage,
)
from verifier_service.domain.planning import here
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.retractions import RETRIED
from verifier_service.domain.runs import RunState
from verifier_service.domain.scoring import CHECK_CANCELLED
from verifier_service.domain.states import LIVE_DEMANDS, DemandState
from verifier_service.domain.workers import Kind, nobody_runs

CASES_PER_STEP = 512
COUNTED = 1_000
RUN_CLOSED = "run_closed"
NOT_ENDED = "not_failed"
Kinds = Mapping[tuple[Tier, Kind], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Acted:
    """What one step did: an answer per key, trajectories to be advanced and settled, and whether more of
    them are left for another step."""

    results: tuple[ActResult, ...]
    pks: tuple[int, ...] = ()
    more: bool = False


def failed(
    tx: Transaction,
    project: str,
    *,
    after: int | None,
    limit: int,
    run: str | None = None,
    kind: FailureKind | None = None,
    scored: bool = False,
) -> FailedPage:
    """Failed checks that something rests on, newest first: of open runs, or those of ``run``, that left a
    trajectory without a reward, or with ``scored`` all."""
    found = tx.troubles.failed(project, after=after, limit=limit, run=run)
    shown = [
        one
        for one in found.checks
        if (kind is None or one.failure.kind == kind)
        and (run is not None or not one.closed)
        and (scored or one.unscored > 0)
    ]
    return FailedPage(checks=tuple(shown), next=None if found.after is None else cursor_of(found.after))


def stuck(tx: Transaction, catalog: Catalog, project: str, *, after: int | None, limit: int) -> StuckPage:
    """Queued checks that no living worker will claim, with the reason."""
    reasons = _nobody_runs(tx, catalog)
    queued = tx.troubles.waiting(project, reasons.keys(), after=after, limit=limit)
    counted = {place: tx.troubles.counted(project, *place, COUNTED) for place in sorted(reasons)}
    return StuckPage(
        kinds=tuple(
            StuckKind(
                verifier=kind.verifier,
                version=version_of(kind.version),
                tier=tier,
                reason=reasons[tier, kind],
                checks=count,
            )
            for (tier, kind), count in counted.items()
            if count
        ),
        checks=tuple(
            one.check.model_copy(update={"reason": reasons[one.check.tier, one.kind]})
            for one in queued.checks
        ),
        next=None if queued.after is None else cursor_of(queued.after),
    )


def _nobody_runs(tx: Transaction, catalog: Catalog) -> Kinds:
    """What is queued for workers and no living one will claim, with the reason."""
    found: dict[tuple[Tier, Kind], str] = {}
    queued = [(tier, kind) for tier, kind in tx.checks.kinds() if tier in WORKED_TIERS]
    workers = {tier: tx.workers.listed(tier, current=False) for tier in {tier for tier, _ in queued}}
    for tier, kind in queued:
        why = nobody_runs(kind, tier, workers[tier], here(catalog, kind.verifier))
        if why is not None:
            found[tier, kind] = why
    return found


def retry(tx: Transaction, project: str, keys: Sequence[str], by: str) -> Acted:
    """Ask again for checks that failed, or that an operator cancelled, for every trajectory of an open run
    that rests on that. A new replicate is made, paid as any check; what it finds supersedes the record."""
    cited = tx.troubles.resting(project, keys, CASES_PER_STEP + 1)
    more = len(cited) > CASES_PER_STEP
    cited = cited[:CASES_PER_STEP]
    open_ = {one.run for one in cited if one.run_state is RunState.OPEN}
    open_ = {run for run in sorted(open_) if tx.runs.share(project, run).state is RunState.OPEN}
    pks = sorted({one.trajectory for one in cited if one.run in open_})
    cases = {case.standing.pk: case for case in tx.trajectories.cases(pks, lock=True)}
    again = [one for one in cited if one.trajectory in cases and _still(cases[one.trajectory], one)]
    _ask_again(tx, cases, again)
    known = tx.troubles.known(project, keys)
    results = tuple(_retried(key, known, cited, again) for key in dict.fromkeys(keys))
    _tell(tx, "retried", project, results, by)
    return Acted(
        results=results, pks=tuple(sorted({one.trajectory for one in again})), more=more and bool(again)
    )


def _still(case: Case, cited: Cited) -> bool:
    """Whether nobody was faster."""
    if case.standing.cancelled:
        return False
    now = next((demand for demand in case.demands if demand.pk == cited.demand), None)
    return now is not None and (now.state, now.reason) == (cited.demand_state, cited.reason)


def _ask_again(tx: Transaction, cases: Mapping[int, Case], again: Sequence[Cited]) -> None:
    """Withdraw the demands for a reason for which advance asks anew. A candidate that could not be
    identified is to be identified again, and all that was found about its raw text with it."""
    demands = {one.demand for one in again}
    unnamed = [cases[one.trajectory] for one in again if one.role == "identify"]
    for case in unnamed:
        about = [demand for demand in case.of_candidate() if demand.role != "identify"]
        live = [demand.pk for demand in about if demand.state in LIVE_DEMANDS]
        tx.checks.withdraw(tx.demands.withdraw(live, reason=RETRIED))
        demands |= {demand.pk for demand in about if demand.state is DemandState.SATISFIED}
    if demands:
        tx.demands.take_back(demands, reason=RETRIED)
    if unnamed:
        tx.trajectories.unidentify(dict(_raw(tx, unnamed)))


def _raw(tx: Transaction, cases: Sequence[Case]) -> Iterator[tuple[int, str]]:
    bodies = tx.trajectories.bodies([case.standing.pk for case in cases])
    for case in cases:
        source, body = case.ladder.spec.candidate, bodies[case.standing.pk]
        yield case.standing.pk, raw_digest(source.kind, candidate_of(source, body.answer, body.turns))


def _retried(key: str, known: Collection[str], cited: Sequence[Cited], again: Sequence[Cited]) -> ActResult:
    if key not in known:
        return _unknown(key)
    done = {one.trajectory for one in again if one.key == key}
    if done:
        return ActResult(id=key, status=ActStatus.DONE, trajectories=len(done))
    if any(one.key == key for one in cited):
        message = "its runs are closed: nothing is verified in them any more"
        return ActResult(id=key, status=ActStatus.CONFLICT, code=RUN_CLOSED, message=message)
    message = "nothing rests on a failure of this check: it has not failed, or was asked again already"
    return ActResult(id=key, status=ActStatus.UNCHANGED, code=NOT_ENDED, message=message)


def cancel(tx: Transaction, project: str, keys: Sequence[str], by: str) -> Acted:
    """Cancel checks that are queued, running or waiting for people, for everybody who wants them. Their
    records say so, and nobody asks for them again but a retry."""
    pks = sorted({one.check for one in tx.troubles.wanted(project, keys)})
    tx.demands.lock(pks)
    wanted = tx.troubles.wanted(project, keys)
    tx.demands.withdraw([one.demand for one in wanted], reason=CHECK_CANCELLED)
    tx.checks.withdraw(sorted({one.check for one in wanted}))
    known = tx.troubles.known(project, keys)
    results = tuple(_cancelled(key, known, wanted) for key in dict.fromkeys(keys))
    _tell(tx, "cancelled", project, results, by)
    return Acted(results=results, pks=tuple(sorted({one.trajectory for one in wanted})))


def _cancelled(key: str, known: Collection[str], wanted: Sequence[Cited]) -> ActResult:
    if key not in known:
        return _unknown(key)
    mine = {one.trajectory for one in wanted if one.key == key}
    if mine:
        return ActResult(id=key, status=ActStatus.DONE, trajectories=len(mine))
    message = "it has ended, or was cancelled already"
    return ActResult(id=key, status=ActStatus.UNCHANGED, code="not_live", message=message)


def cancel_trajectories(tx: Transaction, project: str, run: str, ids: Sequence[str]) -> Acted:
    """Cancel trajectories of a run: withdraw what is still wanted, and say so in their records. Raises
    ``NotFound`` for the run."""
    tx.runs.share(project, run)
    found = tx.trajectories.find(project, run, ids)
    results: list[ActResult] = []
    pks: list[int] = []
    for id in dict.fromkeys(ids):
        standing = found.get(id)
        if standing is None:
            message = f"run {run!r} has no trajectory {id!r}"
            results.append(
                ActResult(id=id, status=ActStatus.UNKNOWN, code="unknown_trajectory", message=message)
            )
            continue
        status = ActStatus.UNCHANGED if standing.cancelled else ActStatus.DONE
        results.append(ActResult(id=id, status=status, trajectories=int(not standing.cancelled)))
        if not standing.cancelled:
            pks.append(standing.pk)
    tx.trajectories.cases(sorted(pks), lock=True)
    for pk in sorted(pks):
        tx.trajectories.cancel(pk)
    return Acted(results=tuple(results), pks=tuple(sorted(pks)))


def _unknown(key: str) -> ActResult:
    return ActResult(id=key, status=ActStatus.UNKNOWN, code="check_not_found", message=f"no check {key!r}")


def _tell(tx: Transaction, what: str, project: str, results: Sequence[ActResult], by: str) -> None:
    for one in results:
        if one.status is ActStatus.DONE:
            tx.tell(
                f"check {what} by an operator",
                level=logging.INFO,
                project=project,
                check=one.id,
                key=by,
                trajectories=one.trajectories,
            )
