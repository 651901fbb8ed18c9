"""The ledger never overspends."""

from __future__ import annotations

import random

import pytest
from sqlalchemy.exc import IntegrityError

from tests.contract.samples import (
    OTHER_RUN,
    PROJECT,
    RUN,
    alter,
    check,
    claim,
    complete,
    ensure,
    failure,
    money,
    prepare,
    reservation,
    success,
    together,
)
from verifier_service.domain.errors import NotFound
from verifier_service.domain.evidence import Tier
from verifier_service.domain.states import CheckState
from verifier_service.persistence.store import SqlStore


def test_accounts_of_a_run(store: SqlStore) -> None:
    prepare(store, compute=3.0)
    with store.read() as tx:
        compute, human = tx.ledger.accounts(PROJECT, RUN)
        assert (compute.kind, compute.limit, compute.available) == ("compute", 3.0, 3.0)
        assert (human.kind, human.limit, human.available) == ("human", None, float("inf"))
        for project, run in ((PROJECT, "unknown"), ("other", RUN)):
            with pytest.raises(NotFound):
                tx.ledger.accounts(project, run)


def test_reservations_are_granted_in_order_and_cut(store: SqlStore) -> None:
    prepare(store, compute=10.0)
    ensure(store, *[check(key) for key in "abcd"])
    a, b, c, d = claim(store)
    with store.begin() as tx:
        granted = tx.ledger.reserve(
            [
                reservation(d.pk, 6.0),
                reservation(a.pk, 6.0, least=5.0),
                reservation(b.pk, 6.0, least=1.0),
                reservation(c.pk, 1.0, least=0.5),
            ]
        )
    # a would get 4 and needs 5; b is cut to 4; c finds nothing left.
    assert granted == {d.pk: 6.0, b.pk: 4.0}
    assert money(store) == (10.0, 0.0)


def test_no_limit_grants_everything(store: SqlStore) -> None:
    prepare(store)
    ensure(store, check("k"))
    [one] = claim(store)
    with store.begin() as tx:
        assert tx.ledger.reserve([reservation(one.pk, 1e9, least=1e9)]) == {one.pk: 1e9}
        assert tx.ledger.reserve([]) == {}


def test_accounts_are_apart(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN, compute=1.0, human=2.0)
    ensure(store, check("a"))
    ensure(store, check("b", external=True))
    ensure(store, check("c"), run=OTHER_RUN)
    a, b, c = claim(store)
    with store.begin() as tx:
        granted = tx.ledger.reserve(
            [
                reservation(a.pk, 5.0),
                reservation(b.pk, 5.0, account="human"),
                reservation(c.pk, 5.0, run=OTHER_RUN),
            ]
        )
    assert granted == {a.pk: 1.0, b.pk: 2.0, c.pk: 1.0}


def test_only_the_payer_of_a_running_check_reserves(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    ensure(store, check("a"), check("b"))
    a, b = claim(store)
    complete(store, success(b))
    with store.begin() as tx:
        assert tx.ledger.reserve([reservation(a.pk, 1.0, run=OTHER_RUN), reservation(b.pk, 1.0)]) == {}
        assert tx.ledger.reserve([reservation(a.pk, 1.0), reservation(a.pk, 1.0)]) == {a.pk: 1.0}
        assert tx.ledger.reserve([reservation(a.pk, 1.0)]) == {}
    assert money(store) == (1.0, 0.0)


def test_an_end_charges_what_was_taken_and_refunds_the_rest(store: SqlStore) -> None:
    prepare(store, compute=22.0)
    ensure(store, *[check(key) for key in "abcd"])
    a, b, c, d = claims = claim(store)
    with store.begin() as tx:
        tx.ledger.reserve([reservation(one.pk, 5.0) for one in claims])
    complete(
        store,
        success(a, 2.0),
        success(b, 7.0),
        failure(c, CheckState.FAILED, credits=1.0),
        failure(d, credits=0.5, spend_attempt=False),
    )
    assert money(store) == (0.0, 10.5)
    with store.read() as tx:
        assert [tx.checks.view(one.pk).credits for one in claims] == [2.0, 7.0, 1.0, 0.5]


def test_beyond_its_reservation_an_attempt_is_charged_as_far_as_the_budget_goes(store: SqlStore) -> None:
    """What others have reserved is theirs; what ends together gives back first."""
    prepare(store, compute=10.0)
    ensure(store, *[check(key) for key in "abc"])
    a, b, c = claim(store)
    with store.begin() as tx:
        tx.ledger.reserve([reservation(a.pk, 2.0), reservation(b.pk, 2.0), reservation(c.pk, 3.0)])
    complete(store, success(a, 9.0), failure(b, credits=0.0))
    assert money(store) == (3.0, 7.0)
    with store.read() as tx:
        assert [tx.checks.view(one.pk).credits for one in (a, b)] == [7.0, 0.0]
        [attempt] = tx.checks.histories([a.pk])[a.pk].attempts
    assert attempt.credits == 7.0
    complete(store, success(c, 50.0))
    assert money(store) == (0.0, 10.0)


def test_credits_add_up_over_attempts(store: SqlStore) -> None:
    prepare(store, compute=20.0)
    ensure(store, check("k"))
    for credits in (1.0, 2.0):
        [one] = claim(store)
        with store.begin() as tx:
            tx.ledger.reserve([reservation(one.pk, 5.0)])
        complete(store, failure(one, credits=credits))
    with store.read() as tx:
        assert tx.checks.view(one.pk).credits == 3.0
    assert money(store) == (0.0, 3.0)


def test_unreserved_work_is_not_charged(store: SqlStore) -> None:
    prepare(store, compute=1.0)
    ensure(store, check("k"))
    complete(store, success(claim(store)[0], 100.0))
    assert money(store) == (0.0, 0.0)


def test_eight_threads_never_overspend(store: SqlStore) -> None:
    prepare(store, compute=7.0, human=3.0)
    ensure(store, *[check(f"c{index}") for index in range(60)])
    ensure(store, *[check(f"h{index}", external=True) for index in range(20)])

    def work(index: int) -> float:
        dice, paid = random.Random(index), 0.0
        owner = f"w{index}"
        for _ in range(6):
            with store.begin() as tx:
                claims = tx.checks.claim(Tier.FAST, 4, owner, 60.0)
                wanted = [
                    reservation(
                        one.pk,
                        dice.uniform(0.1, 1.0),
                        least=0.1,
                        account="human" if one.external else "compute",
                    )
                    for one in claims
                ]
                granted = tx.ledger.reserve(wanted)
            done = [success(one, granted[one.pk] * dice.random()) for one in claims if one.pk in granted]
            back = [failure(one, spend_attempt=False) for one in claims if one.pk not in granted]
            complete(store, *done, *back, owner=owner)
            paid += sum(one.credits for one in done)
        return paid

    paid = sum(together(8, work))
    (compute_left, compute), (human_left, human) = money(store), money(store, kind="human")
    assert compute_left == human_left == 0.0
    assert compute <= 7.0 + 1e-9
    assert human <= 3.0 + 1e-9
    assert compute + human == pytest.approx(paid)


def test_the_database_itself_refuses_to_overspend(store: SqlStore) -> None:
    prepare(store, compute=1.0)
    for statement in (
        "UPDATE accounts SET reserved = 0.6, spent = 0.6 WHERE kind = 'compute'",
        "UPDATE accounts SET reserved = -0.1",
        "UPDATE accounts SET kind = 'gold' WHERE kind = 'human'",
    ):
        with pytest.raises(IntegrityError):
            alter(store, statement)


def test_dust_of_floating_sums_is_no_deficit(store: SqlStore) -> None:
    prepare(store, compute=1e6)
    ensure(store, *[check(f"k{index}") for index in range(300)])
    for _ in range(3):
        claims = claim(store, 100)
        for part in (claims[:33], claims[33:]):
            with store.begin() as tx:
                tx.ledger.reserve([reservation(one.pk, 0.1 + 1e-7 * one.pk) for one in part])
        complete(store, *[success(one, 0.03) for one in claims])
    reserved, spent = money(store)
    assert (reserved, spent) == (0.0, pytest.approx(9.0))
