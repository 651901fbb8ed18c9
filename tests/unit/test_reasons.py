"""Why a case is waiting, in words."""

from __future__ import annotations

import pytest

from verifier_service.domain.checks import CheckView
from verifier_service.domain.evidence import Cost, Failure, Tier
from verifier_service.domain.history import Queueing
from verifier_service.domain.reasons import _state
from verifier_service.domain.states import CheckState

NOW = 1_000.0
BROKEN = Failure(kind="transient", code="broken", message="it broke", retryable=True)


def view(state: CheckState = CheckState.QUEUED, tier: Tier = Tier.FAST, **changes: object) -> CheckView:
    made = CheckView(7, "k", "a.b", tier, state, 0, "r", 0.0, Cost(), None, None)
    return made._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (0, "is queued for a worker"),
        (1, "is queued for a worker behind 1 check"),
        (1_000, "is queued for a worker behind 1000 checks"),
        (1_001, "is queued for a worker behind more than 1,000 checks"),
    ],
)
def test_where_it_stands(ahead: int, words: str) -> None:
    assert _state(view(), NOW, {7: Queueing("1", (), ahead)}, {}) == words


def test_nobody_will_claim_it() -> None:
    said = _state(view(), NOW, {7: Queueing("1", (), 3)}, {7: "no worker of tier fast is alive"})
    assert said == "is queued, but no worker of tier fast is alive"


def test_people_do_not_work_for_a_queue() -> None:
    assert _state(view(tier=Tier.LAB), NOW, {7: Queueing("1", (), 2)}, {}) == (
        "is queued for the desk behind 2 checks"
    )


def test_what_is_tried_again_says_when_and_after_what() -> None:
    delayed = view(not_before=NOW + 8.0, failure=BROKEN)
    assert _state(delayed, NOW, {}, {7: "nobody lives"}) == "is tried again in 8 s after: it broke"


def test_what_runs() -> None:
    runs = view(CheckState.RUNNING, started_at=NOW - 5.0)
    assert _state(runs, NOW, {}, {}) == "runs for 5 s, attempt 1"
