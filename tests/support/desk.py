"""Items on the desk for tests of the store: made, taken, voted on, with time made to pass."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from tests.contract.samples import (
    PROJECT,
    RUN,
    alter,
    check,
    claim,
    demand,
    evidence,
    trajectory,
)
from verifier_service.domain.errors import Conflict
from verifier_service.domain.evidence import Tier
from verifier_service.domain.review_queues import QueueSpec
from verifier_service.domain.reviews import ClaimRequest, Review, ReviewDecision
from verifier_service.persistence.store import SqlStore
from verifier_service.services import desk, queues

SHOWN = {
    "candidate": "CCO",
    "prompt": "design",
    "inputs": {"a": 1},
    "ladder": "ladder",
    "evidence": [json.loads(evidence("k").model_dump_json())],
}


def wanted(
    store: SqlStore,
    key: str,
    *,
    priority: float = 0.0,
    submitter: str | None = None,
    run: str = RUN,
    **item: Any,
) -> str:
    """An item on the desk whose check a trajectory wants; its id."""
    with store.begin() as tx:
        pk = tx.trajectories.insert(PROJECT, run, [trajectory(f"t-{key}")])[f"t-{key}"]
        if submitter is not None:
            tx.trajectories.attribute({pk: submitter})
        made = check(key, tier=Tier.LAB, external=True, priority=priority)
        [ref] = tx.checks.ensure(PROJECT, run, [made])
        tx.demands.insert([demand(pk, ref.pk, path="lab/0", role="review", tier=Tier.LAB)])
    [one] = claim(store, tier=Tier.LAB)
    values: dict[str, Any] = {"queue": "q", "approvals": 1, "deadline": None, "shown": json.dumps(SHOWN)}
    with store.begin() as tx:
        assert tx.checks.wait_external("w", one.pk, one.fence)
        return tx.reviews.open(PROJECT, one.pk, **(values | item))


def declare(store: SqlStore, name: str = "q", **spec: Any) -> int:
    """A queue, and its version."""
    with store.begin() as tx:
        made = QueueSpec.model_validate_json(json.dumps({"name": name, **spec}))
        return queues.put_queue(tx, PROJECT, made, "lead")[0].version


def take(
    store: SqlStore,
    reviewer: str,
    review: str | None = None,
    queue: str | None = None,
    minutes: float | None = None,
) -> Review | None:
    """Claim through the service: the next item, or a named one."""
    request = ClaimRequest(reviewer=reviewer, queue=queue, review=review, minutes=minutes)
    with store.begin() as tx:
        return desk.claim_review(tx, PROJECT, request)


def vote(
    store: SqlStore, review: str, reviewer: str, verdict: str = "accept", grace_s: float = 0.0, **more: Any
) -> Review:
    """Take the item, if it can be taken, and vote on it."""
    reason = "" if verdict == "accept" else "unstable"
    said = {"reviewer": reviewer, "verdict": verdict, "reason": reason, **more}
    with suppress(Conflict):
        take(store, reviewer, review)
    with store.begin() as tx:
        decision = ReviewDecision.model_validate(said)
        return desk.decide_review(tx, PROJECT, review, decision, grace_s).review


def read(store: SqlStore, review: str) -> Review:
    """All that is stored of an item."""
    with store.read() as tx:
        return tx.reviews.get(PROJECT, review)


def acts(store: SqlStore, **only: Any) -> list[tuple[str, str]]:
    """(kind, actor) of the trail."""
    with store.read() as tx:
        return [
            (event.kind.value, event.actor)
            for event in tx.trail.page(PROJECT, after=0, limit=9_999, **only)
        ]


def end_claims(store: SqlStore) -> None:
    """Let every claim expire."""
    alter(store, "UPDATE reviews SET claimed_until = 1.0 WHERE claimed_until IS NOT NULL")
