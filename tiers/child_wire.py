"""What parent and child say to each other: frames over pipes, and one shared page.

A frame is an 8-byte header (magic, kind, length of the body) and a body. Results travel in frames; the
fact that an item has started travels in the shared page, because that fact must survive the death of
the child and must not cost a system call per item.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from pydantic import TypeAdapter

from verifier_service.domain.evidence import Failure, Finding
from verifier_service.domain.records import JsonObject, Record

MAGIC = b"VF1"
HEADER = struct.Struct(">3sBI")
MAX_RESULT_FRAME = 8 * 1024 * 1024
MAX_OUTCOME = 4 * 1024 * 1024
PAGE = 4096

_INDEX = struct.Struct("=q")
_LAST = struct.Struct("=q")
_CLOCKS = struct.Struct("=dd")
_LAST_AT = _INDEX.size
_CLOCKS_AT = _LAST_AT + _LAST.size
_NONE = -1


class Kind(IntEnum):
    """``LOAD`` and ``BATCH`` go to the child; ``READY``, ``REFUSED`` and ``DONE`` come back."""

    LOAD = 1
    BATCH = 2
    READY = 3
    REFUSED = 4
    DONE = 5


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


class Executing(NamedTuple):
    """The item that runs now: its index in the batch, monotonic start and CPU seconds before it."""

    index: int
    started: float
    cpu_s: float


class Marker:
    """The shared page in which the child marks the item it is executing."""

    def __init__(self, descriptor: int) -> None:
        """Map ``PAGE`` bytes of the open file ``descriptor``, which stays the caller's."""
        self._page = mmap.mmap(descriptor, PAGE)

    def reset(self) -> None:
        """Mark that nothing has started. For the parent, before each batch."""
        _INDEX.pack_into(self._page, 0, _NONE)
        _LAST.pack_into(self._page, _LAST_AT, _NONE)

    def rest(self) -> None:
        """Mark that no item is executing."""
        _INDEX.pack_into(self._page, 0, _NONE)

    def begin(self, index: int, started: float, cpu_s: float) -> None:
        """Mark ``index`` as executing. The index is written last: it vouches for the clocks."""
        _CLOCKS.pack_into(self._page, _CLOCKS_AT, started, cpu_s)
        _LAST.pack_into(self._page, _LAST_AT, index)
        _INDEX.pack_into(self._page, 0, index)

    def read(self) -> Executing | None:
        """Return the executing item, also after the child's death, or ``None``."""
        while True:
            (index,) = _INDEX.unpack_from(self._page, 0)
            started, cpu_s = _CLOCKS.unpack_from(self._page, _CLOCKS_AT)
            if _INDEX.unpack_from(self._page, 0) == (index,):
                return None if index == _NONE else Executing(index, started, cpu_s)

    def last(self) -> Executing | None:
        """Return the item that started last, executing or not, or ``None`` when none has."""
        (index,) = _LAST.unpack_from(self._page, _LAST_AT)
        started, cpu_s = _CLOCKS.unpack_from(self._page, _CLOCKS_AT)
        return None if index == _NONE else Executing(index, started, cpu_s)

    def close(self) -> None:
        """Unmap; later calls raise ``ValueError``."""
        self._page.close()
