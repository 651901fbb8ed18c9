"""What the desk shows of itself: the trail, and how far its reviewers agree."""

from __future__ import annotations

from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.review_trail import TrailPage, as_csv
from verifier_service.domain.reviewer_error import Agreement, agreement_of

MOST_ITEMS = 10_000


def agreement(tx: Transaction, project: str, queue: str, limit: int = MOST_ITEMS) -> Agreement:
    """How far the reviewers of a queue agree, and how often each is wrong, from its latest ``limit`` items
    that took effect. And how many gold items each was given: whoever claims by name only is given none."""
    return agreement_of(queue, tx.reviews.judged(project, queue, limit), tx.gold.seen(project, queue))


def trail(
    tx: Transaction,
    project: str,
    *,
    after: int = 0,
    limit: int = 1_000,
    queue: str | None = None,
    review: str | None = None,
    actor: str | None = None,
) -> TrailPage:
    """A page of what people did, oldest first."""
    found = tx.trail.page(project, after=after, limit=limit + 1, queue=queue, review=review, actor=actor)
    events = tuple(found[:limit])
    return TrailPage(events=events, cursor=events[-1].seq if events else after, more=len(found) > limit)


def trail_back(
    tx: Transaction,
    project: str,
    *,
    before: int,
    limit: int,
    queue: str | None = None,
    review: str | None = None,
    actor: str | None = None,
) -> TrailPage:
    """A page of what people did, latest first; ``cursor`` is where earlier acts go on."""
    found = tx.trail.page(
        project, after=0, before=before, limit=limit + 1, queue=queue, review=review, actor=actor
    )
    events = tuple(found[:limit])
    return TrailPage(events=events, cursor=events[-1].seq if events else before, more=len(found) > limit)


def trail_csv(page: TrailPage) -> str:
    """The page as CSV that no spreadsheet runs."""
    return as_csv(page.events)
