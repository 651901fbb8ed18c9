"""Listening to a run's feed: server-sent events (WHATWG HTML, section 9.2), without any I/O."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from verifier_service.client.calls import Answer, Call, Lost, path, reading
from verifier_service.client.errors import UnexpectedAnswer
from verifier_service.client.exchange import Failures, Session
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.states import RewardStatus

QUIET_S = 15.0  # the server says something that often
LIVED_S = 5.0  # a connection that lasted so long was not refused
MAX_EVENT = 16 * 1024 * 1024
OPEN, NOTHING_MORE = 200, 204
CUT = Lost(cause="the stream was cut off", delivered=True)
_LINE_END = re.compile(r"\r\n|\n|\r")
_read_record = reading(RewardRecord)


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its type, ``message`` where it has none, and its data."""

    name: str
    data: str


class EventReader:
    """Reads events out of the bytes of one connection, however they are cut. ``last_id`` is the last id
    that came with an event or alone."""

    def __init__(self) -> None:
        self.last_id = ""
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._rest = ""
        self._id = ""
        self._name = ""
        self._data: list[str] = []

    def read(self, chunk: bytes) -> Iterator[Event]:
        """The events that end in this chunk. Raises ``UnexpectedAnswer`` for an event without an end."""
        text = self._rest + self._decoder.decode(chunk)
        # A carriage return at the end may be half of a line's end.
        held = "\r" if text.endswith("\r") else ""
        *lines, rest = _LINE_END.split(text.removesuffix(held) if held else text)
        self._rest = rest + held
        if len(self._rest) + sum(map(len, self._data)) > MAX_EVENT:
            raise UnexpectedAnswer(f"an event of more than {MAX_EVENT} characters")
        for line in lines:
            event = self._line(line)
            if event is not None:
                yield event

    def _line(self, line: str) -> Event | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None

    def _dispatch(self) -> Event | None:
        self.last_id = self._id
        name, data = self._name or "message", self._data
        self._name, self._data = "", []
        return Event(name, "\n".join(data)) if data else None


@dataclass(slots=True)
class Listening:
    """One client's way along a feed, over any number of connections."""

    session: Session
    run: str
    status: RewardStatus | None
    after: int
    ended: bool = False
    _failures: Failures = field(init=False)
    _reader: EventReader = field(default_factory=EventReader)
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._failures = Failures(self.session)

    def connect(self) -> Call[bytes]:
        """What to ask for next: the rest of the feed."""
        self._reader = EventReader()
        self._began = self.session.clock()
        return Call(
            method="GET",
            path=path("runs", self.run, "rewards", "stream"),
            params={} if self.status is None else {"status": str(self.status)},
            headers={"Accept": "text/event-stream", "Last-Event-ID": str(self.after)},
            read=bytes,
            wait_s=QUIET_S,
        )

    def take(self, chunk: bytes) -> Iterator[RewardRecord]:
        """The records that end in a chunk of the answer. Raises ``UnexpectedAnswer``."""
        for event in self._reader.read(chunk):
            if event.name == "reward":
                record = _read_record(event.data.encode())
                self._failures.over()
                self.after = record.seq
                yield record
            elif event.name == "end":
                self.ended = True
        if self._reader.last_id.isascii() and self._reader.last_id.isdigit():
            self.after = max(self.after, int(self._reader.last_id[:20]))

    def broken(self, reply: Answer | Lost) -> float:
        """The connection is over before the end: seconds to wait before the next. Raises what ``deliver``
        raises; how long the server may be away counts from the last sign of it."""
        if isinstance(reply, Answer) and reply.status == NOTHING_MORE:
            self.ended = True
            return 0.0
        if self.session.clock() - self._began >= LIVED_S:
            self._failures.over()
        return self._failures.pause(reply)
