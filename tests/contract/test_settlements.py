"""Settlements: append-only versions, events that are due, and polls that nobody asks twice."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import IntegrityError

from tests.contract.samples import PROJECT, RUN, alter, claim, demanded, prepare, together
from verifier_service.domain.evidence import Tier
from verifier_service.domain.forecasts import Question
from verifier_service.domain.settlements import Actual, Due, Settlement, SettlementState
from verifier_service.persistence.store import SqlStore

YES = Actual("rain", SettlementState.SETTLED, "yes", None)
NO = Actual("rain", SettlementState.SETTLED, "0", 0.0)
VOID = Actual("rain", SettlementState.VOID)
BINARY = Question("binary")


@pytest.fixture(autouse=True)
def prepared(store: SqlStore) -> None:
    prepare(store, RUN)


def add(store: SqlStore, version: int, actual: Actual, project: str = PROJECT) -> int:
    with store.begin() as tx:
        return tx.settlements.add(
            project, {actual.event: (version, actual)}, source="import", import_id="i", by="ann"
        )


def due(store: SqlStore) -> list[Due]:
    with store.read() as tx:
        return tx.settlements.due(10)


def waiting(store: SqlStore, name: str, event: str = "rain", source: str | None = None) -> int:
    """A check that waits for an event; its pk."""
    _, [pk] = demanded(store, name, f"key {name}", external=True, tier=Tier.LAB)
    [leased] = claim(store, tier=Tier.LAB)
    with store.begin() as tx:
        assert tx.checks.wait_external("w", leased.pk, leased.fence)
        tx.settlements.wait(PROJECT, pk, event, BINARY, source=source, not_before=0.0)
    return pk


def test_versions_are_added_and_listed(store: SqlStore) -> None:
    assert [add(store, *one) for one in ((1, YES), (2, NO), (2, YES), (3, VOID))] == [1, 1, 0, 1]
    with store.begin() as tx:
        tx.projects.ensure("other")
    add(store, 1, NO, "other")
    with store.read() as tx:
        found = tx.settlements.listed(PROJECT, after=0, event=None, limit=10)
        assert tx.settlements.listed(PROJECT, after=found[0].seq, event="rain", limit=1) == [found[1]]
        assert tx.settlements.listed(PROJECT, after=0, event="snow", limit=10) == []
        assert tx.settlements.latest(PROJECT, ["rain", "snow"]) == {"rain": found[2]}
        since = tx.settlements.known_since(PROJECT, ["rain", "snow"])
    assert [(one.version, one.state, one.actual, one.number) for one in found] == [
        (1, SettlementState.SETTLED, "yes", None),
        (2, SettlementState.SETTLED, "0", 0.0),
        (3, SettlementState.VOID, None, None),
    ]
    assert [(one.source, one.import_id, one.by) for one in found] == [("import", "i", "ann")] * 3
    assert since == {"rain": pytest.approx(found[0].created_at.timestamp(), abs=1e-3)}
    assert isinstance(found[0], Settlement)


def test_two_at_once_are_one_version(store: SqlStore) -> None:
    assert sorted(together(3, lambda _: add(store, 1, YES))) == [0, 0, 1]


@pytest.mark.parametrize("change", ["state = 'open'", "version = 0", "actual = NULL"])
def test_the_database_refuses_what_is_no_settlement(store: SqlStore, change: str) -> None:
    add(store, 1, YES)
    with pytest.raises(IntegrityError):
        alter(store, f"UPDATE settlements SET {change}")


def test_an_event_is_due_until_it_is_done_for_its_latest_token(store: SqlStore) -> None:
    waiting(store, "a")
    [first] = due(store)
    add(store, 1, YES)
    with store.begin() as tx:
        tx.settlements.done(first)
    [second] = due(store)
    assert second.token > first.token
    with store.begin() as tx:
        tx.settlements.done(second)
    assert due(store) == []
    add(store, 2, NO)
    assert [one.event for one in due(store)] == ["rain"]


def test_checks_are_behind_until_they_are_told(store: SqlStore) -> None:
    first, second, _ = waiting(store, "a"), waiting(store, "b"), waiting(store, "c", "snow")
    with store.begin() as tx:
        assert [one.check for one in tx.settlements.behind(PROJECT, "rain", 1, 10)] == [first, second]
        assert [one.check for one in tx.settlements.behind(PROJECT, "rain", 1, 1)] == [first]
        tx.settlements.told([first], 1)
    with store.read() as tx:
        [one] = tx.settlements.behind(PROJECT, "rain", 1, 10)
        assert (one.check, one.key, one.state, one.retracted) == (
            second,
            "key b",
            "waiting_external",
            False,
        )
        assert [each.check for each in tx.settlements.behind(PROJECT, "rain", 2, 10)] == [first, second]
        assert tx.settlements.behind("other", "rain", 2, 10) == []


def test_who_wants_a_check_and_since_when(store: SqlStore) -> None:
    pk = waiting(store, "a")
    with store.read() as tx:
        [one] = tx.settlements.wanting([pk])
        [standing] = tx.trajectories.standings([one.trajectory]).values()
    assert (one.check, one.registered_at) == (pk, standing.created_at)
    alter(store, "UPDATE trajectories SET registered_at = 5e9")
    with store.read() as tx:
        assert tx.settlements.wanting([pk])[0].registered_at == 5e9


def test_who_has_forecast_an_event(store: SqlStore) -> None:
    check = waiting(store, "a")
    waiting(store, "b", "snow")
    with store.begin() as tx:
        [(_, pk, _)] = tx.demands.wanting(check)
        tx.trajectories.attribute({pk: "ann"})
    with store.read() as tx:
        assert tx.settlements.forecast_by(PROJECT, ["rain", "snow", "hail"], "ann") == {"rain"}
        assert tx.settlements.forecast_by(PROJECT, ["rain"], "bob") == set()
        assert tx.settlements.forecast_by("another project", ["rain"], "ann") == set()


def test_questions_are_told_apart(store: SqlStore) -> None:
    first = waiting(store, "a")
    waiting(store, "b")
    with store.begin() as tx:
        cup = Question("categorical", ("A", "B"))
        tx.settlements.wait(PROJECT, first, "rain", cup, source=None, not_before=0.0)
        assert tx.settlements.questions(PROJECT, ["rain", "snow"]) == {"rain": [BINARY]}


def test_a_poll_is_claimed_once_and_ends_with_the_event(store: SqlStore) -> None:
    waiting(store, "a", source="m")
    waiting(store, "b", source="m")
    waiting(store, "c", "snow", source="n")
    with store.begin() as tx:
        [one] = tx.settlements.claim_polls(["m"], 10, 60.0)
    assert (one.event, one.source, one.failures) == ("rain", "m", 0)
    with store.begin() as tx:
        assert tx.settlements.claim_polls(["m"], 10, 60.0) == []
        tx.settlements.put_off(one.pk, 0.0, failures=2, error="x" * 999)
    with store.begin() as tx:
        [again] = tx.settlements.claim_polls(["m"], 10, 60.0)
        assert again == one._replace(failures=2)
        tx.settlements.put_off(one.pk, 0.0, failures=0, error=None)
        tx.settlements.pause("m", 60.0)
    with store.begin() as tx:
        assert tx.settlements.claim_polls(["m"], 10, 60.0) == []
        assert [each.event for each in tx.settlements.claim_polls(["n"], 10, 0.0)] == ["snow"]
    add(store, 1, YES)
    alter(store, "UPDATE event_polls SET next_at = 1.0")
    with store.begin() as tx:
        assert [each.event for each in tx.settlements.claim_polls(["m", "n"], 10, 0.0)] == ["snow"]


def test_the_earlier_time_of_two_is_when_it_is_asked(store: SqlStore) -> None:
    pk = waiting(store, "a")
    with store.begin() as tx:
        tx.settlements.wait(PROJECT, pk, "rain", BINARY, source="m", not_before=9e9)
        assert tx.settlements.claim_polls(["m"], 10, 0.0) == []
        tx.settlements.wait(PROJECT, pk, "rain", BINARY, source="m", not_before=0.0)
        tx.settlements.wait(PROJECT, pk, "rain", BINARY, source="m", not_before=9e9)
    with store.begin() as tx:
        assert len(tx.settlements.claim_polls(["m"], 10, 0.0)) == 1


def test_what_nobody_waits_for_is_not_asked(store: SqlStore) -> None:
    waiting(store, "a", source="m")
    alter(store, "UPDATE checks SET state = 'cancelled'")
    with store.begin() as tx:
        assert tx.settlements.claim_polls(["m"], 10, 0.0) == []


def test_a_check_that_is_about_to_be_told_has_no_deadline(store: SqlStore) -> None:
    first, second = waiting(store, "a"), waiting(store, "c", "snow")
    alter(store, "UPDATE checks SET deadline = 1.0")
    add(store, 1, YES)
    with store.read() as tx:
        assert tx.checks.with_passed_deadline(10) == [second]
    assert first != second
