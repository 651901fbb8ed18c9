"""What became of events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from verifier_service.api.auth import Reader
from verifier_service.api.context import InContext
from verifier_service.api.problems import documented
from verifier_service.domain.forecasts import EventId
from verifier_service.domain.settlements import SettlementList

router = APIRouter(prefix="/v1", tags=["markets"])

MAX_LISTED = 1_000
MAX_SEQ = 2**63 - 1


@router.get("/settlements", responses=documented())
def list_settlements(
    caller: Reader,
    context: InContext,
    after: Annotated[int, Query(ge=0, le=MAX_SEQ, description="The cursor of the page before.")] = 0,
    event: Annotated[EventId | None, Query(description="Only what became of this event.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 200,
) -> SettlementList:
    """Every version of what became of the project's events, in the order in which they were stored: actual
    or void, by which source, when. Scope: `read`."""
    with context.service.store.read() as tx:
        found = tx.settlements.listed(caller.project, after=after, event=event, limit=limit)
    return SettlementList(settlements=tuple(found), next=found[-1].seq if found else after)
