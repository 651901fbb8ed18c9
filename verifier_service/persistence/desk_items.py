"""Review rows as records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row

from verifier_service.domain.reviews import Review, ReviewDecision, ReviewState
from verifier_service.persistence.tenancy import moment


def claimed_now(row: Row[Any]) -> bool:
    """Whether a claim holds at the time the row was read; an expired one counts as none."""
    return row.claimed_until is not None and row.claimed_until > row.now


def same_decision(stored: str, decision: ReviewDecision) -> bool:
    """Whether a vote says again what is stored."""
    return ReviewDecision.model_validate_json(stored) == decision


def read_review(row: Row[Any], votes: Sequence[Row[Any]]) -> Review:
    """The item with what the reviewer sees, its claim and its votes."""
    claimed = row.state == ReviewState.OPEN and claimed_now(row)
    return Review.model_validate(
        {
            **json.loads(row.shown),
            "id": row.id,
            "check": row.key,
            "queue": row.queue,
            "state": ReviewState.CLAIMED if claimed else ReviewState(row.state),
            "approvals": row.approvals,
            "claimed_by": row.claimed_by if claimed else None,
            "claimed_until": moment(row.claimed_until) if claimed else None,
            "deadline": None if row.deadline is None else moment(row.deadline),
            "created_at": moment(row.created_at),
            "votes": [_vote(vote) for vote in votes],
        }
    )


def _vote(row: Row[Any]) -> dict[str, Any]:
    decision = json.loads(row.decision)
    return {
        "reviewer": row.reviewer,
        "verdict": row.verdict,
        "reason": decision["reason"],
        "measurements": decision["measurements"],
        "human_s": row.human_s,
        "decided_at": moment(row.decided_at),
        "effective_at": moment(row.effective_at),
    }
