"""Submissions that come together share a transaction, and none of them can spoil it for the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from verifier_service import bootstrap
from verifier_service.api.gather import MAX_REQUESTS, Gatherer
from verifier_service.bootstrap import Service
from verifier_service.domain.errors import Conflict, Contended, InvalidInput
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.services.foresee import NOTHING, Foreseen
from verifier_service.services.intake import Intake
from verifier_service.settings import Settings


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    built = bootstrap.build(Settings(data=tmp_path, gather_ms=5.0))
    yield built
    built.store.close()


class Counting:
    """A store that counts its transactions and can be told to fail some."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.begun = 0
        self.fail: Callable[[int], Exception | None] = lambda number: None

    @contextmanager
    def begin(self) -> Iterator[Transaction]:
        self.begun += 1
        failure = self.fail(self.begun)
        with self.service.store.begin() as tx:
            yield tx
            if failure is not None:
                raise failure

    def __getattr__(self, name: str) -> Any:
        return getattr(self.service.store, name)


def item(name: str, answer: str = "CCO", ladder: str = "molecule-identity") -> TrajectorySubmission:
    return TrajectorySubmission.model_validate_json(
        json.dumps({"id": name, "ladder": ladder, "answer": answer})
    )


def together(service: Service, requests: Sequence[tuple[str, list[Any]]]) -> list[Intake | BaseException]:
    """Submit all at once; the outcomes in order."""

    async def go() -> list[Intake | BaseException]:
        gatherer = Gatherer(service)
        calls = [gatherer.submit("default", run, items) for run, items in requests]
        return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(go())


def statuses(outcome: Intake | BaseException) -> list[str]:
    assert isinstance(outcome, Intake), outcome
    return [result.status for result in outcome.results]


def test_concurrent_requests_share_one_transaction(service: Service) -> None:
    counting = Counting(service)
    counted = replace(service, store=counting)
    requests = [(f"run-{n % 3}", [item(f"t{n}"), item(f"u{n}")]) for n in range(60)]
    outcomes = together(counted, requests)
    assert counting.begun == 1
    for (_, items), outcome in zip(requests, outcomes, strict=True):
        assert statuses(outcome) == ["accepted", "accepted"]
        assert isinstance(outcome, Intake)
        assert [result.id for result in outcome.results] == [each.id for each in items]
        assert all(result.pk is not None for result in outcome.results)


def test_a_transaction_has_bounds(service: Service) -> None:
    counting = Counting(service)
    together(replace(service, store=counting), [("run", [item(f"t{n}")]) for n in range(MAX_REQUESTS + 1)])
    assert counting.begun == 2


def test_equal_ids_in_one_window_are_one_trajectory(service: Service) -> None:
    outcomes = together(
        service, [("run", [item("same")]) for _ in range(20)] + [("run", [item("same", "C")])]
    )
    assert (
        sorted(statuses(outcome)[0] for outcome in outcomes)
        == ["accepted", "conflict"] + ["duplicate"] * 19
    )


def test_a_closed_run_fails_alone(service: Service) -> None:
    together(service, [("closed", [item("t")])])
    service.close_run("default", "closed")
    outcomes = together(service, [("open", [item("a")]), ("closed", [item("b")]), ("open", [item("c")])])
    assert statuses(outcomes[0]) == statuses(outcomes[2]) == ["accepted"]
    assert isinstance(outcomes[1], Conflict)


def test_an_unexpected_error_hits_only_the_request_that_causes_it(service: Service) -> None:
    class Breaking(Service):
        def submit_in(
            self,
            tx: Transaction,
            project: str,
            run: str,
            items: Sequence[Any],
            foreseen: Foreseen = NOTHING,
        ) -> Intake:
            taken = super().submit_in(tx, project, run, items, foreseen)
            if any(getattr(each, "id", None) == "bad" for each in items):
                raise ZeroDivisionError("by hand")
            return taken

    parts = {name: getattr(service, name) for name in service.__dataclass_fields__}
    outcomes = together(Breaking(**parts), [("run", [item(name)]) for name in ("a", "bad", "b")])
    assert statuses(outcomes[0]) == statuses(outcomes[2]) == ["accepted"]
    assert isinstance(outcomes[1], ZeroDivisionError)
    with service.store.read() as tx:
        assert set(tx.trajectories.find("default", "run", ["a", "bad", "b"])) == {"a", "b"}


def test_a_domain_error_hits_only_the_request_that_causes_it(service: Service) -> None:
    class Refusing(Service):
        def submit_in(
            self, tx: Transaction, project: str, run: str, items: Sequence[Any], *rest: Any
        ) -> Intake:
            taken = super().submit_in(tx, project, run, items, *rest)
            if any(getattr(each, "id", None) == "bad" for each in items):
                raise InvalidInput("by_hand", "by hand")
            return taken

    parts = {name: getattr(service, name) for name in service.__dataclass_fields__}
    requests = [("run", [item(name)]) for name in ("a", "bad", "b")]
    outcomes = together(Refusing(**parts), [*requests, ("other", [item("c")])])
    assert [statuses(outcomes[at]) for at in (0, 2, 3)] == [["accepted"]] * 3
    assert isinstance(outcomes[1], InvalidInput)
    with service.store.read() as tx:
        assert set(tx.trajectories.find("default", "run", ["a", "bad", "b"])) == {"a", "b"}


def test_contention_is_tried_again_as_a_whole(service: Service) -> None:
    counting = Counting(service)
    counting.fail = lambda number: Contended("busy", "by hand") if number <= 2 else None
    outcomes = together(replace(service, store=counting), [("run", [item("a")]), ("run", [item("b")])])
    assert [statuses(outcome) for outcome in outcomes] == [["accepted"], ["accepted"]]
    assert counting.begun == 3


def test_endless_contention_is_told_to_everybody(service: Service) -> None:
    counting = Counting(service)
    counting.fail = lambda number: Contended("busy", "by hand")
    outcomes = together(replace(service, store=counting), [("run", [item("a")]), ("run", [item("b")])])
    assert all(isinstance(outcome, Contended) for outcome in outcomes)


def test_errors_of_items_keep_their_places(service: Service) -> None:
    bad = InvalidInput("not_finite", "by hand", field="x")
    [outcome] = together(service, [("run", [item("a"), bad, item("b", ladder="nobody"), item("c")])])
    assert statuses(outcome) == ["accepted", "invalid", "invalid", "accepted"]


def test_a_dispatcher_that_fails_holds_up_nobody(service: Service) -> None:
    """Its batch is told, and those that come after it are taken in."""

    class Broken:
        broken = True

        def wake(self, tiers: object) -> None:
            if self.broken:
                raise ConnectionError("gone")

        def announce(self, project: str, run: str) -> None:
            """Nobody listens."""

    dispatcher = Broken()
    gatherer = Gatherer(replace(service, dispatcher=dispatcher))  # type: ignore[arg-type]

    async def go() -> tuple[Any, Any]:
        first = await asyncio.gather(gatherer.submit("default", "r", [item("a")]), return_exceptions=True)
        dispatcher.broken = False
        return first[0], await asyncio.wait_for(gatherer.submit("default", "r", [item("b")]), 30)

    failed, taken = asyncio.run(asyncio.wait_for(go(), 60))
    assert isinstance(failed, ConnectionError)
    assert statuses(taken) == ["accepted"]
