"""Queues of the desk: instructions, form and rules, in versions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from verifier_service.api.auth import DeskAdmin, Reviewer
from verifier_service.api.bodies import body_of, described
from verifier_service.api.context import InContext
from verifier_service.api.paths import QueuePath
from verifier_service.api.problems import after_put, documented
from verifier_service.api.reviews import acting
from verifier_service.domain.errors import InvalidInput, NotFound
from verifier_service.domain.review_queues import Queue, QueueList, QueueSpec, QueueStored
from verifier_service.services.queues import put_queue

router = APIRouter(prefix="/v1/review-queues", tags=["reviews"])


@router.put(
    "/{name}",
    responses={201: {"model": QueueStored, "description": "A new version"}, **documented()},
    openapi_extra=described(QueueSpec),
)
def put(
    name: QueuePath,
    caller: DeskAdmin,
    spec: Annotated[QueueSpec, Depends(body_of(QueueSpec))],
    response: Response,
    context: InContext,
) -> QueueStored:
    """Store a queue; a changed one is a new version, the same content the same version. Scope: `admin`.

    Items keep the version they were made with. 201 for a new version, 200 for the same again.
    """
    if spec.name != name:
        raise InvalidInput("name_mismatch", f"the queue is called {spec.name!r}", field="name")
    queue, created = acting(context, caller, lambda tx: put_queue(tx, caller.project, spec, caller.acts_as))
    response.status_code = after_put(created)
    return QueueStored(queue=queue, created=created)


@router.get("", responses=documented())
def list_queues(caller: Reviewer, context: InContext) -> QueueList:
    """The latest version of every declared queue, by name. Scope: `review`."""
    with context.service.store.read() as tx:
        return QueueList(queues=tuple(tx.queues.of_project(caller.project)))


@router.get("/{name}", responses=documented(404))
def get_queue(
    name: QueuePath,
    caller: Reviewer,
    context: InContext,
    version: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
) -> Queue:
    """One version of a queue, the latest when none is named. Scope: `review`."""
    with context.service.store.read() as tx:
        if version is not None:
            return tx.queues.version(caller.project, name, version)
        found = tx.queues.latest(caller.project, name)
    if found.version == 0:
        raise NotFound("queue_not_found", f"no queue {name!r} was declared")
    return found
