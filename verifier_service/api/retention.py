"""What happens to a run after its close: its archive as a stream, and its removal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from verifier_service.api.auth import Admin, Operator
from verifier_service.api.context import Context, InContext
from verifier_service.api.keyed_stream import KeyedStream
from verifier_service.api.paths import RunId
from verifier_service.api.problems import after_wait, documented
from verifier_service.api.threads import in_thread
from verifier_service.api.trajectories import allowed, json_answer
from verifier_service.api.waiting import attended, revoked
from verifier_service.domain.archive import Line
from verifier_service.domain.runs import Key, RunReport, RunState, Scope
from verifier_service.domain.wire import MAX_WAIT_S, WaitSpec
from verifier_service.services.archive import Export
from verifier_service.services.purge import begin_purge

router = APIRouter(prefix="/v1/runs/{run}", tags=["runs"])

MEDIA_TYPE = "application/x-ndjson"


@router.get(
    "/archive",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "One row per line: `head` first, then every kind, `end` with their counts last",
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
        },
        **documented(404, 409, 410),
    },
)
def archive(
    run: RunId,
    caller: Operator,
    context: InContext,
    references: Annotated[bool, Query(description="Whether to show the gold of problems.")] = True,
) -> StreamingResponse:
    """Everything that is stored of a closed run, as JSON lines. Scope: `operate`; references are shown only
    to keys that hold `gold` as well.

    A stream without its `end` was cut short: the server stopped, the run was purged or the key was revoked
    meanwhile.
    """
    shown = references and Scope.GOLD in caller.scopes
    with context.service.store.read() as tx:
        export = Export(tx, caller.project, run, references=shown)
    return KeyedStream(_lines(context, export), context.revoked, caller.id, media_type=MEDIA_TYPE)


@router.post(
    "/purge",
    response_model=RunReport,
    responses={202: {"model": RunReport, "description": "The run is being purged"}, **documented(404, 409)},
)
async def purge(
    run: RunId,
    request: Request,
    caller: Admin,
    context: InContext,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Seconds to wait for the end.")] = 0.0,
) -> Response:
    """Remove a closed run for good, but for evidence that other runs cite and its totals. Scope: `admin`.

    Idempotent. 200 once nothing is left, 202 while it is being removed; the id stays taken.
    """
    seconds = allowed(context, WaitSpec(seconds=wait)).seconds
    await in_thread(context.service.unit, lambda tx: begin_purge(tx, caller.project, run))
    context.service.dispatcher.announce(caller.project, run)
    report = await attended(request, _emptied(context, caller, run, seconds))
    return await json_answer(report, 1, after_wait(report.run.state is RunState.PURGED))


async def _emptied(context: Context, caller: Key, run: str, seconds: float) -> RunReport:
    """The run when it is purged, or as it is when the time is up. Raises ``Unauthenticated`` once the key
    is revoked."""
    place = caller.project, run
    report = await in_thread(_report, context, *place)
    if report.run.state is RunState.PURGED or seconds <= 0:
        return report
    lost = asyncio.create_task(context.revoked.until(caller.id))
    tasks = {lost, asyncio.create_task(context.purged.until(place))}
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if lost in done:
        raise revoked()
    return await in_thread(_report, context, *place)


def _report(context: Context, project: str, run: str) -> RunReport:
    with context.service.store.read() as tx:
        return tx.runs.report(project, run)


def _lines(context: Context, export: Export) -> Iterator[bytes]:
    """Page by page; each is read in a transaction and a thread of its own when the last was taken."""
    yield _line("head", export.head.model_dump_json().encode())
    while True:
        with context.service.store.read() as tx:
            page = export.page(tx)
        if page is None:
            break
        yield _joined(page)
    yield _line("end", export.end().model_dump_json().encode())


def _joined(lines: list[Line]) -> bytes:
    return b"".join(_line(line.kind, line.text) for line in lines)


def _line(kind: str, text: bytes) -> bytes:
    return b'{"kind":"%s","row":%s}\n' % (kind.encode(), text)
