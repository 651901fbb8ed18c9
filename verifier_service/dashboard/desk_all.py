"""All items, for leads: lists by key, and what is done with several at once. No verdict is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import ValidationError
from starlette.datastructures import FormData

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

    def work() -> BulkAnswer:
        wanted = ReassignRequest(
            reviews=tuple(_chosen(texts_of(form, "review"))),
            to=text_of(form, "to") or None,
            hours=_hours(text_of(form, "hours")),
            reason=text_of(form, "reason"),
        )
        to, hours = wanted.to, wanted.hours
        return events.reassign(act.service, act.key, wanted.reviews, to, hours, wanted.reason)

    return _done(request, act, form, work, "reassigned")


@router.post("/all/withdraw")
def withdraw(request: Request, _viewer: Leading, act: InActing, form: SentForm) -> Response:
    """Take the chosen items off the desk, unscored; refused for those that have a vote."""

    def work() -> BulkAnswer:
        chosen = _chosen(texts_of(form, "review"))
        wanted = WithdrawRequest(reviews=tuple(chosen), reason=text_of(form, "reason"))
        return events.withdraw(act.service, act.key, wanted.reviews, wanted.reason)

    return _done(request, act, form, work, "withdrawn")


def _done(
    request: Request, act: Acting, form: FormData, work: Callable[[], BulkAnswer], done: str
) -> Response:
    """The same part of the list again, with what came of it; where the form was wrong, with what was
    chosen."""
    queue, state, after = text_of(form, "queue", 64), text_of(form, "state"), text_of(form, "after", 19)
    state = state if state in STATES else ""
    place = int(after) if after.isdecimal() and after.isascii() else 0
    try:
        answer = work()
    except ValidationError as error:
        return _listed(request, act, queue, state, place, problem=_refused(error), sent=form)
    except InvalidInput as error:
        return _listed(request, act, queue, state, place, problem=error, sent=form)
    return _listed(request, act, queue, state, place, answer=answer, done=done)


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
    sent: FormData | None = None,
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
        "ticked": () if sent is None else texts_of(sent, "review"),
        "reason": "" if sent is None else text_of(sent, "reason"),
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
