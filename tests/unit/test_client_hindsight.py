"""Reading hindsight, against scripted answers."""

from __future__ import annotations

from typing import Any

from tests.support.client_world import World, reply
from tests.support.records import scored
from verifier_service.client.calls import Answer, Call, Lost
from verifier_service.client.hindsight import hindsight
from verifier_service.domain.cases import Body
from verifier_service.domain.evidence import Hint
from verifier_service.domain.hindsight import hindsight as export

ONE = export(scored(0.5, hints=(Hint(kind="k", text="x"),)), Body(prompt="p", answer="a"))


def page(
    cursor: int, *, more: bool = False, records: bool = False, withdrawn: tuple[str, ...] = ()
) -> Answer:
    found = [ONE.model_dump(mode="json") | {"of_a_newer_server": 1}] if records else []
    return reply(200, {"records": found, "withdrawn": withdrawn, "cursor": cursor, "more": more})


def asked(world: World) -> list[Any]:
    return [call.params["after"] for call in world.sent]


def test_empty_stretches_are_passed_over() -> None:
    world = World.saying(page(5_000, more=True), page(10_000, more=True), page(10_007, records=True))
    found = world.run(hindsight(world.session(), "r/1", after=3, limit=7))
    assert found.records == (ONE,)
    assert asked(world) == [3, 5_000, 10_000]
    assert world.pauses == []
    assert world.sent[0].path == "/v1/runs/r%2F1/hindsight"
    assert world.sent[0].params["limit"] == 7


def test_the_end_of_the_feed_is_an_empty_page() -> None:
    world = World.saying(page(9))
    found = world.run(hindsight(world.session(), "r", after=9))
    assert (found.records, found.cursor) == ((), 9)
    assert len(world.sent) == 1


def test_what_was_withdrawn_ends_a_wait_too() -> None:
    world = World.saying(page(9, withdrawn=("t",)))
    assert world.run(hindsight(world.session(), "r", wait_s=60.0)).withdrawn == ("t",)
    assert len(world.sent) == 1


def test_a_wait_is_as_long_as_asked_and_no_tight_loop() -> None:
    world = World.saying(page(9))
    began = world.now
    assert world.run(hindsight(world.session(), "r", wait_s=7.5)).records == ()
    assert world.now - began >= 7.5
    assert len(world.sent) < 12
    assert all(call.wait_s <= 7.5 for call in world.sent)


def test_a_lost_answer_is_asked_for_again() -> None:
    replies: list[Answer | Lost] = [Lost(cause="cut", delivered=True), page(1, records=True)]
    world = World(lambda _call, _body: replies.pop(0))
    assert world.run(hindsight(world.session(), "r")).records == (ONE,)
    assert isinstance(world.sent[0], Call)
    assert asked(world) == [0, 0]
