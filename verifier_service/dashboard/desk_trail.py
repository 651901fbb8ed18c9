"""The trail of the desk, for leads: what everybody did, latest first, and the same as a file."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from verifier_service.dashboard.acting import InActing
from verifier_service.dashboard.pages import render
from verifier_service.dashboard.sessions import InService, Leading
from verifier_service.domain.review_trail import TrailPage
from verifier_service.services.desk_quality import trail_back, trail_csv

router = APIRouter(prefix="/desk/trail")

LATEST = 2**62
LINES, FILE_LINES = 100, 10_000


class Filter:
    """Which acts: of a person, of an item, of a queue, earlier than a place."""

    def __init__(
        self,
        actor: Annotated[str, Query(max_length=300)] = "",
        review: Annotated[str, Query(max_length=64)] = "",
        queue: Annotated[str, Query(max_length=64)] = "",
        before: Annotated[int, Query(ge=1, le=LATEST)] = LATEST,
    ) -> None:
        self.actor, self.review, self.queue, self.before = actor.strip(), review.strip(), queue, before


Filtered = Annotated[Filter, Depends()]


@router.get("")
def trail_page(
    request: Request, _viewer: Leading, act: InActing, service: InService, chosen: Filtered
) -> Response:
    """A page of acts, with links to earlier ones and to the file."""
    page = _read(service, act.project, chosen, LINES)
    first = chosen.before == LATEST
    return render(request, "desk_trail.html", act.viewer, page=page, chosen=chosen, first=first)


@router.get("/file")
def trail_file(act: InActing, _viewer: Leading, service: InService, chosen: Filtered) -> Response:
    """The latest 10,000 of these acts as CSV that no spreadsheet runs."""
    page = _read(service, act.project, chosen, FILE_LINES)
    headers = {"Content-Disposition": 'attachment; filename="trail.csv"'}
    return Response(trail_csv(page), media_type="text/csv; charset=utf-8", headers=headers)


def _read(service: InService, project: str, chosen: Filter, limit: int) -> TrailPage:
    with service.store.read() as tx:
        return trail_back(
            tx,
            project,
            before=chosen.before,
            limit=limit,
            queue=chosen.queue or None,
            review=chosen.review or None,
            actor=chosen.actor or None,
        )
