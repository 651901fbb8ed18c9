"""The desk of one person: queues with counts, what they hold, what they decided last and may undo."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from verifier_service.dashboard.acting import InActing, SentForm, text_of
from verifier_service.dashboard.pages import redirect, render
from verifier_service.dashboard.sessions import Reviewing
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.reviews import ClaimRequest
from verifier_service.services import desk, desk_pages

router = APIRouter(prefix="/desk")

DESK = "/ui/desk"
NOTHING_FREE = "Nothing is free right now. Look again later, or choose another queue."


def item_path(review: str) -> str:
    """Where an item is worked on; ids are made by the service, of small letters and digits."""
    return f"{DESK}/items/{review}"


@router.get("")
def desk_page(
    request: Request,
    viewer: Reviewing,
    act: InActing,
    find: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Queues, own claims and own decisions."""
    with act.service.store.read() as tx:
        seen = desk_pages.overview(tx, act.project, act.login)
    loads = [load for load in seen.loads if find.casefold() in load.queue.casefold()]
    left = {item.id: desk_pages.undo_left(vote, seen.now) for item, vote in seen.decided}
    return render(
        request, "desk.html", viewer, seen=seen, loads=loads, find=find, left=left, last=seen.last
    )


@router.post("/claim")
def claim(request: Request, _viewer: Reviewing, act: InActing, form: SentForm) -> Response:
    """Take the next item, of one queue or of all, or a named one, and go there."""
    queue, review = text_of(form, "queue") or None, text_of(form, "review") or None
    try:
        wanted = ClaimRequest(reviewer=act.login, queue=queue, review=review)
    except ValueError as error:
        raise InvalidInput("bad_claim", "there is no such queue or item", field="queue") from error
    most_held = act.service.settings.review_held
    found = act.do(lambda tx: desk.claim_review(tx, act.project, wanted, most_held))
    if found is None:
        return redirect(request, DESK, NOTHING_FREE)
    return redirect(request, item_path(found.id))
