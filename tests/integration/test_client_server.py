"""The clients against a real server process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import server as servers
from tests.support.server import Server
from verifier_service.cli.demo_server import free_port
from verifier_service.client import (
    AsyncClient,
    Client,
    Conflict,
    InvalidRequest,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    VerifierUnavailable,
    Wait,
)
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.wire import RewardsAnswer, SubmitStatus

REVIEWED = {
    "name": "reviewed-identity",
    "candidate": {"kind": "molecule", "format": "smiles", "from": "answer"},
    "outcome": {"use": "molecule.identity"},
    "truth": "fast",
    "tiers": {
        "fast": [{"use": "molecule.validity", "gate": "hard"}, {"use": "molecule.identity"}],
        "lab": [{"use": "review", "params": {"queue": "chemists"}}],
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.running(tmp_path_factory.mktemp("client")) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, server.key, retry_s=20.0) as client:
        yield client


def item(answer: str = "CCO", *, ladder: str = "molecule-identity", **members: Any) -> dict[str, Any]:
    return {"ladder": ladder, "answer": answer, "problem": {"reference": {"smiles": "CCO"}}, **members}


def test_rewards_come_back_in_the_order_of_submission(client: Client) -> None:
    answers = ["OCC", "CCC", "C(", "CCO"]
    response = client.submit("order", [item(answer) for answer in answers], wait=Wait("final", 60))
    assert response.complete
    rewards = [result.reward.reward for result in response.results if result.reward is not None]
    assert rewards == [1.0, 0.0, 0.0, 1.0]


def test_submitting_again_repeats_nothing(client: Client) -> None:
    first = client.submit("again", [item(id="a"), item(id="b")], wait=Wait("final", 60))
    second = client.submit("again", [item(id="a"), item("CCC", id="b"), item(id="c/1")])
    assert [result.status for result in second.results] == ["duplicate", "conflict", "accepted"]
    assert client.run("again").trajectories == 3
    assert first.results[0].reward == client.query("again", ["a"]).records[0]
    assert client.trajectory("again", "c/1").id == "c/1"


def test_bad_items_keep_nobody_from_going(client: Client) -> None:
    bad: list[Any] = [
        item(ladder="nothing"),
        {"ladder": 3},
        item(extra=1),
        item(metadata={"x": float("nan")}),
    ]
    response = client.submit("bad", [item(), *bad, item()], wait=Wait("final", 60))
    statuses = [result.status for result in response.results]
    assert statuses == ["accepted", *[SubmitStatus.INVALID] * 4, "accepted"]
    assert all(result.error is not None for result in response.results[1:5])
    assert response.results[5].reward is not None


def test_the_feed_is_followed_and_resumed(client: Client) -> None:
    client.submit("feed", [item(id=f"t{place}") for place in range(20)], wait=Wait("final", 60))
    seen = list(client.follow("feed", idle_s=0.5))
    assert [record.seq for record in seen] == list(range(1, len(seen) + 1))
    rest = list(client.follow("feed", after=seen[4].seq, idle_s=0.5))
    assert rest == seen[5:]
    only = client.rewards("feed", limit=3)
    assert list(only.records) == seen[:3]
    assert client.rewards("feed", after=only.cursor, limit=1).records[0] == seen[3]


def test_an_open_trajectory_grows(client: Client) -> None:
    ladder = client.ladder("molecule-identity").spec.model_dump(mode="json", by_alias=True)
    process = {"weight": 0.5, "checks": [{"use": "turns.tool_calls"}]}
    client.put_ladder("with-process", {**ladder, "name": "with-process", "process": process})
    client.submit("grow", [item(ladder="with-process", id="a", finished=False) | {"answer": None}])
    turn = {
        "calls": [{"id": "1", "name": "f", "arguments": "{"}],
        "observations": [{"call": "1", "text": "x"}],
    }
    grown = client.grow("grow", "a", index=0, turns=[turn, {"message": "hm"}], wait_s=30)
    assert (grown.changed, grown.n_turns) == (True, 2)
    assert _until(client, "grow", lambda record: record.process == (0.0, None)).reward is None
    again = client.grow("grow", "a", index=0, turns=[turn, {"message": "hm"}])
    assert not again.changed
    with pytest.raises(Conflict) as gap:
        client.grow("grow", "a", index=7, turns=[turn])
    assert gap.value.code == "turn_gap"
    client.grow("grow", "a", index=2, answer="CCO", finished=True)
    assert _until(client, "grow", lambda record: record.status == "final").outcome == 1.0
    answer = client.query("grow", ["b", "a"], wait=Wait("final", 60))
    assert answer.complete
    assert answer.unknown == ("b",)
    assert answer.records[0].reward == 1.0


def test_groups_and_cancelling(client: Client) -> None:
    answers = [("a", "CCO"), ("b", "CCC")]
    client.submit("group", [item(one, id=name, group="g") for name, one in answers], wait=Wait("final", 60))
    advantages = client.group("group", "g", estimator="dr_grpo", ddof=1)
    assert [member.advantage for member in advantages.members] == [0.5, -0.5]
    client.submit("group", [item(id="c", finished=False)])
    assert client.cancel("group", "c").cancelled
    reason = client.query("group", ["c"], wait=Wait("final", 30)).records[0].reason
    assert reason is not None
    assert reason.code == "cancelled"


def test_runs_ladders_verifiers_and_keys(client: Client, server: Server) -> None:
    report = client.put_run("budgeted", {"budgets": {"compute": 1.5}})
    assert client.run("budgeted").run.spec == report.run.spec
    assert "budgeted" in [run.id for run in client.runs()]
    assert {"organic-gap", "molecule-identity"} <= {ladder.name for ladder in client.ladders()}
    assert any(item.info.name == "review" for item in client.verifiers())
    created = client.create_key("reader", ["read"])
    with Client(server.url, created.token) as reader:
        assert reader.run("budgeted").trajectories == 0
        with pytest.raises(NotAllowed):
            reader.submit("budgeted", [item()])
    assert client.revoke_key(created.key.id).revoked_at is not None
    with Client(server.url, created.token) as reader, pytest.raises(NotAuthenticated):
        reader.run("budgeted")
    assert client.close_run("budgeted").run.id == "budgeted"


def test_refusals_are_typed(client: Client, server: Server) -> None:
    with Client(server.url, "vk_no.key") as stranger, pytest.raises(NotAuthenticated):
        stranger.ladders()
    with pytest.raises(NotFound):
        client.run("never")
    with pytest.raises(InvalidRequest) as refused:
        client.put_ladder("odd", {**REVIEWED, "name": "odd", "outcome": {"use": "Not A Name"}})
    assert refused.value.field == "outcome.use"
    assert refused.value.detail


def test_a_server_that_is_not_there() -> None:
    began = time.monotonic()
    with (
        Client(f"http://127.0.0.1:{free_port()}", "k", retry_s=1.0) as client,
        pytest.raises(VerifierUnavailable),
    ):
        client.ladders()
    assert time.monotonic() - began < 10.0


def test_hundreds_of_concurrent_singles(server: Server) -> None:
    async def play() -> list[float | None]:
        async with AsyncClient(server.url, server.key, retry_s=30.0) as client:
            calls = [
                client.submit("singles", [item("CCO" if place % 2 else "CC")], wait=Wait("final", 120))
                for place in range(200)
            ]
            responses = await asyncio.gather(*calls)
            followed = [record async for record in client.follow("singles", idle_s=0.5)]
        assert len({record.trajectory for record in followed}) == 200
        return [response.results[0].reward.reward for response in responses if response.results[0].reward]

    assert asyncio.run(play()) == [float(place % 2) for place in range(200)]


def test_a_wait_survives_a_killed_server(tmp_path: Path) -> None:
    """The review is decided after the restart, by a server that has never seen the waiting client."""
    port = str(free_port())
    server = servers.start(tmp_path, port=port, review_grace_s="0")
    with Client(server.url, server.key, retry_s=60.0) as client:
        client.put_ladder("reviewed-identity", REVIEWED)
        answers: list[RewardsAnswer] = []
        client.submit("restart", [item(ladder="reviewed-identity", id="a")])
        waiting = threading.Thread(
            target=lambda: answers.append(client.query("restart", ["a"], wait=Wait("final", 120)))
        )
        waiting.start()
        _review(client)
        server.kill()
        time.sleep(1.0)
        assert waiting.is_alive()
        with servers.running(tmp_path, port=port, review_grace_s="0"):
            review = _review(client)
            client.claim(reviewer="ann", review=review)
            client.decide(review, reviewer="ann", verdict="reject", reason="smells")
            waiting.join(60.0)
        assert answers
        assert answers[0].complete
        record = answers[0].records[0]
        assert (record.status, record.reward) == ("final", 0.0)
    if server.process.stdout is not None:
        server.process.stdout.close()


def test_a_submission_survives_a_server_that_comes_late(tmp_path: Path) -> None:
    port = free_port()
    with servers.running(tmp_path, port=str(port)) as first:
        url, key = first.url, first.key
    with Client(url, key, retry_s=60.0) as client:
        results: list[Any] = []
        sending = threading.Thread(
            target=lambda: results.extend(
                client.submit("late", [item(id="a")], wait=Wait("final", 60)).results
            )
        )
        sending.start()
        time.sleep(0.5)
        with servers.running(tmp_path, port=str(port)):
            sending.join(60.0)
    assert results[0].reward.reward == 1.0


def _until(client: Client, run: str, seen: Callable[[RewardRecord], bool]) -> RewardRecord:
    return next(record for record in client.follow(run, idle_s=60.0) if seen(record))


def _review(client: Client) -> str:
    ends = time.monotonic() + 60.0
    while time.monotonic() < ends:
        found = client.reviews(state="open")
        if found:
            return found[0].id
        time.sleep(0.1)
    raise AssertionError("no review was opened")
