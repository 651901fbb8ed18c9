"""What a worker holds while the database is away."""

from __future__ import annotations

from typing import Any

import pytest

from verifier_service.domain.checks import Claim
from verifier_service.domain.errors import Unavailable
from verifier_service.domain.evidence import Cost, Failure, Tier
from verifier_service.domain.ports.execution import Done, Released
from verifier_service.services.execute import Taken
from verifier_service.worker import hand as module
from verifier_service.worker.hand import Hand


def claim(pk: int) -> Claim:
    return Claim(
        pk=pk,
        fence=1,
        key=f"k{pk}",
        project="p",
        payer="r",
        verifier="v",
        version="1",
        tier=Tier.FAST,
        external=False,
        method="",
        params={},
        item="{}",
        attempt=0,
        max_attempts=3,
        replicate=0,
        deadline=None,
    )


def done(job: str) -> Done:
    failure = Failure(kind="transient", code="x", message="y", retryable=True)
    return Done(id=job, outcome=failure, cost=Cost(), wall_s=0.0, libraries={}, version="1")


def test_results_are_kept_until_the_database_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    reported: list[list[str]] = []
    away = [True]

    def report(_: Taken, results: list[Done | Released]) -> None:
        if away[0]:
            raise Unavailable("database_unavailable", "gone")
        reported.append([one.id for one in results])

    hand = Hand(report)
    claims: dict[str, Any] = {"1.1": claim(1), "2.1": claim(2)}
    hand.add(Taken(claims=claims, jobs=(), cut=frozenset(), ended=()))
    hand.keep(done("1.1"))
    hand.flush()
    assert (hand.unreported, len(hand), reported) == (1, 2, [])
    hand.keep(done("2.1"))
    away[0] = False
    hand.flush()
    assert (hand.unreported, len(hand), reported) == (0, 0, [["1.1", "2.1"]])


def test_an_absent_database_is_not_asked_at_once_again() -> None:
    asked: list[int] = []

    def report(_: Taken, results: list[Done | Released]) -> None:
        asked.append(len(results))
        raise Unavailable("database_unavailable", "gone")

    hand = Hand(report)
    hand.add(Taken(claims={"1.1": claim(1)}, jobs=(), cut=frozenset(), ended=()))
    hand.keep(done("1.1"))
    hand.flush()
    hand.flush()
    assert asked == [1]


def test_one_result_that_cannot_be_stored_takes_no_others_with_it() -> None:
    stored: list[str] = []

    def report(_: Taken, results: list[Done | Released]) -> None:
        if any(one.id == "2.1" for one in results):
            raise ValueError("a poisonous result")
        stored.extend(one.id for one in results)

    hand = Hand(report)
    claims = {f"{pk}.1": claim(pk) for pk in (1, 2, 3)}
    hand.add(Taken(claims=claims, jobs=(), cut=frozenset(), ended=()))
    for job in claims:
        hand.keep(done(job))
    hand.flush()
    assert stored == ["1.1", "3.1"]
    assert (hand.unreported, len(hand)) == (0, 0)


def test_the_last_report_does_not_wait_for_the_pause() -> None:
    asked: list[int] = []

    def report(_: Taken, results: list[Done | Released]) -> None:
        asked.append(len(results))
        if len(asked) == 1:
            raise Unavailable("database_unavailable", "gone")

    hand = Hand(report)
    hand.add(Taken(claims={"1.1": claim(1)}, jobs=(), cut=frozenset(), ended=()))
    hand.keep(done("1.1"))
    hand.flush()
    hand.flush(at_once=True)
    assert (asked, hand.unreported) == ([1, 1], 0)
