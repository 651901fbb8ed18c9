"""One item of the desk: everything to judge it by, and the form of the decision."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from verifier_service.bootstrap import desk as events
from verifier_service.dashboard import desk_form
from verifier_service.dashboard.acting import Acting, InActing, SentForm, text_of
from verifier_service.dashboard.desk import DESK, item_path
from verifier_service.dashboard.desk_view import Opened, opened, shown_page
from verifier_service.dashboard.errors import from_script, status_of
from verifier_service.dashboard.pages import redirect, render
from verifier_service.dashboard.sessions import Leading, Reviewing
from verifier_service.dashboard.turns import portion, whole
from verifier_service.domain.errors import Conflict, InvalidInput, NotFound, VerificationError
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.reviews import ClaimRequest, RetractRequest, Review, SkipRequest, Vote
from verifier_service.services import desk, desk_pages

router = APIRouter(prefix="/desk")

ReviewId = Annotated[str, Path(pattern=r"^[a-z0-9-]{1,64}$")]
MAX_REASON = 2_000
AGAIN = "You had sent this before. It is counted once."


@router.get("/items/{review}")
def item_page(request: Request, review: ReviewId, _viewer: Reviewing, act: InActing) -> Response:
    """The item as this reviewer may see it; that it was opened is noted."""
    return shown_page(request, act, opened(act, review))


@router.post("/items/{review}/decision")
def decide(
    request: Request, review: ReviewId, _viewer: Reviewing, act: InActing, form: SentForm
) -> Response:
    """Record a decision. What does not fit, or comes too late, shows the page again with all that was
    typed."""
    seen = opened(act, review)
    decision, filled = desk_form.read(form, seen.fields, act.login)
    if decision is None:
        return shown_page(request, act, seen, filled, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    grace_s = act.service.settings.review_grace_s
    try:
        done = act.do(lambda tx: desk.decide_review(tx, act.project, review, decision, grace_s))
    except InvalidInput as error:
        desk_form.refused(error, seen.fields, filled)
        return shown_page(request, act, seen, filled, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    except Conflict as error:
        return shown_page(request, act, opened(act, review), filled, problem=error, status=status_of(error))
    said = f"Your decision, {decision.verdict}, is recorded." if done.created else AGAIN
    return _gone_on(request, item_path(review), said)


@router.post("/items/{review}/renew")
def renew(request: Request, review: ReviewId, _viewer: Reviewing, act: InActing) -> Response:
    """Hold the item for longer. A script is told for how long, and the page stays as it is."""
    held = act.do(lambda tx: (desk.renew_review(tx, act.project, review, act.login), tx.now()))
    until = held[0].claimed_until
    left = 0.0 if until is None else until.timestamp() - held[1]
    said = f"The item is yours for {max(1, round(left / 60))} more minutes."
    if from_script(request):
        return JSONResponse({"left_s": left, "said": said})
    return redirect(request, item_path(review), said)


@router.post("/items/{review}/skip")
def skip(request: Request, review: ReviewId, _viewer: Reviewing, act: InActing, form: SentForm) -> Response:
    """Put the item aside: for me, for others, or back unscored."""
    wanted = _skipped(text_of(form, "for"), text_of(form, "skip-reason"), act.login)
    events.skip(act.service, act.key, review, act.login, wanted.reason, wanted.for_)
    said = {
        "me": "The item is put aside; you are not offered it again.",
        "others": "The item is kept for you for a day.",
        "back": "The item went back unscored.",
    }[wanted.for_]
    return redirect(request, DESK, said)


@router.post("/items/{review}/release")
def release(request: Request, review: ReviewId, _viewer: Reviewing, act: InActing) -> Response:
    """Give the item back, for anybody to take."""
    act.do(lambda tx: desk.release_review(tx, act.project, review, act.login))
    return redirect(request, DESK, "The item is free again.")


@router.post("/items/{review}/undo")
def undo(request: Request, review: ReviewId, _viewer: Reviewing, act: InActing) -> Response:
    """Undo a decision within its grace."""
    return _undone(request, act, review)


@router.post("/items/{review}/retract")
def retract(
    request: Request, review: ReviewId, _viewer: Leading, act: InActing, form: SentForm
) -> Response:
    """Take a decision in effect back; rewards that rest on it are superseded."""
    reason, again = text_of(form, "retract-reason"), text_of(form, "again") == "on"
    if not 0 < len(reason) <= MAX_REASON:
        raise InvalidInput("reason_needed", f"say why, in 1 to {MAX_REASON:,} characters", field="reason")
    events.take_back(act.service, act.key, review, RetractRequest(reason=reason, again=again))
    return redirect(request, item_path(review), "The decision is taken back. Rewards follow.")


@router.post("/undo")
def undo_last(request: Request, _viewer: Reviewing, act: InActing) -> Response:
    """Undo one's latest decision within its grace."""
    with act.service.store.read() as tx:
        last = desk_pages.latest(tx, act.project, act.login)
    if last is None:
        raise Conflict("too_late", "there is nothing to undo: the decision has taken effect")
    return _undone(request, act, last[0].id)


@router.get("/items/{review}/turns")
def more_turns(
    request: Request,
    review: ReviewId,
    viewer: Reviewing,
    act: InActing,
    trajectory: Annotated[int, Query(ge=0, lt=desk_pages.MAX_BEHIND)] = 0,
    after: Annotated[int, Query(ge=0, le=100_000)] = 0,
    only: Annotated[int | None, Query(ge=1, le=100_000)] = None,
) -> Response:
    """The next turns of a trajectory, or one of them with its texts in full: a part of the page."""
    seen = opened(act, review)
    if trajectory >= len(seen.context.turns):
        raise NotFound("no_such_turn", "there is no such turn")
    turns, turns_at = seen.context.turns[trajectory], f"{item_path(review)}/turns"
    if only is None:
        found = portion(trajectory, turns, after)
        return render(request, "_turns.html", viewer, portion=found, turns_at=turns_at)
    told = whole(turns, only)
    if told is None:
        raise NotFound("no_such_turn", "there is no such turn")
    return render(request, "_turn.html", viewer, turn=told, turns_at=turns_at, trajectory=trajectory)


def _undone(request: Request, act: Acting, review: str) -> Response:
    """Undo, hold the item again unless somebody else does, and show it with what had been said."""

    wanted, most_held = ClaimRequest(reviewer=act.login, review=review), act.service.settings.review_held

    def work(tx: Transaction) -> Vote | None:
        vote = desk_pages.own_vote(tx.reviews.get(act.project, review), act.login)
        desk.release_review(tx, act.project, review, act.login)
        try:
            with tx.savepoint():
                desk.claim_review(tx, act.project, wanted, most_held)
        except VerificationError:
            return vote  # free, or kept for somebody: the page says which
        return vote

    vote = act.do(work)
    seen: Opened = opened(act, review)
    filled = None if vote is None else desk_form.as_filled(vote, seen.fields)
    said = f"Your decision is undone. {_whose(seen.item, act.login)}"
    return shown_page(request, act, seen, filled, said=said)


def _whose(item: Review, login: str) -> str:
    """Who may judge an item now."""
    if item.claimed_by is not None:
        return (
            "The item is yours again." if item.claimed_by == login else "Somebody else holds the item now."
        )
    if item.assigned_to not in (None, login):
        return "The item is kept for somebody else."
    return "The item is not yours: claim it to decide again."


def _skipped(whom: str, reason: str, reviewer: str) -> SkipRequest:
    choices: dict[str, Literal["me", "others", "back"]] = {"me": "me", "others": "others", "back": "back"}
    if whom not in choices:
        raise InvalidInput("bad_choice", "choose for me, for others or send back", field="for")
    if not 0 < len(reason) <= MAX_REASON:
        raise InvalidInput("reason_needed", f"say why, in 1 to {MAX_REASON:,} characters", field="reason")
    return SkipRequest.model_validate({"reviewer": reviewer, "reason": reason, "for": choices[whom]})


def _gone_on(request: Request, path: str, said: str) -> Response:
    """Go on to a page: a script is told where, since it sees no redirect."""
    if not from_script(request):
        return redirect(request, path, said)
    response = redirect(request, path, said)
    response.status_code = int(HTTPStatus.NO_CONTENT)
    response.headers["X-Go-To"] = path
    del response.headers["Location"]
    return response
