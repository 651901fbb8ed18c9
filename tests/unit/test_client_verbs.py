"""Submitting and waiting, against scripted answers."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.support.client_world import Handler, World, reply
from verifier_service.client import TooLarge, UnexpectedAnswer, VerifierUnavailable, Wait, batches
from verifier_service.client.calls import Answer, Call, Lost
from verifier_service.client.trajectories import query, rewards, submit
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.domain.wire import SubmitStatus

RECORD = {
    "run": "r",
    "ladder": "l",
    "ladder_version": 1,
    "issued_at": "2026-01-01T00:00:00Z",
    "status": "provisional",
    "reward": 0.5,
}


def taken(body: dict[str, Any], **members: Any) -> dict[str, Any]:
    results = [{"id": item["id"], "status": "accepted"} for item in body["trajectories"]]
    return {"results": results, "complete": True, "cursor": 7, **members}


def accept(_call: Call[Any], body: dict[str, Any]) -> Answer:
    return reply(200, taken(body))


def item(**members: Any) -> dict[str, Any]:
    return {"ladder": "l", "answer": "CCO", **members}


def test_items_without_an_id_get_one_and_retries_repeat_it() -> None:
    seen: list[str] = []

    def handler(call: Call[Any], body: dict[str, Any]) -> Answer | Lost:
        seen.extend(one["id"] for one in body["trajectories"])
        return Lost(cause="cut", delivered=True) if len(seen) < 3 else accept(call, body)

    world = World(handler)
    response = world.run(submit(world.session(), "r", [item()]))
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert response.results[0].id == seen[0]


def test_equal_items_are_separate_samples() -> None:
    world = World(accept)
    first, second = world.run(submit(world.session(), "r", [item(), item()])).results
    assert first.id != second.id


def test_records_and_mappings_go_alike() -> None:
    world = World(accept)
    record = TrajectorySubmission(id="a", ladder="l", answer="CCO")
    results = world.run(submit(world.session(), "r", [record, item(id="b")])).results
    assert [result.id for result in results] == ["a", "b"]
    sent = json.loads(world.sent[0].body or b"")["trajectories"]
    assert sent[0] == {"id": "a", "ladder": "l", "answer": "CCO"}


def test_what_is_not_json_costs_only_itself() -> None:
    world = World(accept)
    bad = [item(id="nan", metadata={"x": math.nan}), item(id="object", metadata={"x": object()})]
    results = world.run(submit(world.session(), "r", [item(id="a"), *bad, item(id="b")])).results
    assert [result.id for result in results] == ["a", "nan", "object", "b"]
    assert [result.status for result in results] == ["accepted", "invalid", "invalid", "accepted"]
    assert results[1].error is not None
    assert results[1].error.code == "not_json"


def test_nothing_to_send_sends_nothing() -> None:
    world = World(accept)
    response = world.run(submit(world.session(), "r", [], wait=Wait("final", 5.0)))
    assert (response.results, response.complete, world.sent) == ((), True, [])


def test_big_batches_go_in_pieces_in_order() -> None:
    world = World(accept)
    ids = [f"t{place}" for place in range(batches.MAX_ITEMS * 2 + 1)]
    results = world.run(submit(world.session(), "r", [item(id=one) for one in ids])).results
    assert [result.id for result in results] == ids
    assert len(world.sent) == 3


def test_pieces_are_cut_by_bytes_too() -> None:
    packed, _ = batches.pack([item(id=str(place), answer="C" * 100) for place in range(10)])
    assert [len(piece) for piece in batches.chunks(packed, max_bytes=450)] == [3, 3, 3, 1]
    assert [len(piece) for piece in batches.chunks(packed, max_bytes=1)] == [1] * 10


def test_a_body_that_is_too_large_is_halved_down_to_the_item() -> None:
    def handler(call: Call[Any], body: dict[str, Any]) -> Answer:
        if sum(len(one["answer"]) for one in body["trajectories"]) > 100:
            return reply(413, {"status": 413, "code": "body_too_large"})
        return accept(call, body)

    world = World(handler)
    lengths = [10, 10, 500, 10]
    sent = [item(id=str(place), answer="C" * length) for place, length in enumerate(lengths)]
    results = world.run(submit(world.session(), "r", sent)).results
    assert [result.status for result in results] == ["accepted", "accepted", "invalid", "accepted"]
    assert results[2].error is not None
    assert results[2].error.code == "too_large"


def test_results_that_belong_to_others_are_not_believed() -> None:
    def swapped(_call: Call[Any], body: dict[str, Any]) -> Answer:
        return reply(200, taken(body, results=taken(body)["results"][::-1]))

    world = World(swapped)
    with pytest.raises(UnexpectedAnswer):
        world.run(submit(world.session(), "r", [item(id="a"), item(id="b")]))


def test_a_missing_result_is_not_believed() -> None:
    def short(_call: Call[Any], body: dict[str, Any]) -> Answer:
        return reply(200, taken(body, results=taken(body)["results"][:1]))

    world = World(short)
    with pytest.raises(UnexpectedAnswer):
        world.run(submit(world.session(), "r", [item(id="a"), item(id="b")]))


def answering(looks: int, *, lost: frozenset[int] = frozenset()) -> Handler:
    """Accept at once; rewards are there at the given look, and some looks find no server."""
    asked = iter(range(1, 1_000_000))

    def handler(call: Call[Any], body: dict[str, Any]) -> Answer | Lost:
        if call.path.endswith("/trajectories"):
            return reply(202, taken(body, complete=False))
        look = next(asked)
        if look in lost:
            return Lost(cause="restarting", delivered=False)
        records = [RECORD | {"seq": look, "trajectory": one, "revision": look} for one in body["ids"]]
        return reply(200, {"records": records, "complete": look >= looks, "cursor": look})

    return handler


def test_a_long_wait_is_made_of_short_ones() -> None:
    world = World(answering(5))
    response = world.run(submit(world.session(), "r", [item(id="a")], wait=Wait("final", 3_600.0)))
    assert response.complete
    assert response.results[0].reward is not None
    assert response.results[0].reward.revision == 5
    waits = [json.loads(call.body or b"")["wait"]["seconds"] for call in world.sent]
    assert max(waits) == 120.0


def test_a_wait_survives_a_restart_and_uploads_once() -> None:
    world = World(answering(6, lost=frozenset({2, 3, 4})))
    response = world.run(submit(world.session(), "r", [item(id="a")], wait=Wait("final", 600.0)))
    assert response.complete
    assert sum(call.path.endswith("/trajectories") for call in world.sent) == 1


def test_a_wait_ends_with_what_is_known() -> None:
    world = World(answering(10_000))
    began = world.now
    response = world.run(submit(world.session(), "r", [item(id="a")], wait=Wait("final", 30.0)))
    assert not response.complete
    assert response.results[0].reward is not None
    assert 29.0 <= world.now - began <= 32.0


def test_a_server_that_stays_away_during_a_wait_is_reported() -> None:
    world = World(answering(10_000, lost=frozenset(range(2, 10_000))))
    with pytest.raises(VerifierUnavailable):
        world.run(submit(world.session(), "r", [item(id="a")], wait=Wait("final", 3_600.0)))


def test_a_wait_over_several_pieces_hands_all_in_first() -> None:
    world = World(answering(1))
    count = batches.MAX_ITEMS + 1
    sent = [item(id=f"t{place}") for place in range(count)]
    response = world.run(submit(world.session(), "r", sent, wait="fast"))
    assert response.complete
    assert all(result.reward is not None for result in response.results)
    assert world.paths() == ["trajectories", "trajectories", "query"]


def test_nothing_is_asked_in_a_tight_loop() -> None:
    world = World.saying(reply(200, {"records": [], "complete": False, "cursor": 0}))
    world.run(query(world.session(), "r", ["a"], wait=Wait("final", 10.0)))
    assert len(world.sent) <= 12


def test_queries_of_many_ids_are_merged_in_order() -> None:
    world = World(answering(1))
    ids = [f"t{place}" for place in range(2_500)]
    answer = world.run(query(world.session(), "r", ids))
    assert [record.trajectory for record in answer.records] == ids
    assert len(world.sent) == 3


def test_an_empty_page_moves_the_cursor_and_the_wait_goes_on() -> None:
    record = RECORD | {"seq": 10, "trajectory": "a", "revision": 0}
    pages = iter([{"records": [], "cursor": 9}, {"records": [record], "cursor": 10}])
    asked: list[Any] = []

    def handler(_call: Call[Any], body: dict[str, Any]) -> Answer:
        asked.append(body["after"])
        return reply(200, next(pages))

    world = World(handler)
    page = world.run(rewards(world.session(), "r", after=3, wait_s=300.0))
    assert asked == [3, 9]
    assert page.records[0].seq == 10


def test_unknown_statuses_and_fields_are_read() -> None:
    reward = RECORD | {"seq": 1, "trajectory": "a", "revision": 0, "status": "tentative", "new": {"x": 1}}
    reward["reason"] = {"code": "moon_phase", "new": 1}
    result = {"id": "a", "status": "postponed", "colour": "green", "reward": reward}
    world = World.saying(reply(200, {"results": [result], "more": [1]}))
    found = world.run(submit(world.session(), "r", [item(id="a")])).results[0]
    assert found.status is SubmitStatus.OTHER
    assert found.reward is not None
    assert found.reward.status == "other"
    assert found.reward.reason is not None
    assert found.reward.reason.code == "other"


def test_too_large_is_an_error_of_its_own_elsewhere() -> None:
    world = World.saying(reply(413, {"status": 413, "code": "body_too_large"}))
    with pytest.raises(TooLarge):
        world.run(query(world.session(), "r", ["a"]))
