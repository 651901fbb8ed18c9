"""Plans of operators: lists of trajectories and checks, retries, cancellations, figures of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from verifier_service.client.calls import Call, as_json, path, reading
from verifier_service.client.exchange import Plan, Session, deliver
from verifier_service.domain.listings import QueueList, RewardDistribution, RunSpending, TrajectoryPage
from verifier_service.domain.operations import MAX_AT_ONCE, ActAnswer, ActResult, FailedPage, StuckPage

Params = dict[str, str | int | float]


def trajectories(
    session: Session,
    run: str,
    *,
    after: str | None = None,
    limit: int = 100,
    status: str | None = None,
    group: str | None = None,
) -> Plan[TrajectoryPage]:
    """A page of a run's trajectories, newest first; go on with its ``next`` as ``after``. ``status``
    ``pending``: without a record yet. ``group`` is a prefix."""
    params = _params(after=after, limit=limit, status=status, group=group)
    call = Call(
        method="GET", path=path("runs", run, "trajectories"), params=params, read=reading(TrajectoryPage)
    )
    return (yield from deliver(session, call))


def distribution(session: Session, run: str) -> Plan[RewardDistribution]:
    """The histogram of a run's rewards."""
    call = Call(method="GET", path=path("runs", run, "distribution"), read=reading(RewardDistribution))
    return (yield from deliver(session, call))


def spending(session: Session, run: str) -> Plan[RunSpending]:
    """Spend against budget, and what the policy asked for over time."""
    call = Call(method="GET", path=path("runs", run, "spending"), read=reading(RunSpending))
    return (yield from deliver(session, call))


def queues(session: Session) -> Plan[QueueList]:
    """What is under way, by tier. Needs the scope ``operate``."""
    call = Call(method="GET", path=path("queues"), read=reading(QueueList))
    return (yield from deliver(session, call))


def stuck_checks(session: Session, *, after: str | None = None, limit: int = 100) -> Plan[StuckPage]:
    """Queued checks that nobody runs, and why. Needs the scope ``operate``."""
    params = _params(after=after, limit=limit)
    call = Call(method="GET", path=path("checks", "stuck"), params=params, read=reading(StuckPage))
    return (yield from deliver(session, call))


def failed_checks(
    session: Session,
    *,
    after: str | None = None,
    limit: int = 100,
    run: str | None = None,
    kind: str | None = None,
    scored: bool = False,
) -> Plan[FailedPage]:
    """Checks that failed and left a trajectory without a reward; with ``scored`` the others, too. Needs the
    scope ``operate``."""
    params = _params(after=after, limit=limit, run=run, kind=kind, scored="true" if scored else None)
    call = Call(method="GET", path=path("checks", "failed"), params=params, read=reading(FailedPage))
    return (yield from deliver(session, call))


def retry_checks(session: Session, keys: Iterable[str]) -> Plan[tuple[ActResult, ...]]:
    """Ask again for failed checks, by key: one answer each. Needs the scope ``operate``."""
    return (yield from _act(session, path("checks", "retry"), "checks", keys))


def cancel_checks(session: Session, keys: Iterable[str]) -> Plan[tuple[ActResult, ...]]:
    """Cancel checks that have not ended, by key: one answer each. Needs the scope ``operate``."""
    return (yield from _act(session, path("checks", "cancel"), "checks", keys))


def cancel_trajectories(session: Session, run: str, ids: Iterable[str]) -> Plan[tuple[ActResult, ...]]:
    """Cancel trajectories of a run: one answer each. Needs the scope ``operate``."""
    return (yield from _act(session, path("runs", run, "trajectories", "cancel"), "ids", ids))


def _act(session: Session, where: str, name: str, ids: Iterable[str]) -> Plan[tuple[ActResult, ...]]:
    results: list[ActResult] = []
    for part in _parts(list(dict.fromkeys(ids))):
        call = Call(method="POST", path=where, body=as_json({name: part}), read=reading(ActAnswer))
        results += (yield from deliver(session, call)).results
    return tuple(results)


def _parts(ids: list[str]) -> Iterator[list[str]]:
    for at in range(0, len(ids), MAX_AT_ONCE):
        yield ids[at : at + MAX_AT_ONCE]


def _params(**given: str | int | None) -> Params:
    return {name: value for name, value in given.items() if value is not None}
