"""The desk: items that wait for people, their claims and votes."""

from __future__ import annotations

import secrets
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, delete, insert, literal, select, tuple_, update

from verifier_service.domain.errors import Conflict
from verifier_service.domain.ports.reviews import Frame, InHand, Offer
from verifier_service.domain.review_queues import CLAIM_HOURS, CLAIM_MINUTES
from verifier_service.domain.review_trail import SERVICE, Act
from verifier_service.domain.review_votes import tally
from verifier_service.domain.reviews import Review, ReviewDecision, ReviewState
from verifier_service.persistence import review_tables, tables
from verifier_service.persistence.database import clock, sql
from verifier_service.persistence.desk_items import (
    ITEMS,
    KEPT,
    claimed_now,
    places,
    require_free,
    require_held,
    same_decision,
)
from verifier_service.persistence.desk_lead import Leading
from verifier_service.persistence.desk_rows import held_by, kept_for, open_to
from verifier_service.persistence.documents import dumped
from verifier_service.persistence.gold import ID_BYTES

_reviews, _votes, _skips = review_tables.reviews, review_tables.votes, review_tables.review_skips
_turns, _checks = review_tables.review_turns, tables.checks
_OPEN, _DECIDED = ReviewState.OPEN.value, ReviewState.DECIDED.value
KEPT_HOURS = 24.0
MOST_IN_HAND = 2_000
_ORDER = (_reviews.c.lane, _reviews.c.precedence, _reviews.c.pk)
_AGE = (_reviews.c.created_at, _reviews.c.id)
_OF_ALL = ""  # the row of a reviewer's turns that stands for all queues


class SqlReviews(Leading):
    """See ``ports.reviews.Reviews``."""

    def through(self, key: str) -> None:
        self._trail.key = key

    def open(
        self,
        project: str,
        check: int,
        *,
        queue: str,
        approvals: int,
        deadline: float | None,
        shown: str,
        queue_version: int = 0,
        blind: bool = False,
        minutes: float | None = None,
        escalate_after_s: float | None = None,
        typical_s: float = 0.0,
        second_price: float = 0.0,
    ) -> str:
        """Idempotent while the check's item is pending; a check that is sent again gets a new one."""
        value = select(_checks.c.precedence).where(_checks.c.pk == check).scalar_subquery()
        values = {
            "id": secrets.token_hex(ID_BYTES),
            "project": project,
            "check_pk": check,
            "queue": queue,
            "state": _OPEN,
            "approvals": approvals,
            "deadline": deadline,
            "shown": shown,
            "queue_version": queue_version,
            "blind": blind,
            "minutes": minutes,
            "precedence": value,
            "escalate_at": None if escalate_after_s is None else clock() + escalate_after_s,
            "typical_s": typical_s,
            "second_price": second_price,
            "created_at": clock(),
        }
        made = self._db.insert_new(_reviews).values(values).returning(_reviews.c.id)
        row = self._db.first(made)
        if row is not None:
            self._trail.note(project, Act.MADE, SERVICE, queue=queue, review=row.id)
            return str(row.id)
        pending = select(_reviews.c.id).where(_reviews.c.check_pk == check, sql(review_tables.PENDING))
        return str(self._db.connection.execute(pending).scalar_one())

    def frame(self, project: str, review: str) -> Frame:
        row = self._row(project, review)
        return Frame(ReviewState(row.state), row.queue, row.queue_version, row.check_pk)

    def check_of(self, project: str, review: str) -> int | None:
        pk: int | None = self._row(project, review).check_pk
        return pk

    def opened(self, project: str, review: str, reviewer: str) -> None:
        row = self._row(project, review)
        if not self._trail.has_opened(review, reviewer):
            self._note(row, Act.OPENED, reviewer)

    def listed(
        self,
        project: str,
        *,
        queue: str | None,
        state: str | None,
        limit: int,
        assigned_to: str | None = None,
        after: str | None = None,
    ) -> list[Review]:
        only: list[ColumnElement[bool]] = []
        if assigned_to is not None:
            only.append(kept_for(assigned_to))
        if after is not None:
            last = self._row(project, after)
            only.append(tuple_(*_AGE) > tuple_(literal(last.created_at), literal(last.id)))
        chosen = places(project, queue, state, limit, *only, by=_AGE).subquery()
        found = ITEMS.join(chosen, chosen.c.pk == _reviews.c.pk)
        return self._read_all(self._db.all(found.order_by(*_AGE)))

    def next(self, project: str, *, reviewer: str, queue: str | None) -> Offer | None:
        row = self._offered(project, reviewer, queue)
        if row is None:
            return None
        return Offer(row.id, row.queue, row.queue_version, assigned=row.assigned_to == reviewer)

    def claim(
        self,
        project: str,
        *,
        reviewer: str,
        queue: str | None,
        review: str | None,
        minutes: float | None,
        offered: bool = False,
    ) -> Review | None:
        """Claiming an item that the reviewer already holds renews the claim."""
        if review is None:
            row = self._offered(project, reviewer, queue)
            if row is None:
                return None
        elif offered:
            row = self._row(project, review)
        else:
            row = self._row(project, review, lock=True)
            require_free(row, reviewer)
            if self._vote(row.pk, reviewer) is not None:
                raise Conflict("already_voted", f"{reviewer!r} has decided on review {review!r}")
            self._require_not_own(row, reviewer)
        held = claimed_now(row) and row.claimed_by == reviewer
        if row.claimed_by not in (None, reviewer):
            self._note(row, Act.LAPSED, row.claimed_by)
        self._hold(row, reviewer, minutes, since=row.claimed_at if held else None)
        self._note(row, Act.RENEWED if held else Act.CLAIMED, reviewer)
        return self.get(project, row.id)

    def in_hand(self, project: str, reviewer: str) -> InHand:
        who = {"project": project, "queue": _OF_ALL, "reviewer": reviewer}
        self._db.run(self._db.insert_new(_turns).values(**who, taken=0))
        this = select(_turns.c.taken).where(*(_turns.c[name] == value for name, value in who.items()))
        self._db.all(self._db.locked(this))
        held = select(_reviews.c.id).where(*held_by(project, reviewer))
        kept = select(_reviews.c.id).where(
            _reviews.c.project == project, sql(f"reviews.{review_tables.ASSIGNED}"), kept_for(reviewer)
        )
        found = (self._db.all(one.limit(MOST_IN_HAND)) for one in (held, kept))
        return InHand(*(frozenset(row.id for row in rows) for rows in found))

    def known(self, project: str, reviewer: str) -> bool:
        claimed = select(_turns.c.taken).where(
            _turns.c.project == project, _turns.c.queue == _OF_ALL, _turns.c.reviewer == reviewer
        )
        voted = (
            select(_votes.c.review)
            .join(_reviews, _reviews.c.pk == _votes.c.review)
            .where(_votes.c.reviewer == reviewer, _reviews.c.project == project)
        )
        return any(self._db.first(one.limit(1)) is not None for one in (claimed, voted))

    def renew(self, project: str, review: str, reviewer: str, minutes: float | None) -> Review:
        row = self._held(project, review, reviewer)
        self._hold(row, reviewer, minutes, since=row.claimed_at)
        self._note(row, Act.RENEWED, reviewer)
        return self.get(project, review)

    def decide(
        self, project: str, review: str, decision: ReviewDecision, grace_s: float
    ) -> tuple[Review, bool]:
        row, reviewer = self._row(project, review, lock=True), decision.reviewer
        vote = self._vote(row.pk, reviewer)
        if vote is not None:
            if same_decision(vote.decision, decision):
                return self._read(row), False
            raise Conflict("already_decided", f"{reviewer!r} has decided otherwise")
        self._require_not_own(row, reviewer)
        require_held(row, reviewer, self._trail.has_opened)
        values = {
            "review": row.pk,
            "reviewer": reviewer,
            "verdict": decision.verdict,
            "decision": dumped(decision),
            "human_s": self._seconds(row, decision),
            "decided_at": row.now,
            "effective_at": row.now + grace_s,
        }
        self._db.run(insert(_votes).values(values))
        said = decision.model_dump(mode="json", exclude={"reviewer"}, exclude_defaults=True)
        self._note(row, Act.VOTED, reviewer, {"verdict": decision.verdict, **said})
        self._recount(row, reviewer, effective_at=row.now + grace_s)
        return self.get(project, review), True

    def _seconds(self, row: Row[Any], decision: ReviewDecision) -> float:
        """What a vote says it took, but not longer than since its author first saw the item or, for work
        done elsewhere, than one claim lasts."""
        seen_at = self._trail.first_seen(row.id, decision.reviewer)
        seen = 0.0 if seen_at is None else row.now - seen_at
        return min(decision.human_s or 0.0, max(seen, (row.minutes or CLAIM_MINUTES) * 60.0))

    def release(self, project: str, review: str, reviewer: str) -> Review:
        row = self._row(project, review, lock=True)
        if row.state == _OPEN and claimed_now(row) and row.claimed_by == reviewer:
            self._free(row)
            self._note(row, Act.RELEASED, reviewer)
            return self.get(project, review)
        vote = self._vote(row.pk, reviewer)
        if vote is None or row.state not in (_OPEN, _DECIDED) or vote.effective_at <= row.now:
            raise Conflict("nothing_to_release", f"{reviewer!r} has nothing to release on {review!r}")
        this = (_votes.c.review == row.pk, _votes.c.reviewer == reviewer)
        self._db.run(delete(_votes).where(*this))
        self._note(row, Act.UNDONE, reviewer, {"verdict": vote.verdict})
        self._recount(row, reviewer, effective_at=row.effective_at)
        return self.get(project, review)

    def skip(self, project: str, review: str, reviewer: str, reason: str, whom: str) -> Review:
        row = self._held(project, review, reviewer)
        if whom == "me":
            self._db.run(self._db.insert_new(_skips).values(review=row.pk, reviewer=reviewer))
        self._free(row)
        kept = update(_reviews).where(_reviews.c.pk == row.pk)
        until = clock() + KEPT_HOURS * 3600.0 if whom == "others" else None
        self._db.run(kept.values(assigned_to=reviewer if until is not None else None, assigned_until=until))
        self._note(row, Act.SKIPPED, reviewer, {"for": whom, "reason": reason})
        return self.get(project, review)

    def _held(self, project: str, review: str, reviewer: str) -> Row[Any]:
        """The item, locked. Raises ``Conflict`` unless the reviewer's claim holds."""
        row = self._row(project, review, lock=True)
        require_held(row, reviewer, self._trail.has_opened)
        return row

    def _hold(self, row: Row[Any], reviewer: str, minutes: float | None, *, since: float | None) -> None:
        """From now, for at most as long as the queue says, and no longer than a day from the claim."""
        most = row.minutes or CLAIM_MINUTES
        lasts = most if minutes is None else min(minutes, most)
        began = row.now if since is None else since
        until = min(row.now + lasts * 60.0, began + CLAIM_HOURS * 3600.0)
        held = update(_reviews).where(_reviews.c.pk == row.pk)
        self._db.run(held.values(claimed_by=reviewer, claimed_until=until, claimed_at=began))

    def _free(self, row: Row[Any]) -> None:
        freed = update(_reviews).where(_reviews.c.pk == row.pk)
        self._db.run(freed.values(claimed_by=None, claimed_until=None))

    def _offered(self, project: str, reviewer: str, queue: str | None) -> Row[Any] | None:
        """The best free item; items that others are claiming right now are skipped. An instance of a gold
        item goes before what is of the same value, as when it was dealt."""
        found = ITEMS.where(_reviews.c.project == project, open_to(reviewer))
        if queue is not None:
            found = found.where(_reviews.c.queue == queue)
        mine = self._best(found.where(sql(f"reviews.{review_tables.ASSIGNED}"), kept_for(reviewer)))
        if mine is not None:
            return mine
        dealt = found.where(sql(f"reviews.{review_tables.DEALT}"), _reviews.c.dealt_to == reviewer, ~KEPT)
        others = found.where(_reviews.c.dealt_to.is_(None), ~KEPT)
        best = [row for row in (self._best(dealt), self._best(others)) if row is not None]
        return min(best, key=lambda row: (row.lane, row.precedence), default=None)

    def _best(self, choice: Select[Any]) -> Row[Any] | None:
        best = choice.order_by(*_ORDER).limit(1)
        return self._db.first(self._db.locked(best, of=_reviews, skip=True))

    def _recount(self, row: Row[Any], reviewer: str, *, effective_at: float | None) -> None:
        """Judge the votes with the item locked, so that simultaneous ones are all seen. The claim of
        whoever voted or took a vote back ends; another's goes on."""
        votes = self._db.all(_votes_of(row.pk))
        needed = row.approvals if row.gold is None else 1
        now = tally([vote.verdict for vote in votes], needed)
        if now.state == "disputed" and not row.disputed:
            self._note(row, Act.DISPUTED, SERVICE)
        judged = update(_reviews).where(_reviews.c.pk == row.pk)
        if row.assigned_to in {vote.reviewer for vote in votes}:
            judged = judged.values(assigned_to=None, assigned_until=None)
        if row.claimed_by == reviewer:
            judged = judged.values(claimed_by=None, claimed_until=None)
        self._db.run(
            judged.values(
                state=_DECIDED if now.state == "decided" else _OPEN,
                disputed=now.state == "disputed",
                effective_at=effective_at if now.state == "decided" else None,
            )
        )


def _votes_of(review: int) -> Any:
    found = select(_votes).where(_votes.c.review == review)
    return found.order_by(_votes.c.decided_at, _votes.c.reviewer)
