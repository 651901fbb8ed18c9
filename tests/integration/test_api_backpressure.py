"""More than is taken: it is refused whole, says when to come again, and costs time and nothing else."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import JUDGED, Server, act, fresh, identity, patience
from verifier_service.api import backpressure
from verifier_service.api.backpressure import BURST_S, Queues, Rate
from verifier_service.client import Client, VerifierUnavailable, Wait
from verifier_service.domain.trajectories import TrajectorySubmission

COUNT = 2_000
PIECE = 100
PUSHERS = 4
Told = dict[str, tuple[str, float | None, str | None]]


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("rates")
    with server.running(folder, rate_trajectories="50", rate_requests="40") as running:
        yield running


def keyed(running: Server, *scopes: str) -> httpx.Client:
    """A client with a key of its own: rates are per key."""
    with running.client() as admin:
        made = admin.post("/v1/keys", json={"name": "k", "scopes": list(scopes or ("submit", "read"))})
    headers = {"Authorization": f"Bearer {made.json()['token']}"}
    return httpx.Client(base_url=running.url, headers=headers, timeout=60)


def push(client: httpx.Client, run: str, *items: dict[str, Any]) -> httpx.Response:
    return client.post(f"/v1/runs/{run}/trajectories", json={"trajectories": list(items)})


def is_refused(answer: httpx.Response, code: str, limit: float, field: str) -> int:
    """Whether it is the problem that it should be; the seconds to wait."""
    body = answer.json()
    assert answer.status_code == 429, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert (body["code"], body["limit"], body["field"], body["retryable"]) == (code, limit, field, True)
    seconds = int(answer.headers["retry-after"])
    assert f"try again in {seconds} s" in body["detail"]
    return seconds


def test_a_rate_is_a_rate_with_a_second_to_spend_at_once() -> None:
    rate = Rate(10.0)
    taken = [at / 100 for at in range(500) if rate.take("k", 1, at / 100) == 0.0]
    assert len(taken) == pytest.approx(10 * (5 + BURST_S), abs=1)
    assert sum(at < 0.2 for at in taken) == pytest.approx(10 + 2, abs=1)
    assert rate.take("other", 1, 5.0) == 0.0


def test_what_was_taken_too_much_is_waited_for_and_no_longer() -> None:
    rate = Rate(10.0)
    assert rate.take("k", 100, 0.0) == 0.0, "the largest batch passes the smallest rate"
    seconds = rate.take("k", 1, 0.0)
    assert seconds == pytest.approx(9.0)
    assert rate.take("k", 1, seconds - 0.01) > 0.0
    assert rate.take("k", 1, seconds + 0.001) == 0.0


def test_a_rate_forgets_keys_that_are_quiet() -> None:
    rate = Rate(10.0)
    for number in range(20_000):
        rate.take(f"k{number}", 1, number / 1000)
    assert len(rate._due) <= 4_200


def test_a_key_that_sends_too_much_is_told_when_to_come_again(limited: Server) -> None:
    run = fresh()
    with keyed(limited) as client, keyed(limited) as other:
        first = [identity("CCO") for _ in range(100)]
        assert push(client, run, *first).status_code == 202
        late = identity("CCO")
        seconds = is_refused(push(client, run, late), "rate_limited", 50, "trajectories")
        assert seconds in (1, 2)
        assert client.get(f"/v1/runs/{run}/trajectories/{late['id']}").status_code == 404
        assert client.get(f"/v1/runs/{run}").json()["trajectories"] == 100
        assert push(other, run, identity("CCO")).status_code == 202, "another key has its own rate"
        time.sleep(seconds)
        assert push(client, run, late).status_code in (200, 202), "what was promised is kept"


def test_shims_are_bound_by_the_same_rate(limited: Server) -> None:
    body = {
        "query": ["p"] * 200,
        "response": ["\\boxed{1}"] * 200,
        "prompts": ["p"] * 200,
        "labels": ["1"] * 200,
    }
    path = f"/v1/score/{fresh()}/math?format=openrlhf&seconds=30"
    with keyed(limited) as client:
        assert client.post(path, json=body).status_code == 200
        is_refused(client.post(path, json=body), "rate_limited", 50, "trajectories")


def test_a_key_that_calls_too_often_is_told(limited: Server) -> None:
    with keyed(limited) as client:
        answers = [client.get("/v1/runs") for _ in range(160)]
        refused = [answer for answer in answers if answer.status_code != 200]
        assert refused
        assert is_refused(refused[0], "rate_limited", 40, "requests") == 1
        assert client.get("/healthz").status_code == 200
        time.sleep(1)
        assert client.get("/v1/runs").status_code == 200


def test_the_client_waits_as_long_as_it_is_told(limited: Server) -> None:
    run, seen = fresh(), Counter[int]()
    with keyed(limited) as made, Client(limited.url, made.headers["Authorization"].split()[1]) as client:
        client._http.event_hooks = {"response": [lambda answer: seen.update([answer.status_code])]}
        started = time.monotonic()
        for _ in range(4):
            answer = client.submit(run, [identity("CCO") for _ in range(75)])
            assert {str(result.status) for result in answer.results} == {"accepted"}
        # 300 at 50 a second: the first second's worth is free, and the last batch is not waited for.
        assert time.monotonic() - started > (300 - 75 - 50) / 50
        assert seen[429] >= 2
        assert seen[429] <= 6, "it does not knock before it was told to"


def items(count: int) -> list[dict[str, Any]]:
    """Right, wrong, broken and unverifiable answers, each different."""
    made = []
    for number in range(count):
        kind, length = number % 5, 1 + number // 5 % 60
        gold: str | None = "C" * length + "O"
        answer = ["O" + "C" * length, "C" * length + "N", "C(" + "C" * length, "CO" + "C" * length, "CC"][
            kind
        ]
        made.append(identity(answer, None if kind == 4 else gold) | {"id": f"t{number}"})
    return made


def rewards(client: Client, run: str, count: int) -> Told:
    answer = client.query(run, [f"t{number}" for number in range(count)], wait=Wait("final", 240))
    assert answer.complete
    return {
        record.trajectory: (str(record.status), record.reward, record.reason and record.reason.detail)
        for record in answer.records
    }


def test_a_full_queue_makes_it_slower_and_changes_no_reward(tmp_path: Path) -> None:
    shared, run, seen = server.shared(), fresh(), Counter[int]()
    with Client(shared.url, shared.key) as client:
        client.submit(run, items(COUNT))
        unhindered = rewards(client, run, COUNT)
    assert len(unhindered) == COUNT
    assert len(set(unhindered.values())) >= 4
    with (
        server.running(tmp_path, max_queued="20") as tight,
        Client(tight.url, tight.key, retry_s=240) as client,
    ):
        client._http.event_hooks = {"response": [lambda answer: seen.update([answer.status_code])]}
        sent = items(COUNT)
        pieces = [sent[at : at + PIECE] for at in range(0, COUNT, PIECE)]
        with ThreadPoolExecutor(PUSHERS) as pushers:
            handed = list(pushers.map(lambda piece: client.submit(run, piece), pieces))
        hindered = rewards(client, run, COUNT)
    assert {str(result.status) for answer in handed for result in answer.results} == {"accepted"}
    assert seen[429] > 0, "the queue was never full"
    assert hindered == unhindered


def test_a_run_with_a_full_queue_is_told_and_others_are_not(tmp_path: Path) -> None:
    with server.running(tmp_path, max_queued="3", fast_batch="1") as tight, tight.client() as client:
        client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
        full = [act("sleep", s=1.5, n=number) for number in range(12)]
        assert push(client, "full", *full).status_code == 202
        late = act("ok", n="late")
        time.sleep(0.3)
        started = time.monotonic()
        seconds = is_refused(push(client, "full", late), "queue_full", 3, "trajectories")
        assert 1 <= seconds <= 30
        assert client.get(f"/v1/runs/full/trajectories/{late['id']}").status_code == 404
        assert client.get("/v1/runs/full").json()["trajectories"] == 12
        assert push(client, "other", late).status_code == 202
        with Client(tight.url, tight.key, retry_s=1) as hasty, pytest.raises(VerifierUnavailable) as raised:
            hasty.submit("full", [late])
        assert raised.value.problem is not None
        assert raised.value.problem.code == "queue_full"
        with Client(tight.url, tight.key) as patient:
            answer = patient.submit("full", [late], wait=Wait("final", 60))
        assert answer.results[0].reward is not None
        assert answer.results[0].reward.reward == 1.0
        assert time.monotonic() - started < patience(40)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A queue for three checks, and nobody who empties it."""
    folder = tmp_path_factory.mktemp("full")
    with server.running(folder, max_queued="3", embedded_workers="false") as running:
        with running.client() as client:
            client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
        yield running


def fill(client: httpx.Client, run: str) -> list[dict[str, Any]]:
    """Three trajectories with a check each, so that the queue is full."""
    sent = [act("ok", n=1, of=run), act("ok", n=2, of=run), act("ok", n=3, of=run)]
    assert push(client, run, *sent).status_code == 202
    is_refused(push(client, run, act("ok", n=4, of=run)), "queue_full", 3, "trajectories")
    return sent


def test_a_full_queue_takes_what_adds_nothing_to_it(full: Server) -> None:
    run = fresh()
    with full.client() as client:
        sent = fill(client, run)
        again = push(client, run, *sent)
        assert again.status_code in (200, 202)
        assert {result["status"] for result in again.json()["results"]} == {"duplicate"}
        other = push(client, run, sent[0] | {"answer": {"do": "other"}})
        assert other.json()["results"][0]["error"]["code"] == "id_conflict"
        assert push(client, run).status_code == 200, "an empty batch"
        for invalid in ({"ladder": "nope"}, identity("CCO") | {"ladder": "nope"}):
            [result] = push(client, run, invalid).json()["results"]
            assert result["status"] == "invalid"
        for late in ({"id": fresh("t")}, {"id": None}):
            mixed = push(client, run, *sent, act("ok", n=5, of=run) | late)
            is_refused(mixed, "queue_full", 3, "trajectories")
        assert client.get(f"/v1/runs/{run}").json()["trajectories"] == 3


def test_a_full_queue_takes_repeats_of_items_without_a_name(full: Server) -> None:
    run = fresh()
    with full.client() as client:
        nameless = {key: value for key, value in act("ok", n=7, of=run).items() if key != "id"}
        assert push(client, run, nameless).status_code == 202
        fill(client, run)
        [result] = push(client, run, nameless).json()["results"]
        assert result["status"] == "accepted"
        is_refused(
            push(client, run, nameless, nameless | {"group": "new"}), "queue_full", 3, "trajectories"
        )


def test_a_closed_run_is_a_conflict_however_full_its_queue_is(full: Server) -> None:
    run = fresh()
    with full.client() as client:
        fill(client, run)
        client.post(f"/v1/runs/{run}/close").raise_for_status()
        answer = push(client, run, act("ok", n=4, of=run))
        assert (answer.status_code, answer.json()["code"]) == (409, "run_closed")


def test_a_full_queue_lets_trajectories_end(full: Server) -> None:
    run, turn = fresh(), {"message": "so"}
    with full.client() as client:
        growing = act("ok", n=0, of=run) | {"turns": [turn], "finished": False}
        assert push(client, run, growing).status_code == 200, "nothing of it is checked yet"
        fill(client, run)
        path = f"/v1/runs/{run}/trajectories/{growing['id']}/turns"
        none: dict[str, Any] = {"wait": {"seconds": 0}}
        is_refused(
            client.post(path, json={"index": 1, "turns": [turn], **none}), "queue_full", 3, "trajectories"
        )
        gap = client.post(path, json={"index": 4, "turns": [turn], **none})
        assert (gap.status_code, gap.json()["code"]) == (409, "turn_gap")
        assert client.post(path, json={"index": 0, "turns": [turn], **none}).json()["changed"] is False
        lost = client.post(path.replace(growing["id"], "nobody"), json={"index": 0, "turns": [turn]})
        assert lost.status_code == 404
        ended = client.post(path, json={"index": 1, "turns": [turn], "finished": True, **none})
        assert ended.status_code in (200, 202), ended.text
        assert ended.json()["finished"] is True


def test_a_trainers_repeat_waits_on_where_the_queue_is_full(full: Server) -> None:
    run = fresh()
    body = {"query": ["p"], "response": ["\\boxed{1}"], "prompts": ["p"], "labels": ["1"]}
    path = f"/v1/score/{run}/math?format=openrlhf&seconds=0"
    with full.client() as client:
        assert client.post(path, json=body).status_code == 200
        fill(client, run)
        assert client.post(path, json=body).status_code == 200
        is_refused(client.post(path, json=body | {"labels": ["2"]}), "queue_full", 3, "trajectories")


class Slow:
    """A store whose count takes a twentieth of a second."""

    def __init__(self) -> None:
        self.counts = 0

    @contextmanager
    def read(self) -> Iterator[Any]:
        self.counts += 1
        time.sleep(0.05)
        yield self

    @property
    def runs(self) -> Slow:
        return self

    def queued(self, most: int) -> dict[tuple[str, str], int]:
        assert most >= 30
        return {("p", "r"): 10}


def test_counting_takes_a_twentieth_of_the_time_however_much_there_is_to_count() -> None:
    store: Any = Slow()
    queues = Queues(store, 1_000_000)

    async def go() -> None:
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            await asyncio.gather(*[queues.require_room(("p", "r")) for _ in range(50)])
            queues.add(("p", "r"), 50)
            await asyncio.sleep(0.001)

    asyncio.run(go())
    assert 2 <= store.counts <= 4


def test_equal_items_are_reckoned_as_one_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backpressure, "FRESH_S", 60.0)
    monkeypatch.setattr(backpressure, "AGAIN_S", 60.0)
    settings = SimpleNamespace(rate_requests=None, rate_trajectories=None, max_queued=15)
    service: Any = SimpleNamespace(settings=settings, store=Slow())
    key: Any = SimpleNamespace(project="p", id="k")
    equal, other = act("ok", n=8), act("ok", n=9)
    batch = [TrajectorySubmission.model_validate(equal | {"id": fresh("t")}) for _ in range(5)]

    async def go() -> int:
        admission = backpressure.Admission(service)
        await admission.batch(key, "r", batch)  # ten are there
        await admission.batch(key, "r", [TrajectorySubmission.model_validate(other)])
        return admission._queues._reckoned(("p", "r"))

    assert asyncio.run(go()) == 10 + 1 + 1
