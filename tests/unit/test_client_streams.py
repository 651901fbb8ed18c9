"""Listening to a feed: events however they are cut, and connections that break."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.client_world import World
from tests.support.records import scored
from verifier_service.client import (
    NotAuthenticated,
    NotFound,
    UnexpectedAnswer,
    VerifierUnavailable,
    streams,
)
from verifier_service.client.calls import Answer, Lost
from verifier_service.client.streams import CUT, Event, EventReader, Listening

TEXT = (
    "\ufeffretry: 1000\n\n"
    ": a comment\n\n"
    'event: reward\ndata: {"a":\ndata: 1}\nid: 7\n\n'
    "id: 9\n\n"
    "data:no space\r\n\r\n"
    "data:  two\r\r"
    "unknown: x\ndata\n\n"
    "event: unfinished\ndata: never\n"
)
EVENTS = [
    Event("reward", '{"a":\n1}'),
    Event("message", "no space"),
    Event("message", " two"),
    Event("message", ""),
]


@given(st.lists(st.integers(0, len(TEXT.encode()))))
def test_events_are_read_however_the_bytes_are_cut(cuts: list[int]) -> None:
    raw, reader = TEXT.encode(), EventReader()
    places = [0, *sorted(cuts), len(raw)]
    pieces = [raw[start:end] for start, end in pairwise(places)]
    assert [event for piece in pieces for event in reader.read(piece)] == EVENTS
    assert reader.last_id == "9"


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_EVENT", 100)
    reader = EventReader()
    with pytest.raises(UnexpectedAnswer):
        [list(reader.read(b"data: 12345678\n")) for _ in range(20)]
    with pytest.raises(UnexpectedAnswer):
        list(EventReader().read(b"x" * 101))


def listening(world: World, after: int = 0, retry_s: float = 60.0) -> Listening:
    return Listening(world.session(retry_s), "r", None, after)


def sent(seq: int) -> bytes:
    return f"event: reward\ndata: {scored(0.5, seq=seq).model_dump_json()}\nid: {seq}\n\n".encode()


def test_the_next_connection_goes_on_after_the_last_record() -> None:
    feed = listening(World.saying(CUT), after=3)
    assert feed.connect().headers["Last-Event-ID"] == "3"
    assert [record.seq for record in feed.take(sent(4) + sent(5) + b"event: rew")] == [4, 5]
    assert feed.connect().headers["Last-Event-ID"] == "5"
    assert list(feed.take(b": ping\nid: 11\n\n")) == []
    assert feed.connect().headers["Last-Event-ID"] == "11"
    assert not feed.ended
    list(feed.take(b"event: end\ndata: {}\nid: 11\n\n"))
    assert feed.ended


def test_a_closed_run_that_was_read_is_over() -> None:
    feed = listening(World.saying(CUT))
    feed.connect()
    feed.broken(Answer(status=204, content=b""))
    assert feed.ended


def test_a_server_that_stays_away_is_given_up_and_a_record_starts_the_count_anew() -> None:
    world = World.saying(CUT)
    feed = listening(world, retry_s=10)
    gone = Lost(cause="gone", delivered=False)
    feed.connect()
    for _ in range(4):
        world.now += feed.broken(gone)
    assert list(feed.take(sent(1)))
    began = world.now

    def try_on() -> None:
        while True:
            feed.connect()
            world.now += feed.broken(gone)

    with pytest.raises(VerifierUnavailable):
        try_on()
    assert 5 < world.now - began <= 10


def test_a_busy_server_says_when() -> None:
    busy = Answer(status=429, content=b"{}", retry_after="7")
    feed = listening(World.saying(CUT))
    feed.connect()
    assert feed.broken(busy) == 7.7  # and a little more, so that not all come at once


@pytest.mark.parametrize(("status", "kind"), [(401, NotAuthenticated), (404, NotFound)])
def test_a_refusal_ends_it(status: int, kind: type[Exception]) -> None:
    problem = json.dumps({"status": status, "code": "c", "title": "t", "detail": "d"}).encode()
    feed = listening(World.saying(CUT))
    feed.connect()
    with pytest.raises(kind):
        feed.broken(Answer(status=status, content=problem))
