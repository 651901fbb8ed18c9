"""All items, for leads: lists by key, and what is done with several at once. No verdict is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import ValidationError

from verifier_service.bootstrap import desk as events
from verifier_service.dashboard.acting import Acting, InActing, SentForm, text_of, texts_of
from verifier_service.dashboard.errors import status_of
from verifier_service.dashboard.pages import render
from verifier_service.dashboard.sessions import Leading
from verifier_service.domain.accounts import Right, Viewer
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.reviews import BulkAnswer, ReassignRequest, WithdrawRequest
from verifier_service.services import desk_pages

router = APIRouter(prefix="/desk")

PAGE = 50
DEFAULT_HOURS = 72.0
STATES = ("open", "claimed", "disputed", "decided", "effective", "expired", "cancelled")
State = Literal["open", "claimed", "disputed", "decided", "effective", "expired", "cancelled", ""]


@router.get("/all")
def all_items(
    request: Request,
    _viewer: Leading,
    act: InActing,
    queue: Annotated[str, Query(max_length=64)] = "",
    state: Annotated[State, Query()] = "open",
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
) -> Response:
    """Items oldest first, a page at a time."""
    return _listed(request, act, queue, state, after)


@router.post("/all/reassign")
def reassign(request: Request, _viewer: Leading, act: InActing, form: SentForm) -> Response:
    """Keep the chosen items for one person, or for nobody. Each by itself: the page says which were not."""
    try:
        wanted = ReassignRequest(
            reviews=tuple(_chosen(texts_of(form, "review"))),
            to=text_of(form, "to") or None,
            hours=_hours(text_of(form, "hours")),
            reason=text_of(form, "reason"),
        )
    except ValidationError as error:
        return _listed(request, act, "", "open", 0, problem=_refused(error))
    except InvalidInput as error:
        return _listed(request, act, "", "open", 0, problem=error)
    answer = events.reassign(act.service, act.key, wanted.reviews, wanted.to, wanted.hours, wanted.reason)
    return _listed(request, act, "", "open", 0, answer=answer, done="reassigned")


@router.post("/all/withdraw")
def withdraw(request: Request, _viewer: Leading, act: InActing, form: SentForm) -> Response:
    """Take the chosen items off the desk, unscored; refused for those that have a vote."""
    try:
        chosen = _chosen(texts_of(form, "review"))
        wanted = WithdrawRequest(reviews=tuple(chosen), reason=text_of(form, "reason"))
    except ValidationError as error:
        return _listed(request, act, "", "open", 0, problem=_refused(error))
    except InvalidInput as error:
        return _listed(request, act, "", "open", 0, problem=error)
    answer = events.withdraw(act.service, act.key, wanted.reviews, wanted.reason)
    return _listed(request, act, "", "open", 0, answer=answer, done="withdrawn")


def _listed(
    request: Request,
    act: Acting,
    queue: str,
    state: str,
    after: int,
    *,
    answer: BulkAnswer | None = None,
    done: str = "",
    problem: InvalidInput | None = None,
) -> Response:
    with act.service.store.read() as tx:
        found, more = desk_pages.page(
            tx, act.project, queue=queue or None, state=state or None, after=after, limit=PAGE
        )
        queues = desk_pages.queue_names(tx, act.project)
        people = [
            user
            for user in tx.users.of_project(act.project)
            if user.disabled_at is None and Viewer.of(user).may(Right.REVIEW)
        ]
    values: dict[str, Any] = {
        "items": [one.review for one in found],
        "following": found[-1].place if found and more else None,
        "queues": sorted({*queues, *([queue] if queue else [])}),
        "people": people,
        "queue": queue,
        "state": state,
        "every_state": STATES,
        "after": after,
        "answer": answer,
        "done": done,
        "problem": problem,
        "hours": DEFAULT_HOURS,
    }
    status = 200 if problem is None else status_of(problem)
    return render(request, "desk_all.html", act.viewer, status=status, **values)


def _chosen(reviews: list[str]) -> list[str]:
    if not reviews:
        raise InvalidInput("nothing_chosen", "choose at least one item", field="review")
    return reviews


def _hours(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidInput(
            "bad_hours", "for how many hours: a number from 1 to 720", field="hours"
        ) from error


def _refused(error: ValidationError) -> InvalidInput:
    name = str(error.errors(include_url=False)[0]["loc"][0])
    words = {
        "reason": "say why, in 1 to 2,000 characters",
        "hours": "for how many hours: a number from 1 to 720",
        "to": "choose one of the people",
        "reviews": "choose 1 to 1,000 items",
    }
    return InvalidInput("bad_form", words.get(name, "the form cannot be read"), field=name)
