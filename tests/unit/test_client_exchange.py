"""Delivering a call: what is tried again, for how long, and what is raised, on a clock of its own."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.client_world import World, reply
from verifier_service.client.calls import Answer, Call, Lost, reading
from verifier_service.client.errors import (
    CallRefused,
    Conflict,
    InvalidRequest,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    ServerFailed,
    TooLarge,
    UnexpectedAnswer,
    VerifierUnavailable,
)
from verifier_service.client.exchange import UNTOUCHED, backoff, deliver, deliver_waiting
from verifier_service.domain.wire import KeyList

OK = Answer(status=200, content=b'{"keys":[]}')
GONE = Lost(cause="refused", delivered=False)
CUT = Lost(cause="cut", delivered=True)


def call(*, repeatable: bool = True) -> Call[KeyList]:
    return Call(method="GET", path="/v1/keys", read=reading(KeyList), repeatable=repeatable)


def refused(status: int, retry_after: str | None = None, **members: Any) -> Answer:
    body = {"status": status, "code": "some_code", "detail": "why", **members}
    return reply(status, body, retry_after)


@pytest.mark.parametrize("trouble", [GONE, CUT, *(refused(status) for status in (429, 502, 503, 504))])
def test_trouble_that_passes_is_tried_again(trouble: Answer | Lost) -> None:
    world = World.saying(trouble, trouble, OK)
    assert world.run(deliver(world.session(), call())).keys == ()
    assert world.pauses == [0.2, 0.4]


def test_the_server_says_when_to_come_back() -> None:
    world = World.saying(refused(503, "7"), OK)
    world.run(deliver(world.session(), call()))
    assert world.pauses == [7.7]


@pytest.mark.parametrize(("asked", "longest"), [("1", 1.5), ("20", 22.0)])
def test_clients_that_were_told_the_same_second_do_not_come_back_together(
    asked: str, longest: float
) -> None:
    pauses = []
    for jitter in (0.0, 0.5, 1.0):
        world = World.saying(refused(503, asked), OK)
        world.run(deliver(replace(world.session(), jitter=partial(float, jitter)), call()))
        pauses += world.pauses
    assert pauses == [float(asked), (float(asked) + longest) / 2, longest]


def test_a_date_in_the_past_means_now() -> None:
    world = World.saying(refused(503, "Wed, 21 Oct 2015 07:28:00 GMT"), OK)
    world.run(deliver(world.session(), call()))
    assert world.pauses == [0.2]


@pytest.mark.parametrize(
    "text",
    [
        "soon",
        "-1",
        "٣",
        "9" * 400,
        "",
        "1 Jan 2020 00:00:00 +9999999999999999",
        "Mon, 01 Jan 99999 00:00:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 -2359",
    ],
)
def test_a_strange_retry_after_breaks_nothing(text: str) -> None:
    world = World.saying(refused(503, text), OK)
    try:
        world.run(deliver(world.session(), call()))
    except VerifierUnavailable:
        assert text.isdigit() or "9999" in text


def test_a_wait_beyond_the_budget_is_not_begun() -> None:
    world = World.saying(refused(429, "3600", detail="too fast"))
    with pytest.raises(VerifierUnavailable) as caught:
        world.run(deliver(world.session(), call()))
    assert world.pauses == []
    assert caught.value.problem is not None
    assert caught.value.problem.detail == "too fast"


def test_the_retry_budget_ends() -> None:
    world = World.saying(GONE)
    with pytest.raises(VerifierUnavailable) as caught:
        world.run(deliver(world.session(retry_s=30.0), call()))
    assert 20.0 <= sum(world.pauses) <= 30.0
    assert caught.value.url == "http://here"
    assert caught.value.cause == "refused"


def test_the_callers_deadline_cuts_the_budget() -> None:
    world = World.saying(GONE)
    with pytest.raises(VerifierUnavailable):
        world.run(deliver(world.session(), call(), until=world.now + 2.0))
    assert sum(world.pauses) <= 2.0


@pytest.mark.parametrize(
    "trouble",
    [
        CUT,
        refused(502),
        refused(504),
        refused(503),
        refused(503, code="database_unavailable"),
        Answer(status=503, content=b"upstream reset"),
    ],
)
def test_what_may_have_happened_is_not_repeated(trouble: Answer | Lost) -> None:
    world = World.saying(trouble, OK)
    with pytest.raises(VerifierUnavailable):
        world.run(deliver(world.session(), call(repeatable=False)))
    assert len(world.sent) == 1


@pytest.mark.parametrize(
    "trouble",
    [GONE, refused(429), *(refused(503, code=code) for code in ("database_contended", "database_busy"))],
)
def test_what_cannot_have_happened_is_repeated(trouble: Answer | Lost) -> None:
    world = World.saying(trouble, OK)
    world.run(deliver(world.session(), call(repeatable=False)))
    assert len(world.sent) == 2


def test_the_codes_of_nothing_has_happened_are_the_server_s() -> None:
    """Each is one that a ``Contended`` is raised with; of those, none is missing."""
    sources = (Path(__file__).parents[2] / "verifier_service").rglob("*.py")
    raised = re.compile(r"raise Contended\(\s*\"(\w+)\"")
    assert {code for source in sources for code in raised.findall(source.read_text())} == UNTOUCHED


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequest),
        (401, NotAuthenticated),
        (402, CallRefused),
        (403, NotAllowed),
        (404, NotFound),
        (409, Conflict),
        (413, TooLarge),
        (422, InvalidRequest),
        (500, ServerFailed),
    ],
)
def test_refusals_carry_the_problem(status: int, kind: type[CallRefused]) -> None:
    world = World.saying(refused(status, field="wait.until"))
    with pytest.raises(CallRefused) as caught:
        world.run(deliver(world.session(), call()))
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.code, error.detail, error.field) == (
        status,
        "some_code",
        "why",
        "wait.until",
    )


@pytest.mark.parametrize(
    "content", [b"<html>proxy</html>", b"", b"\xff\xfe", b"[" * 100_000, b"[1]", b"null"]
)
def test_a_refusal_that_is_not_a_problem_body_is_still_typed(content: bytes) -> None:
    world = World.saying(Answer(status=403, content=content))
    with pytest.raises(NotAllowed) as caught:
        world.run(deliver(world.session(), call()))
    assert caught.value.code == "http_error"


@pytest.mark.parametrize("content", [b"<html>", b"", b"[]", b'{"keys": 3}'])
def test_an_answer_that_is_no_answer(content: bytes) -> None:
    world = World.saying(Answer(status=200, content=content))
    with pytest.raises(UnexpectedAnswer):
        world.run(deliver(world.session(), call()))


def test_backoff_doubles_and_is_capped() -> None:
    assert [backoff(attempt, 1.0) for attempt in (0, 1, 2, 3)] == [0.2, 0.4, 0.8, 1.6]
    assert backoff(10_000, 1.0) == 10.0
    assert backoff(2, 0.0) == 0.4


def test_a_server_with_shorter_waits_is_obeyed_and_remembered() -> None:
    refusal = refused(422, code="wait_too_long", limit=20)
    world = World.saying(refusal, OK)
    session = world.session()
    asked: list[float] = []

    def build(seconds: float) -> Call[KeyList]:
        asked.append(seconds)
        return call()

    world.run(deliver_waiting(session, build, 90.0))
    world.run(deliver_waiting(session, build, 90.0))
    assert asked == [90.0, 20.0, 20.0]
