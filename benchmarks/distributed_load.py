"""Clients for the distributed benchmark: keep-alive HTTP/1.1 over asyncio streams.

A general client costs more than a millisecond of CPU a request, which on the same cores would measure the
client. This one writes a prepared body and reads an answer of known length.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Load(NamedTuple):
    """Seconds of every request in order of their ends, and of the whole."""

    latencies: list[float]
    wall: float

    def at(self, share: float) -> float:
        """A quantile of the latencies, in milliseconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3


class Line:
    """One connection."""

    def __init__(self, url: str, key: str | None) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._head = f"Host: {parts.netloc}\r\nContent-Type: application/json\r\n"
        if key is not None:
            self._head += f"Authorization: Bearer {key}\r\n"
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=2**26)

    async def post(self, path: str, body: bytes) -> Any:
        """The JSON of a 2xx answer. Raises ``SystemExit`` for any other."""
        if self._reader is None or self._writer is None:
            raise RuntimeError("the line is not open")
        head = f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        await self._writer.drain()
        told = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in told[1:] if line)
        content = await self._reader.readexactly(int(fields["content-length"]))
        if not told[0].split(" ")[1].startswith("2"):
            raise SystemExit(f"{told[0]}: {content[:500].decode()}")
        return json.loads(content)

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()


async def drive(
    urls: Sequence[str],
    key: str | None,
    path: str,
    bodies: Sequence[bytes],
    lines: int,
    look: Callable[[Any], None],
) -> Load:
    """Post every body over ``lines`` connections, spread over the servers, one request at a time each;
    ``look`` checks answers."""
    todo = iter(bodies)
    latencies: list[float] = []

    async def one(line: Line) -> None:
        for body in todo:
            began = time.perf_counter()
            answer = await line.post(path, body)
            latencies.append(time.perf_counter() - began)
            look(answer)

    opened = [Line(urls[index % len(urls)], key) for index in range(lines)]
    await asyncio.gather(*(line.open() for line in opened))
    began = time.perf_counter()
    await asyncio.gather(*(one(line) for line in opened))
    wall = time.perf_counter() - began
    for line in opened:
        line.close()
    return Load(latencies, wall)
