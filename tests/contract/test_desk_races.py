"""Decisions that are undone, and votes that come, while somebody else ends the item."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from scheduler.costs import HourlyTariff
from tests.contract.samples import PROJECT, alter, prepare
from tests.support.desk import acts, read, take, vote, wanted
from tiers.catalog import VerifierCatalog
from verifier_service.domain.errors import Conflict
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.reviews import ReviewDecision, ReviewState
from verifier_service.persistence.checks import SqlChecks
from verifier_service.persistence.reviews import SqlReviews
from verifier_service.persistence.store import SqlStore
from verifier_service.services import desk

ACCEPTS = ReviewDecision(reviewer="ann", verdict="accept")
LONG_AGO = "UPDATE reviews SET effective_at = 1.0 WHERE effective_at IS NOT NULL"


@pytest.fixture
def store(store: SqlStore) -> SqlStore:
    prepare(store)
    return store


def item(store: SqlStore) -> str:
    """An item whose check the installation's own verifier of reviews asked for."""
    review = wanted(store, "1")
    alter(store, "UPDATE checks SET verifier = 'review'")
    return review


def apply_due(store: SqlStore) -> list[int]:
    with store.begin() as tx:
        return desk.apply_due(tx, VerifierCatalog(), HourlyTariff())


def while_open(store: SqlStore, first: Callable[[Transaction], object], then: Callable[[], object]) -> None:
    """Begin ``then`` while the transaction of ``first`` has not been committed."""
    begun = threading.Event()
    failed: list[BaseException] = []

    def second() -> None:
        begun.set()
        try:
            then()
        except BaseException as error:  # noqa: BLE001 - raised again below
            failed.append(error)

    thread = threading.Thread(target=second)
    with store.begin() as tx:
        first(tx)
        thread.start()
        assert begun.wait(10.0)
        thread.join(0.5)  # it waits for the lock, or has done what it must not
    thread.join(30.0)
    assert not thread.is_alive()
    if failed:
        raise failed[0]


def test_a_decision_that_is_being_undone_has_no_effect(store: SqlStore) -> None:
    review = item(store)
    vote(store, review, "ann", grace_s=60.0)

    def undo(tx: Transaction) -> None:
        desk.release_review(tx, PROJECT, review, "ann")

    found = [(PROJECT, review, _check(store))]  # as if it had been looked for when the grace had passed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlReviews, "due", lambda *_: found)
        while_open(store, undo, lambda: apply_due(store))
    now = read(store, review)
    assert (now.state, now.votes) == (ReviewState.OPEN, ())
    assert ("effective", "service") not in acts(store, review=review)


def _check(store: SqlStore) -> int:
    with store.read() as tx:
        pk = tx.reviews.check_of(PROJECT, desk.listed(tx, PROJECT, queue=None, state=None, limit=1)[0].id)
    assert pk is not None
    return pk


def test_what_is_being_applied_cannot_be_undone(store: SqlStore) -> None:
    review = item(store)
    vote(store, review, "ann", grace_s=60.0)
    alter(store, LONG_AGO)

    def apply(tx: Transaction) -> None:
        assert desk.apply_due(tx, VerifierCatalog(), HourlyTariff()) != []

    def undo() -> None:
        with store.begin() as tx:
            desk.release_review(tx, PROJECT, review, "ann")

    with pytest.raises(Conflict, match="nothing to release"):
        while_open(store, apply, undo)
    now = read(store, review)
    assert now.state == ReviewState.EFFECTIVE
    assert [one.reviewer for one in now.votes] == ["ann"]


def test_a_vote_that_comes_in_time_is_not_expired(store: SqlStore) -> None:
    review = item(store)
    take(store, "ann", review)

    def decide(tx: Transaction) -> None:
        desk.decide_review(tx, PROJECT, review, ACCEPTS, 60.0)

    def expire() -> None:
        with store.begin() as tx:
            desk.expire(tx)

    found = [_check(store)]  # as if it had been looked for before the vote
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlChecks, "with_passed_deadline", lambda *_: found)
        while_open(store, decide, expire)
    now = read(store, review)
    assert now.state == ReviewState.DECIDED
    assert [one.reviewer for one in now.votes] == ["ann"]


def test_what_is_being_expired_takes_no_vote(store: SqlStore) -> None:
    review = item(store)
    take(store, "ann", review)
    alter(store, "UPDATE checks SET deadline = 1.0")

    def expire(tx: Transaction) -> None:
        assert desk.expire(tx) != []

    def decide() -> None:
        with store.begin() as tx:
            desk.decide_review(tx, PROJECT, review, ACCEPTS, 60.0)

    with pytest.raises(Conflict):
        while_open(store, expire, decide)
    assert read(store, review).state == ReviewState.EXPIRED
