"""An item with all that its page shows."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request, Response

from verifier_service.dashboard import desk_form
from verifier_service.dashboard.acting import Acting
from verifier_service.dashboard.candidates import shown
from verifier_service.dashboard.case_view import prompt_of
from verifier_service.dashboard.drawings import drawing_of
from verifier_service.dashboard.pages import render
from verifier_service.dashboard.series_plots import Measured, intervals
from verifier_service.dashboard.turns import portion
from verifier_service.domain.errors import VerificationError
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.reviews import Review, ReviewState, Vote
from verifier_service.services import desk, desk_pages

PENDING = (ReviewState.OPEN, ReviewState.CLAIMED)
WORDS = {
    ReviewState.DECIDED: "The item is decided.",
    ReviewState.EFFECTIVE: "The decision is in effect.",
    ReviewState.EXPIRED: "The deadline has passed: the item takes no decision any more.",
    ReviewState.CANCELLED: "The item was taken off the desk.",
}
CLAIM_LOST = ("claim_expired", "not_opened", "review_claimed")


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """An item as one reviewer may see it, with what belongs to it. ``last``: what can be undone."""

    item: Review
    context: desk_pages.Context
    fields: desk_form.Layout
    vote: Vote | None
    last: tuple[Review, Vote] | None

    @property
    def held_s(self) -> float:
        """For how many seconds the claim holds; 0 where there is none."""
        until = self.item.claimed_until
        return 0.0 if until is None else max(0.0, until.timestamp() - self.context.now)

    @property
    def undo_s(self) -> float:
        """For how many seconds one's vote can be undone."""
        return 0.0 if self.vote is None else desk_pages.undo_left(self.vote, self.context.now)


def opened(act: Acting, review: str) -> Opened:
    """Look at an item, and note that it was looked at. Raises ``NotFound``."""

    def work(tx: Transaction) -> Opened:
        item = desk.open_item(tx, act.project, review, act.login)
        context = desk_pages.context(tx, act.project, item)
        return Opened(
            item=item,
            context=context,
            fields=desk_form.layout(context.queue, context.quantity),
            vote=desk_pages.own_vote(item, act.login),
            last=desk_pages.latest(tx, act.project, act.login),
        )

    return act.do(work)


def shown_page(
    request: Request,
    act: Acting,
    seen: Opened,
    filled: desk_form.Filled | None = None,
    *,
    problem: VerificationError | None = None,
    said: str | None = None,
    status: int = 200,
) -> Response:
    """The page of an item, with a form as far as it takes a decision."""
    item = seen.item
    candidate = shown(item.candidate, seen.context.candidate, item.evidence)
    pending = item.state in PENDING and seen.vote is None
    mine = item.state is ReviewState.CLAIMED and item.claimed_by == act.login
    return render(
        request,
        "desk_item.html",
        act.viewer,
        status=status,
        item=item,
        seen=seen,
        fields=seen.fields,
        filled=filled or desk_form.empty(seen.fields),
        candidate=candidate,
        drawing=drawing_of(candidate.text) if candidate.kind == "molecule" else None,
        prompt=prompt_of(item.prompt),
        measured=_measured(item),
        portions=[portion(at, turns) for at, turns in enumerate(seen.context.turns)],
        pending=pending,
        mine=mine,
        problem=problem,
        lost=problem is not None and problem.code in CLAIM_LOST,
        state_words=WORDS.get(item.state, ""),
        labels=list(desk_form.labels(seen.fields).items()),
        kept="" if filled is None else desk_form.as_text(filled, seen.fields),
        retractable=item.state is ReviewState.EFFECTIVE and not item.gold and not item.retracted,
        said=said,
        last=None if seen.vote is not None else seen.last,
    )


def _measured(item: Review) -> list[Measured]:
    return intervals(item.evidence)
