"""The desk: hand checks to people, and bring their decisions back."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from verifier_service.domain.cases import Body, Case
from verifier_service.domain.checks import Claim
from verifier_service.domain.digests import canonical_json
from verifier_service.domain.errors import Conflict, VerificationError
from verifier_service.domain.evidence import (
    Cost,
    Evidence,
    Failure,
    Provenance,
    Reason,
    Tier,
    Verdict,
)
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.gold import choose, is_gold_turn
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.policy import Tariff
from verifier_service.domain.ports.reviews import Offer
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.review_queues import MOST_HELD, queue_of, require_fit, require_unit
from verifier_service.domain.review_votes import tally
from verifier_service.domain.reviewer_error import COUNTED, Noise, doubt_of, grades, noise_of, with_noise
from verifier_service.domain.reviews import (
    ClaimRequest,
    Review,
    ReviewDecision,
    ReviewState,
    Vote,
    shown_to,
)
from verifier_service.domain.scoring import DEADLINE
from verifier_service.domain.states import CheckState

log = logging.getLogger(__name__)

NOT_JUDGEABLE = "not_judgeable"
Whom = Literal["me", "others", "back"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """The item after it was put aside, and the trajectories whose check ended with it."""

    review: Review
    touched: list[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """The item after the vote, and whether the vote is new."""

    review: Review
    created: bool


def open_review(tx: Transaction, catalog: Catalog, tariff: Tariff, owner: str, claim: Claim) -> bool:
    """Put a claimed external check on the desk, with all that its case knows, references excepted."""
    if not tx.checks.wait_external(owner, claim.pk, claim.fence):
        return False
    wanting = tx.demands.wanting(claim.pk)
    pks = sorted({trajectory for _, trajectory, _ in wanting})
    cases = tx.trajectories.cases(pks[:1])
    shown: dict[str, object] = {}
    if cases:
        body = tx.trajectories.bodies(pks[:1])[pks[0]]
        shown = _shown(cases[0], body)
    queue = tx.queues.latest(claim.project, queue_of(claim.params))
    approvals = claim.params.get("approvals")
    tx.reviews.open(
        claim.project,
        claim.pk,
        queue=queue.spec.name,
        approvals=approvals if isinstance(approvals, int) else queue.spec.approvals,
        deadline=claim.deadline,
        shown=canonical_json(shown),
        queue_version=queue.version,
        blind=queue.spec.blind,
        minutes=queue.spec.minutes,
        escalate_after_s=queue.spec.escalate_after_s,
        typical_s=catalog.verifier(claim.verifier).typical_human_s,
        second_price=tariff.credits(Cost(human_s=1.0)),
    )
    return True


def _shown(case: Case, body: Body) -> dict[str, object]:
    evidence = [item.evidence for item in case.rung_evidence() if item.evidence.identity is None]
    return {
        "ladder": case.ladder.name,
        "candidate": case.standing.canonical
        or candidate_of(case.ladder.spec.candidate, body.answer, body.turns),
        "prompt": body.prompt,
        "inputs": body.inputs,
        "evidence": [json.loads(item.model_dump_json()) for item in evidence],
    }


def listed(
    tx: Transaction,
    project: str,
    *,
    queue: str | None,
    state: str | None,
    limit: int,
    assigned_to: str | None = None,
) -> list[Review]:
    """Items on the desk with all that is stored, oldest first. ``state`` may be ``disputed``; show them
    through ``shown_to``."""
    return tx.reviews.listed(project, queue=queue, state=state, limit=limit, assigned_to=assigned_to)


def listed_for(
    tx: Transaction,
    project: str,
    reviewer: str | None,
    *,
    queue: str | None,
    state: str | None,
    limit: int,
    assigned_to: str | None = None,
    after: str | None = None,
) -> list[Review]:
    """Items on the desk as a reviewer, or somebody without a name, may see them."""
    found = tx.reviews.listed(
        project, queue=queue, state=state, limit=limit, assigned_to=assigned_to, after=after
    )
    return [_shown_to(tx, item, reviewer) for item in found]


def open_item(tx: Transaction, project: str, review: str, reviewer: str | None) -> Review:
    """One item as a reviewer may see it; that it was looked at is noted. Raises ``NotFound``."""
    if reviewer is not None:
        tx.reviews.opened(project, review, reviewer)
    return _shown_to(tx, tx.reviews.get(project, review), reviewer)


def claim_review(
    tx: Transaction, project: str, request: ClaimRequest, most_held: int = MOST_HELD
) -> Review | None:
    """Reserve the best free item, or a named one, for one reviewer, who sees it from then on.

    Now and then the next one is a gold item, see ``domain.gold``. Raises ``Conflict`` for a named item that
    is not free and for whoever holds ``most_held`` others, ``Forbidden`` for one's own submission.
    """
    reviewer, review = request.reviewer, request.review
    held = tx.reviews.in_hand(project, reviewer).held
    if len(held) >= most_held and review not in held:
        message = f"{reviewer!r} holds {len(held)} items, {most_held} at most: decide or release one first"
        raise Conflict("too_many_held", message)
    offer = None
    if review is None:
        offer = tx.reviews.next(project, reviewer=reviewer, queue=request.queue)
        if offer is None:
            return None
        review = _gold_instead(tx, project, offer, reviewer) or offer.review
    claimed = tx.reviews.claim(
        project,
        reviewer=reviewer,
        queue=None,
        review=review,
        minutes=request.minutes,
        offered=offer is not None,
    )
    return None if claimed is None else _shown_to(tx, claimed, reviewer)


def _gold_instead(tx: Transaction, project: str, offer: Offer, reviewer: str) -> str | None:
    """A gold item of the same looks, when it is its turn and there is one that this reviewer never had."""
    share = tx.queues.latest(project, offer.queue).spec.gold_share
    if offer.assigned or not share:
        return None
    secret = tx.projects.secret(project)
    count = tx.gold.turn(project, offer.queue, reviewer)
    if not is_gold_turn(secret, offer.queue, reviewer, count, share):
        return None
    gold = choose(secret, reviewer, tx.gold.unseen(project, offer.queue, reviewer))
    return None if gold is None else tx.gold.deal(project, gold, reviewer, like=offer.review)


def renew_review(
    tx: Transaction, project: str, review: str, reviewer: str, minutes: float | None = None
) -> Review:
    """Hold a claimed item for longer, from now. Raises ``Conflict`` when the claim does not hold."""
    return _shown_to(tx, tx.reviews.renew(project, review, reviewer, minutes), reviewer)


def decide_review(
    tx: Transaction, project: str, review: str, decision: ReviewDecision, grace_s: float
) -> Decided:
    """Record a vote of whoever holds the item. It takes effect when all votes are in and the undo grace has
    passed.

    Raises ``Conflict`` when the item has ended, is not the reviewer's, was never opened, or the vote
    contradicts an earlier one by the same reviewer; ``Forbidden`` on one's own submission; ``InvalidInput``
    naming the field where it does not fit the form of the item's queue.
    """
    current = tx.reviews.frame(project, review)
    if current.state in (ReviewState.EXPIRED, ReviewState.CANCELLED):
        raise Conflict("review_ended", f"review {review!r} is {current.state} and takes no decision")
    require_fit(decision, tx.queues.version(project, current.queue, current.queue_version))
    if decision.measurements and current.check is not None:
        _require_unit(tx, current.check, decision)
    item, created = tx.reviews.decide(project, review, decision, grace_s)
    return Decided(review=_shown_to(tx, item, decision.reviewer), created=created)


def _require_unit(tx: Transaction, check: int, decision: ReviewDecision) -> None:
    pks = [trajectory for _, trajectory, _ in tx.demands.wanting(check)]
    for case in tx.trajectories.cases(pks[:1]):
        if case.ladder.spec.quantity is not None:
            quantity = case.ladder.spec.quantity
            require_unit(decision.measurements, quantity.name, quantity.unit)


def release_review(tx: Transaction, project: str, review: str, reviewer: str) -> Review:
    """Give an item back, or undo a decision within its grace."""
    return _shown_to(tx, tx.reviews.release(project, review, reviewer), reviewer)


def skip_review(
    tx: Transaction,
    project: str,
    review: str,
    reviewer: str,
    reason: str,
    whom: Whom,
    most_held: int = MOST_HELD,
) -> Skipped:
    """Put a claimed item aside: ``me``, it is not offered to me again; ``others``, it is kept for me for a
    day; ``back``, it cannot be judged, and its check fails with the reason.

    Raises ``Conflict`` without a claim that holds, for ``back`` when there are votes, and for ``others``
    when ``most_held`` other items are kept for the reviewer.
    """
    kept = tx.reviews.in_hand(project, reviewer).kept if whom == "others" else frozenset()
    if len(kept) >= most_held and review not in kept:
        message = f"{len(kept)} items are kept for {reviewer!r}, {most_held} at most: decide one first"
        raise Conflict("too_many_kept", message)
    item = tx.reviews.skip(project, review, reviewer, reason, whom)
    touched: list[int] = []
    if whom == "back" and not tx.reviews.cancel_gold(project, review, by=reviewer, reason=reason):
        touched = take_off(tx, project, review, by=reviewer, reason=reason, code=NOT_JUDGEABLE)
    return Skipped(review=_shown_to(tx, tx.reviews.get(project, item.id), reviewer), touched=touched)


def take_off(tx: Transaction, project: str, review: str, *, by: str, reason: str, code: str) -> list[int]:
    """End an item without a verdict: the verification did not happen, for a reason with a name. Returns the
    trajectories concerned. Raises ``Conflict`` when it has votes."""
    waits = tx.reviews.check_of(project, review)
    if waits is not None:
        tx.checks.waiting([waits])  # checks are locked before their items, wherever both are
    check = tx.reviews.require_unvoted(project, review)
    failure = Failure(kind="permanent", code=code, message=reason)
    tx.reviews.close(check, "cancelled", by=by, reason=reason)
    ended = tx.checks.finish_external(check, CheckState.FAILED, failure=failure)
    return tx.demands.satisfy([check]) if ended else []


def _shown_to(tx: Transaction, item: Review, reviewer: str | None) -> Review:
    """As ``shown_to``, now; only of a blind item the time matters."""
    return shown_to(item, reviewer, datetime.fromtimestamp(tx.now(), tz=UTC)) if item.blind else item


def apply_due(tx: Transaction, catalog: Catalog, tariff: Tariff, limit: int = 100) -> list[int]:
    """Turn decisions whose grace has passed into evidence; returns the trajectories concerned."""
    touched: list[int] = []
    known: dict[tuple[str, str], Noise] = {}
    due = tx.reviews.due(limit)
    tx.checks.waiting([check for _, _, check in due if check is not None])
    for project, review_id, check in due:
        try:
            with tx.savepoint():
                review = tx.reviews.take_due(project, review_id)
                if review is None:
                    continue  # undone, or ended, since it was looked for
                if check is None:
                    tx.reviews.close_gold(project, review_id)
                else:
                    queue = (project, review.queue)
                    if queue not in known:
                        known[queue] = noise_of(tx.reviews.judged(*queue, COUNTED))
                    touched += _apply(tx, catalog, tariff, review, check, known[queue])
        except (VerificationError, ValueError):
            log.exception("the decision on review %s cannot be applied; the others are", review_id)
    return touched


def _apply(
    tx: Transaction, catalog: Catalog, tariff: Tariff, review: Review, check: int, noise: Noise
) -> list[int]:
    evidence = _evidence(tx, catalog, review, check, noise)
    finished = tx.checks.finish_external(
        check,
        CheckState.SUCCEEDED,
        evidence=evidence,
        cost=evidence.cost,
        credits=tariff.credits(evidence.cost),
    )
    tx.reviews.close(check, "effective" if finished else "cancelled")
    return tx.demands.satisfy([check]) if finished else []


def expire(tx: Transaction, limit: int = 100) -> list[int]:
    """Withdraw reviews whose deadline has passed. A timeout never approves."""
    touched: set[int] = set()
    tx.reviews.expire_gold()
    for check in sorted(tx.checks.waiting(tx.checks.with_passed_deadline(limit))):
        if tx.reviews.is_decided(check):
            continue  # somebody voted in time, since it was looked for
        wanting = tx.demands.wanting(check)
        tx.demands.withdraw([demand for demand, _, _ in wanting], reason=DEADLINE)
        tx.checks.withdraw([check], expired=True)
        touched.update(trajectory for _, trajectory, _ in wanting)
    return sorted(touched)


def escalate(tx: Transaction, limit: int = 1_000) -> int:
    """Let what has waited for longer than its queue allows go before others; how many items."""
    return tx.reviews.escalate(limit)


def _evidence(tx: Transaction, catalog: Catalog, review: Review, check: int, noise: Noise) -> Evidence:
    """The outcome of the votes, and how likely it is to be wrong; what those who agree with it measured and
    graded is kept."""
    view = tx.checks.view(check)
    info = catalog.verifier(view.verifier)
    said = [vote.verdict for vote in review.votes]
    result = tally(said, review.approvals).verdict
    if result is None:
        raise Conflict("not_decided", f"the votes on review {review.id!r} decide nothing")
    agreeing = [vote for vote in review.votes if vote.verdict == result]
    rejected = result == "reject"
    return Evidence(
        check=view.key,
        tier=Tier.LAB,
        verdict=Verdict.REJECT if rejected else Verdict.ACCEPT,
        reason=Reason(code="reviewer_rejected", message=agreeing[0].reason) if rejected else None,
        measurements=(
            *(with_noise(item, noise.scatter) for vote in agreeing for item in vote.measurements),
            *grades(agreeing),
        ),
        mistaken=doubt_of(said, result, noise.rate),
        provenance=Provenance(
            verifier=info.name,
            version=info.version,
            worker=", ".join(vote.reviewer for vote in review.votes),
        ),
        cost=Cost(human_s=sum(_human_seconds(vote, info.typical_human_s) for vote in review.votes)),
    )


def _human_seconds(vote: Vote, typical: float) -> float:
    """What the reviewer said it took, else the declared typical time."""
    return vote.human_s if vote.human_s > 0 else typical
