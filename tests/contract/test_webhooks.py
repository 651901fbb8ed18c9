"""Endpoints and their outbox, on both databases."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.contract.samples import OTHER_RUN, PROJECT, RUN, again, alter, prepare, together
from tests.support.outbox import (
    FAILED,
    OTHER_SECRET,
    PENDING,
    SECRET,
    URL,
    append,
    claim,
    events,
    listed,
    parcels,
    pk_of,
    register,
    replay,
    settle,
    working,
)
from verifier_service.domain.errors import Conflict, NotFound
from verifier_service.domain.runs import RunSpec
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.webhooks import (
    Claimed,
    Health,
    NewWebhook,
    Outcome,
)
from verifier_service.persistence.store import SqlStore
from verifier_service.persistence.tenancy import moment

THIRD_SECRET = "whsec_dGhpcmQ="


def test_a_new_endpoint_begins_at_the_present(store: SqlStore) -> None:
    prepare(store, RUN)
    append(store, "old")
    webhook = register(store)
    pk = pk_of(store, webhook)
    assert working(store) == []
    assert parcels(store, pk) == []
    append(store, "new", "newer")
    prepare(store, OTHER_RUN)
    append(store, "first", run=OTHER_RUN)
    assert working(store) == [pk]
    assert working(store, {RUN}) == working(store, {OTHER_RUN, "unknown"}) == [pk]
    assert working(store, {"unknown"}) == []
    assert len(parcels(store, pk)) == 3
    assert sorted(listed(store, webhook)) == [
        (RUN, 2, "pending", 0),
        (RUN, 3, "pending", 0),
        (OTHER_RUN, 1, "pending", 0),
    ]
    assert working(store) == []


def test_an_endpoint_reads_back_without_its_secret(store: SqlStore) -> None:
    prepare(store)
    made = register(store, run=RUN, statuses=("final", "retracted"), description="for ann")
    assert (made.run, made.statuses) == (RUN, (RewardStatus.FINAL, RewardStatus.RETRACTED))
    with store.read() as tx:
        assert tx.webhooks.of_project(PROJECT) == (made,)
        assert tx.webhooks.get(PROJECT, made.id) == made
        assert tx.webhooks.place(PROJECT, made.id).secrets == (SECRET,)
    assert SECRET not in made.model_dump_json()


def test_filters_pass_over_what_is_not_wanted(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)
    webhook = register(store, run=RUN, statuses=("final",))
    pk = pk_of(store, webhook)
    append(store, "a", "b", "c")
    append(store, "x", run=OTHER_RUN, status=RewardStatus.FINAL)
    append(store, "d", status=RewardStatus.FINAL)
    assert working(store) == [pk]
    assert len(parcels(store, pk)) == 1
    assert listed(store, webhook) == [(RUN, 4, "pending", 0)]
    assert working(store) == []


def test_an_endpoint_of_a_run_to_come_gets_all_of_it(store: SqlStore) -> None:
    prepare(store, OTHER_RUN)
    webhook = register(store, run=RUN)
    prepare(store, RUN)
    append(store, "a", "b")
    append(store, "x", run=OTHER_RUN)
    assert len(parcels(store, pk_of(store, webhook))) == 2


def test_projects_do_not_see_each_other(store: SqlStore) -> None:
    prepare(store)
    with store.begin() as tx:
        tx.projects.ensure("other")
        tx.runs.ensure("other", RUN, RunSpec(), seed=1)
    mine, theirs = register(store), register(store, "other")
    append(store, "a")
    assert working(store) == [pk_of(store, mine)]
    assert parcels(store, pk_of(store, theirs, "other")) == []
    with store.begin() as tx:
        assert tx.webhooks.of_project("other") == (theirs,)
        for call in (
            lambda: tx.webhooks.get(PROJECT, theirs.id),
            lambda: tx.webhooks.place(PROJECT, theirs.id),
            lambda: tx.webhooks.enable(PROJECT, theirs.id),
            lambda: tx.webhooks.disable(PROJECT, theirs.id, "x"),
            lambda: tx.webhooks.redirect(PROJECT, theirs.id, URL),
            lambda: tx.webhooks.rotate(PROJECT, theirs.id, OTHER_SECRET, 0, force=True),
            lambda: tx.webhooks.remove(PROJECT, theirs.id),
            lambda: tx.webhooks.deliveries(PROJECT, theirs.id, run=None, state=None, before=None, limit=1),
            lambda: tx.webhooks.replay(PROJECT, theirs.id, run=RUN, after=0, failed_only=False, limit=1),
        ):
            with pytest.raises(NotFound):
                call()


def test_the_limit_holds_when_many_register_at_once(store: SqlStore) -> None:
    prepare(store)

    def add(_: int) -> bool:
        def work() -> bool:
            with store.begin() as tx:
                tx.webhooks.add(PROJECT, NewWebhook(url=URL), SECRET, 3)
            return True

        try:
            return again(work)
        except Conflict:
            return False

    assert Counter(together(6, add)) == {True: 3, False: 3}


def test_ids_are_the_same_for_a_record_and_differ_between_endpoints(store: SqlStore) -> None:
    prepare(store)
    one, two = register(store), register(store)
    append(store, "a", "b")
    first = parcels(store, pk_of(store, one), lease_s=-1.0)
    assert events(parcels(store, pk_of(store, one))) == events(first)
    assert not set(events(first)) & set(events(parcels(store, pk_of(store, two))))
    settle(store, pk_of(store, one), *first)
    assert replay(store, one).replayed == 2
    assert events(parcels(store, pk_of(store, one))) == events(first)


def test_a_claim_leases_and_a_lapsed_one_is_claimed_again(store: SqlStore) -> None:
    prepare(store)
    webhook = register(store)
    pk = pk_of(store, webhook)
    append(store, "a", "b", "c")
    held = parcels(store, pk, limit=2)
    assert len(held) == 2
    assert working(store) == [pk]
    assert len(parcels(store, pk)) == 1
    assert (parcels(store, pk), working(store)) == ([], [])
    alter(store, "UPDATE deliveries SET not_before = 1.0")
    assert working(store) == [pk]
    later = parcels(store, pk)
    assert events(later)[:2] == events(held)
    assert [one.fence for one in later[:2]] == [2, 2]
    assert [one.attempts for one in later] == [0, 0, 0]


def test_a_late_failure_changes_nothing_and_a_late_success_holds(store: SqlStore) -> None:
    prepare(store)
    webhook = register(store)
    pk = pk_of(store, webhook)
    append(store, "a", "b")
    stale = parcels(store, pk, lease_s=-1.0)
    fresh = parcels(store, pk)
    settle(store, pk, stale[0], state=FAILED, error="late")
    settle(store, pk, stale[0], state=PENDING, not_before=1.0, error="late")
    assert [row[2:] for row in listed(store, webhook)] == [("pending", 0)] * 2
    settle(store, pk, stale[0], status=200)
    settle(store, pk, fresh[0], state=PENDING, not_before=1.0, error="later still")
    settle(store, pk, fresh[1], state=FAILED, status=500, error="http_status: 500")
    assert [row[2:] for row in listed(store, webhook)] == [("failed", 1), ("delivered", 1)]
    settle(store, pk, stale[1], status=200)
    assert [row[2:] for row in listed(store, webhook)] == [("delivered", 1)] * 2


def test_outcomes_are_written_as_they_are(store: SqlStore) -> None:
    prepare(store)
    webhook = register(store)
    pk = pk_of(store, webhook)
    append(store, "a", "b")
    one, two = parcels(store, pk)
    settle(store, pk, one, state=PENDING, not_before=4e9, status=503, error="http_status: 503")
    back = Outcome(parcel=two, state=PENDING, attempts=0, not_before=1.0, tried=False)
    with store.begin() as tx:
        tx.outbox.settle(pk, [back], None)
    with store.read() as tx:
        found, _ = tx.webhooks.deliveries(PROJECT, webhook.id, run=RUN, state=PENDING, before=None, limit=9)
    newest, oldest = found
    assert (oldest.attempts, oldest.status, oldest.error) == (1, 503, "http_status: 503")
    assert oldest.next_at is not None
    assert oldest.next_at.timestamp() == 4e9
    assert (newest.attempts, newest.status, newest.error, newest.ended_at) == (0, None, None, None)
    assert events(parcels(store, pk)) == [two.event]


def test_what_is_due_first_goes_first(store: SqlStore) -> None:
    prepare(store)
    pk = pk_of(store, register(store))
    append(store, "a")
    [tried] = parcels(store, pk)
    settle(store, pk, tried, state=PENDING, not_before=1.0)
    append(store, "b")
    assert [one.attempts for one in parcels(store, pk, limit=1)] == [1]


def test_a_failing_endpoint_is_tried_with_one_and_a_paused_one_with_none(store: SqlStore) -> None:
    prepare(store)
    webhook = register(store)
    pk = pk_of(store, webhook)
    append(store, "a", "b", "c")
    settle(store, pk, health=Health(streak=2, failing_since=5.0, paused_until=None))
    assert len(parcels(store, pk)) == 1
    settle(store, pk, health=Health(streak=3, failing_since=5.0, paused_until=4e9))
    assert working(store) == []
    assert claim(store, pk) == Claimed(place=None)
    with store.read() as tx:
        found = tx.webhooks.get(PROJECT, webhook.id)
    assert (found.streak, found.enabled) == (3, True)
    assert found.failing_since is not None
    assert found.failing_since.timestamp() == 5.0
    settle(store, pk, health=Health(streak=0, failing_since=None, paused_until=None))
    assert len(parcels(store, pk)) == 2


def test_a_disabled_endpoint_stands_still_and_then_goes_on(store: SqlStore) -> None:
    prepare(store)
    webhook = register(store)
    pk = pk_of(store, webhook)
    append(store, "a")
    [pending] = parcels(store, pk)
    gone = Health(streak=1, failing_since=1.0, paused_until=4e9, disabled_reason="gone")
    settle(store, pk, pending, state=PENDING, not_before=4e9, health=gone)
    append(store, "b")
    assert (working(store), claim(store, pk).place) == ([], None)
    with store.begin() as tx:
        assert tx.webhooks.disable(PROJECT, webhook.id, "operator").disabled_reason == "gone"
        enabled = tx.webhooks.enable(PROJECT, webhook.id)
    assert (enabled.enabled, enabled.streak, enabled.failing_since) == (True, 0, None)
    assert enabled.paused_until is None
    assert len(parcels(store, pk)) == 2
    with store.begin() as tx:
        assert tx.webhooks.disable(PROJECT, webhook.id, "operator").disabled_reason == "operator"
    settle(store, pk, health=gone)
    with store.read() as tx:
        assert tx.webhooks.get(PROJECT, webhook.id).disabled_reason == "operator"


def test_a_rotated_secret_overlaps_with_the_old_one_for_a_while(store: SqlStore) -> None:
    prepare(store)
    webhook = register(store)
    with store.begin() as tx:
        tx.webhooks.rotate(PROJECT, webhook.id, OTHER_SECRET, 60.0, force=False)
        assert tx.webhooks.place(PROJECT, webhook.id).secrets == (OTHER_SECRET, SECRET)
    alter(store, "UPDATE webhooks SET old_secret_until = 1.0")
    with store.begin() as tx:
        assert tx.webhooks.place(PROJECT, webhook.id).secrets == (OTHER_SECRET,)
        tx.webhooks.rotate(PROJECT, webhook.id, SECRET, 0.0, force=False)
        assert tx.webhooks.place(PROJECT, webhook.id).secrets == (SECRET,)


def test_a_second_rotation_does_not_drop_the_secret_that_receivers_have(store: SqlStore) -> None:
    prepare(store)
    webhook = register(store)
    with store.begin() as tx:
        tx.webhooks.rotate(PROJECT, webhook.id, OTHER_SECRET, 60.0, force=False)
        until = moment(tx.now() + 60.0)
        with pytest.raises(Conflict) as refused:
            tx.webhooks.rotate(PROJECT, webhook.id, THIRD_SECRET, 60.0, force=False)
        assert tx.webhooks.place(PROJECT, webhook.id).secrets == (OTHER_SECRET, SECRET)
        assert refused.value.code == "rotation_running"
        assert f"until {until:%Y-%m-%dT%H:%M}" in refused.value.message
        tx.webhooks.rotate(PROJECT, webhook.id, THIRD_SECRET, 60.0, force=True)
        assert tx.webhooks.place(PROJECT, webhook.id).secrets == (THIRD_SECRET,)
        tx.webhooks.rotate(PROJECT, webhook.id, SECRET, 60.0, force=False)
        assert tx.webhooks.place(PROJECT, webhook.id).secrets == (SECRET, THIRD_SECRET)
