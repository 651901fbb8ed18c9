"""What operators do, many items at a time: each chunk is one transaction with all that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from verifier_service.bootstrap.steps import Step
from verifier_service.bootstrap.units import Service
from verifier_service.domain.errors import Conflict, NotFound
from verifier_service.domain.operations import ActAnswer, ActResult, ActStatus
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.webhooks import Replayed, ReplayRequest
from verifier_service.services import troubles, webhooks
from verifier_service.services.troubles import Acted

CHUNK = 100
REPLAY_STEPS = 10

Act = Callable[[Transaction, Sequence[str]], Acted]


def retry_checks(service: Service, project: str, keys: Sequence[str], by: str) -> ActAnswer:
    """Ask again for failed checks; ``by`` names who wants it in the log. Idempotent."""
    return _all(service, keys, lambda tx, chunk: troubles.retry(tx, project, chunk, by))


def cancel_checks(service: Service, project: str, keys: Sequence[str], by: str) -> ActAnswer:
    """Cancel live checks. Idempotent."""
    return _all(service, keys, lambda tx, chunk: troubles.cancel(tx, project, chunk, by))


def cancel_trajectories(service: Service, project: str, run: str, ids: Sequence[str]) -> ActAnswer:
    """Cancel trajectories of a run. Idempotent. Raises ``NotFound`` for the run."""
    return _all(service, ids, lambda tx, chunk: troubles.cancel_trajectories(tx, project, run, chunk))


def replay(service: Service, project: str, webhook: str, wanted: ReplayRequest) -> Replayed:
    """Send records of a run again, in several transactions; not ``complete`` where there are very many.
    Raises ``NotFound``, and ``InvalidInput`` for a run that the endpoint is not told of."""
    replayed = 0
    for _ in range(REPLAY_STEPS):
        step = partial(_replay_step, project, webhook, wanted)
        done = service.unit(step)
        replayed += done.replayed
        if done.complete:
            break
        wanted = wanted.model_copy(update={"after": done.cursor})
    return done.model_copy(update={"replayed": replayed})


def _replay_step(project: str, webhook: str, wanted: ReplayRequest, tx: Transaction) -> Replayed:
    return webhooks.replay(tx, project, webhook, wanted)


def only(answer: ActAnswer) -> ActResult:
    """The one result of a request about one item. Raises ``NotFound`` or ``Conflict`` where it says so."""
    [result] = answer.results
    code, message = result.code or "", result.message or ""
    if result.status is ActStatus.UNKNOWN:
        raise NotFound(code, message)
    if result.status is ActStatus.CONFLICT:
        raise Conflict(code, message)
    return result


def _all(service: Service, ids: Sequence[str], act: Act) -> ActAnswer:
    distinct = list(dict.fromkeys(ids))
    results: list[ActResult] = []
    for at in range(0, len(distinct), CHUNK):
        results += _chunk(service, distinct[at : at + CHUNK], act)
    return ActAnswer(results=tuple(results))


def _chunk(service: Service, ids: Sequence[str], act: Act) -> list[ActResult]:
    """One chunk, in several steps where very many trajectories are concerned."""
    merged: dict[str, ActResult] = {}
    more = True
    while more:
        acted = service.event(partial(_step, ids, act))
        for one in acted.results:
            merged[one.id] = _sum(merged.get(one.id), one)
        more = acted.more
    return [merged[id] for id in ids]


def _step(ids: Sequence[str], act: Act, tx: Transaction) -> Step[Acted]:
    acted = act(tx, ids)
    return Step(acted, acted.pks)


def _sum(before: ActResult | None, now: ActResult) -> ActResult:
    if before is None or before.status is not ActStatus.DONE:
        return now
    if now.status is not ActStatus.DONE:
        return before
    return before.model_copy(update={"trajectories": before.trajectories + now.trajectories})
