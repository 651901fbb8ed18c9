"""What parent and child say to each other: frames over pipes, and one shared page.

A frame is an 8-byte header (magic, kind, length of the body) and a body. Results travel in frames, many
at a time. What must survive the death of the child without costing a system call per item is in the
shared page: which item has started, and the results that were not sent yet.
"""

from __future__ import annotations

import json
import mmap
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from pydantic import TypeAdapter

from verifier_service.domain.evidence import Failure, Finding
from verifier_service.domain.records import JsonObject, Record

MAGIC = b"VF1"
HEADER = struct.Struct(">3sBI")
MAX_RESULT_FRAME = 8 * 1024 * 1024
MAX_OUTCOME = 4 * 1024 * 1024
HELD_BYTES = 64 * 1024
PAGE = 4096 + HELD_BYTES

# Places in the page, in units of 8 bytes; entries start at a byte.
_INDEX, _LAST, _STARTED, _CPU, _ROUND, _HELD, _STOP = range(7)
_ENTRIES_AT = 4096
_NONE = -1
_NOWHERE = 1 << 62


class Kind(IntEnum):
    """``LOAD`` and ``BATCH`` go to the child; the others come back, ``END`` after a batch's last result."""

    LOAD = 1
    BATCH = 2
    READY = 3
    REFUSED = 4
    DONE = 5
    END = 6


_KINDS = frozenset(int(kind) for kind in Kind)


class Garbled(Exception):
    """The child's output is not the protocol."""


class Ready(Record):
    """A verifier is imported and warm in the child: what exactly was loaded."""

    verifier: str
    version: str
    libraries: dict[str, str]


class BatchHead(Record):
    """Head of a ``BATCH`` body; the items follow it back to back, ``sizes`` bytes each."""

    verifier: str
    params: JsonObject
    sizes: tuple[int, ...]


class WireDone(Record):
    """One finished item: exactly one of ``finding`` and ``failure``. Times in seconds."""

    index: int
    cpu_s: float
    wall_s: float
    finding: Finding | None = None
    failure: Failure | None = None


WIRE_DONES: TypeAdapter[list[WireDone]] = TypeAdapter(list[WireDone])


def frame(kind: Kind, body: bytes) -> bytes:
    """Return one frame."""
    return HEADER.pack(MAGIC, kind, len(body)) + body


def batch_body(verifier: str, params: JsonObject, items: Sequence[bytes]) -> bytes:
    """Return the body of a ``BATCH`` frame. Raises ``ValueError`` when ``params`` is not JSON."""
    head = {"verifier": verifier, "params": params, "sizes": [len(item) for item in items]}
    text = json.dumps(head, allow_nan=False).encode()
    return b"".join((len(text).to_bytes(4, "big"), text, *items))


def read_batch(body: bytes) -> tuple[BatchHead, list[bytes]]:
    """Split the body of a ``BATCH`` frame."""
    start = 4 + int.from_bytes(body[:4], "big")
    head = BatchHead.model_validate_json(body[4:start])
    items = []
    for size in head.sizes:
        items.append(body[start : start + size])
        start += size
    return head, items


class FrameReader:
    """Cuts the bytes that come from a child into frames. Trusts nothing."""

    def __init__(self, limit: int = MAX_RESULT_FRAME) -> None:
        self._buffer = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> Iterator[tuple[Kind, bytes]]:
        """Yield every frame now complete. Raises ``Garbled`` at the first byte that cannot be one."""
        self._buffer += data
        while self._buffer:
            if not MAGIC.startswith(bytes(self._buffer[: len(MAGIC)])):
                raise Garbled("not a frame")
            if len(self._buffer) < HEADER.size:
                return
            _, number, length = HEADER.unpack_from(self._buffer)
            if length > self._limit or number not in _KINDS:
                raise Garbled(f"frame of kind {number} with {length} bytes")
            end = HEADER.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[HEADER.size : end])
            del self._buffer[:end]
            yield Kind(number), body


@dataclass(frozen=True, slots=True)
class Executing:
    """The item that runs now: its index in the batch, monotonic start and CPU seconds before it."""

    index: int
    started: float
    cpu_s: float


class SharedPage:
    """Memory of both processes. The child writes while a batch runs, the parent only between batches;
    but for one number, by which the parent says where the child is to stop.

    Numbers are written through typed views, each in one aligned store, so that the other process never
    sees half of one; ``struct`` would blank the place first.
    """

    def __init__(self, descriptor: int) -> None:
        """Map ``PAGE`` bytes of the open file ``descriptor``, which stays the caller's."""
        self._page = mmap.mmap(descriptor, PAGE)
        self._numbers = memoryview(self._page).cast("q")
        self._clocks = memoryview(self._page).cast("d")
        self._end = 0
        self._fence = threading.Lock()

    def reset(self) -> None:
        """Mark that nothing has started and nothing is held. For the parent, before each batch."""
        self._numbers[_INDEX] = self._numbers[_LAST] = _NONE
        self._numbers[_HELD] = 0
        self._numbers[_STOP] = _NOWHERE

    def stop_after(self, index: int) -> int:
        """Tell the child to start no item above ``index``; return the highest that it may have started.

        The child marks an item and then looks at the bound, here the bound is set and then the mark is
        read: at least one of the two sees what the other wrote.
        """
        self._numbers[_STOP] = index
        self._settle()
        return max(index, self._numbers[_LAST])

    def may_run(self, index: int) -> bool:
        """For the child, which has just marked ``index``: whether it is to run it."""
        self._settle()
        return index <= self._numbers[_STOP]

    def _settle(self) -> None:
        # Taking a lock is the only thing in the language that orders a store before a later load.
        with self._fence:
            pass

    def rest(self) -> None:
        """Mark that no item is executing."""
        self._numbers[_INDEX] = _NONE

    def begin(self, index: int, started: float, cpu_s: float) -> None:
        """Mark ``index`` as executing. The index is written last: it vouches for the clocks."""
        self._clocks[_STARTED] = started
        self._clocks[_CPU] = cpu_s
        self._numbers[_LAST] = index
        self._numbers[_INDEX] = index

    def executing(self) -> Executing | None:
        """Return the executing item, also after the child's death, or ``None``.

        While the child lives, the clocks can already be those of the item that comes next.
        """
        return self._item(_INDEX)

    def last(self) -> Executing | None:
        """Return the item that started last, executing or not, or ``None`` when none has."""
        return self._item(_LAST)

    def hold(self, entry: bytes) -> bool:
        """Keep a result that is not sent yet; false when there is no room for it."""
        end = self._end + len(entry) + 1
        if end > HELD_BYTES:
            return False
        self._page[_ENTRIES_AT + self._end : _ENTRIES_AT + end] = entry + b","
        self._numbers[_HELD] = self._end = end
        return True

    def release(self) -> None:
        """Forget what is held, once it has been sent."""
        self._numbers[_ROUND] += 1
        self._numbers[_HELD] = self._end = 0

    def held(self) -> bytes:
        """Return what is held as a ``DONE`` body, or nothing. It may be sent too: results can repeat."""
        before, end = self._numbers[_ROUND], self._numbers[_HELD]
        if not 0 < end <= HELD_BYTES:
            return b""
        entries = self._page[_ENTRIES_AT : _ENTRIES_AT + end - 1]
        return b"[" + entries + b"]" if self._numbers[_ROUND] == before else b""

    def close(self) -> None:
        """Unmap; later calls raise ``ValueError``."""
        self._numbers.release()
        self._clocks.release()
        self._page.close()

    def _item(self, place: int) -> Executing | None:
        while True:
            index = self._numbers[place]
            started, cpu_s = self._clocks[_STARTED], self._clocks[_CPU]
            if self._numbers[place] == index:
                return None if index == _NONE else Executing(index, started, cpu_s)
