"""The desk: hand checks to people, and bring their decisions back."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass

from verifier_service.domain.cases import Body, Case
from verifier_service.domain.checks import Claim
from verifier_service.domain.digests import canonical_json
from verifier_service.domain.errors import Conflict, InvalidInput, VerificationError
from verifier_service.domain.evidence import Cost, Evidence, Measurement, Provenance, Reason, Tier, Verdict
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.policy import Tariff
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.reviews import (
    ClaimRequest,
    Review,
    ReviewDecision,
    ReviewMeasurement,
    ReviewState,
    Vote,
)
from verifier_service.domain.scoring import DEADLINE
from verifier_service.domain.states import CheckState

log = logging.getLogger(__name__)

DEFAULT_QUEUE = "default"


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """The item after the vote, and whether the vote is new."""

    review: Review
    created: bool


def open_review(tx: Transaction, owner: str, claim: Claim) -> bool:
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
    approvals = claim.params.get("approvals", 1)
    tx.reviews.open(
        claim.project,
        claim.pk,
        queue=str(claim.params.get("queue", DEFAULT_QUEUE)),
        approvals=approvals if isinstance(approvals, int) else 1,
        deadline=claim.deadline,
        shown=canonical_json(shown),
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
    tx: Transaction, project: str, *, queue: str | None, state: str | None, limit: int
) -> list[Review]:
    """Items on the desk, oldest first."""
    return tx.reviews.listed(project, queue=queue, state=state, limit=limit)


def claim_review(tx: Transaction, project: str, request: ClaimRequest) -> Review | None:
    """Reserve the next free item, or a named one, for one reviewer."""
    return tx.reviews.claim(
        project,
        reviewer=request.reviewer,
        queue=request.queue,
        review=request.review,
        minutes=request.minutes,
    )


def decide_review(
    tx: Transaction, project: str, review: str, decision: ReviewDecision, grace_s: float
) -> Decided:
    """Record a vote. It takes effect when enough approvals are in and the undo grace has passed.

    Raises ``Conflict`` when the item has ended, is somebody else's, or the vote contradicts an
    earlier one by the same reviewer.
    """
    current = tx.reviews.get(project, review)
    if current.state in (ReviewState.EXPIRED, ReviewState.CANCELLED):
        raise Conflict("review_ended", f"review {review!r} is {current.state} and takes no decision")
    _require_unit(tx, tx.reviews.check_of(project, review), decision)
    item, created = tx.reviews.decide(project, review, decision, grace_s)
    return Decided(review=item, created=created)


def _require_unit(tx: Transaction, check: int, decision: ReviewDecision) -> None:
    """A number of the ladder's quantity in another unit would silently mean something else."""
    pks = [trajectory for _, trajectory, _ in tx.demands.wanting(check)]
    for case in tx.trajectories.cases(pks[:1]):
        quantity = case.ladder.spec.quantity
        for measured in decision.measurements:
            if quantity and measured.quantity == quantity.name and measured.unit != quantity.unit:
                message = f"{quantity.name} is measured in {quantity.unit}, not in {measured.unit}"
                raise InvalidInput("wrong_unit", message, field="measurements.unit")


def release_review(tx: Transaction, project: str, review: str, reviewer: str) -> Review:
    """Give an item back, or undo a decision within its grace."""
    return tx.reviews.release(project, review, reviewer)


def apply_due(tx: Transaction, catalog: Catalog, tariff: Tariff, limit: int = 100) -> list[int]:
    """Turn decisions whose grace has passed into evidence; returns the trajectories concerned."""
    touched: list[int] = []
    for project, review_id, check in tx.reviews.due(limit):
        try:
            with tx.savepoint():
                touched += _apply(tx, catalog, tariff, tx.reviews.get(project, review_id), check)
        except (VerificationError, ValueError):
            log.exception("the decision on review %s cannot be applied; the others are", review_id)
    return touched


def _apply(tx: Transaction, catalog: Catalog, tariff: Tariff, review: Review, check: int) -> list[int]:
    evidence = _evidence(tx, catalog, review, check)
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
    for check in tx.checks.with_passed_deadline(limit):
        wanting = tx.demands.wanting(check)
        tx.demands.withdraw([demand for demand, _, _ in wanting], reason=DEADLINE)
        tx.reviews.close(check, "expired")
        tx.checks.withdraw([check])
        touched.update(trajectory for _, trajectory, _ in wanting)
    return sorted(touched)


def _evidence(tx: Transaction, catalog: Catalog, review: Review, check: int) -> Evidence:
    """The outcome of the votes: any rejection rejects; measurements of all voters are kept."""
    view = tx.checks.view(check)
    info = catalog.verifier(view.verifier)
    refusal = next((vote for vote in review.votes if vote.verdict == "reject"), None)
    return Evidence(
        check=view.key,
        tier=Tier.LAB,
        verdict=Verdict.REJECT if refusal is not None else Verdict.ACCEPT,
        reason=Reason(code="reviewer_rejected", message=refusal.reason) if refusal is not None else None,
        measurements=tuple(_measurement(item) for vote in review.votes for item in vote.measurements),
        provenance=Provenance(
            verifier=info.name,
            version=info.version,
            worker=", ".join(vote.reviewer for vote in review.votes),
        ),
        cost=Cost(human_s=sum(_human_seconds(vote, info.typical_human_s) for vote in review.votes)),
    )


def _measurement(item: Measurement | ReviewMeasurement) -> Measurement:
    return Measurement(quantity=item.quantity, value=item.value, unit=item.unit, sigma=item.sigma)


def _human_seconds(vote: Vote, typical: float) -> float:
    """What the reviewer said it took, else the declared typical time."""
    return vote.human_s if vote.human_s > 0 else typical
