"""The history of attempts as a case shows it, and checks whose version nobody runs any more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.samples import alter
from tests.support.server import act, fresh, shared
from tests.support.story import PROJECT, Story, story, story_harness
from tiers.harness import ProcessHarness
from verifier_service.client import Client, Wait
from verifier_service.domain.evidence import Tier
from verifier_service.domain.history import Attempt, AttemptEnd
from verifier_service.domain.planning import here
from verifier_service.domain.ports.execution import Done
from verifier_service.domain.resources import Offer
from verifier_service.domain.wire import CheckLine
from verifier_service.domain.workers import Counts, VerifierHere, WorkerCard
from verifier_service.persistence.store import SqlStore
from verifier_service.services import maintain
from verifier_service.services.inspect_case import WholeCase, whole_case


@pytest.fixture(scope="module")
def harness() -> Iterator[ProcessHarness]:
    made = story_harness()
    yield made
    made.close()


@pytest.fixture
def told(tmp_path: Path, harness: ProcessHarness) -> Iterator[Story]:
    with story(tmp_path, harness) as made:
        yield made


@pytest.fixture
def client() -> Iterator[Client]:
    server = shared()
    with Client(server.url, server.key) as opened:
        yield opened


def checks(client: Client, run: str, id: str) -> list[CheckLine]:
    return [one.check for one in client.trajectory(run, id).demands if one.check is not None]


def shown(client: Client, run: str, id: str) -> tuple[Attempt, ...]:
    return checks(client, run, id)[-1].attempts


def test_a_check_that_was_judged_before_it_was_stored(client: Client) -> None:
    run, item = fresh(), act("ok", n=fresh())
    assert client.submit(run, [item], wait=Wait("final", 20)).complete
    [line] = checks(client, run, item["id"])
    [one] = line.attempts
    assert (one.number, one.end, one.code) == (1, AttemptEnd.SUCCEEDED, None)
    assert one.claimed_at is None
    assert one.ended_at is not None
    assert one.libraries.keys() == {"pydantic"}
    assert one.credits == line.credits


def test_a_check_that_was_claimed(client: Client) -> None:
    run, item = fresh(), act("sleep", s=0.4, n=fresh())
    client.submit(run, [item])
    assert client.query(run, [item["id"]], wait=Wait("final", 20)).complete
    [line] = checks(client, run, item["id"])
    [one] = line.attempts
    assert (one.number, one.end, one.version, line.version) == (1, AttemptEnd.SUCCEEDED, "1", "1")
    assert str(one.worker).startswith("embedded/")
    assert one.host
    assert one.queued_at is not None
    assert one.claimed_at is not None
    assert one.started_at is not None
    assert one.ended_at is not None
    assert one.queued_at <= one.claimed_at <= one.started_at < one.ended_at
    assert one.wall_s == pytest.approx(0.4, abs=0.3)
    assert one.peak_memory_mb is not None
    assert one.cpu_s == line.cost.cpu_s


def test_failures_are_named(client: Client) -> None:
    run = fresh()
    items = [act("raise_permanent", n=fresh()), act("exit", n=fresh())]
    client.submit(run, items)
    assert client.query(run, [item["id"] for item in items], wait=Wait("final", 30)).complete
    [refused] = shown(client, run, items[0]["id"])
    assert refused.end is AttemptEnd.FAILED
    assert refused.code
    crashed = shown(client, run, items[1]["id"])
    assert [(one.end, one.code) for one in crashed] == [
        *[(AttemptEnd.REQUEUED, "crashed")] * 2,
        (AttemptEnd.FAILED, "crashed"),
    ]


def whole(told: Story, id: str) -> WholeCase:
    with told.service.store.read() as tx:
        return whole_case(tx, told.service.catalog, PROJECT, "r", id)


def card(version: str, id: str = "vm/1", libraries: dict[str, str] | None = None) -> WorkerCard:
    return WorkerCard(
        id=id,
        host="vm",
        pid=1,
        tier=Tier.FAST,
        resources=Offer(cpus=1.0, memory_mb=1),
        verifiers=(VerifierHere(name="molecule.validity", version=version, libraries=libraries or {}),),
    )


def beat(told: Story, *cards: WorkerCard) -> None:
    with told.service.store.begin() as tx:
        tx.workers.beat([(one, Counts()) for one in cards])


def replaced(told: Story) -> int:
    """A trajectory whose gate is queued for a version of long ago; the pk of that check."""
    told.submit("r", {"id": "t", "answer": "CCO"})
    told.workers[0].drain_once()
    store = told.service.store
    assert isinstance(store, SqlStore)
    alter(store, "UPDATE checks SET version = 'old', method = 'old' WHERE verifier = 'molecule.validity'")
    [pk] = [demand.check.pk for demand in whole(told, "t").case.of_role("hard_gate") if demand.check]
    return pk


def rarely(told: Story) -> None:
    told.sweep._rare_due = 0.0
    told.sweep.tick()


def test_what_came_too_late_is_counted_as_rejected(told: Story) -> None:
    """Of two results one is taken; the other's lease was lost meanwhile."""
    told.submit("r", {"id": "a", "answer": "CCO"}, {"id": "b", "answer": "CCN"})
    taken = told.service.take(Tier.FAST, 64, "slow")
    assert len(taken.jobs) == 2
    done = list(told.service.harness().run(taken.jobs, lambda: ()))
    first, second = sorted(claim.pk for claim in taken.claims.values())
    store = told.service.store
    assert isinstance(store, SqlStore)
    alter(store, "UPDATE checks SET lease_until = 1.0 WHERE pk = :pk", pk=second)
    told.service.mend(maintain.reap)
    counted: list[Counts] = []
    told.service.report("slow", taken, [one for one in done if isinstance(one, Done)], counted.append)
    assert counted == [Counts(done=1, failed=0, rejected=1)]
    with store.read() as tx:
        ends = {pk: one.attempts[-1].end for pk, one in tx.checks.histories([first, second]).items()}
    assert ends == {first: AttemptEnd.SUCCEEDED, second: AttemptEnd.LOST}


def test_nobody_is_there(told: Story) -> None:
    pk = replaced(told)
    assert whole(told, "t").stuck == {pk: "no worker of tier fast is alive"}


def test_what_nobody_runs_any_more_is_asked_for_anew(told: Story) -> None:
    pk, mine = replaced(told), here(told.service.catalog, "molecule.validity")
    assert mine is not None
    beat(told, card(mine.version, libraries=mine.libraries))
    assert "runs molecule.validity old: vm has version" in whole(told, "t").stuck[pk]
    rarely(told)
    [again] = [one for one in whole(told, "t").case.of_role("hard_gate") if one.state == "requested"]
    assert again.check is not None
    assert again.check.pk != pk
    told.rest()
    assert told.latest("r", "t").tier is not None


@pytest.mark.parametrize("others", [[], ["old"], ["new"]])
def test_it_waits_while_somebody_may_run_it(told: Story, others: list[str]) -> None:
    """Nobody lives, or one with the old version does, or only one with yet another version."""
    pk = replaced(told)
    beat(told, *(card(version, f"vm/{version}") for version in others))
    rarely(told)
    [demand] = [one for one in whole(told, "t").case.of_role("hard_gate") if one.state == "requested"]
    assert demand.check is not None
    assert demand.check.pk == pk
