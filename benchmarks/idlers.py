"""Clients that wait for news that never come: long-polls and streams on one idle run."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

RUN = "idle"
POLL_S = 100
HELD_S = 60.0


@contextmanager
def idlers(url: str, key: str, count: int) -> Iterator[None]:
    """So many long-polls and so many streams, for one block. They are made anew when they end."""
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers) as http:
        http.put(f"/v1/runs/{RUN}", json={}).raise_for_status()
        crowd = _Crowd(url, key, count)
        crowd.start()
        until = time.monotonic() + HELD_S
        while held(http) < 2 * count:
            if time.monotonic() > until:
                raise SystemExit(f"{held(http)} of {2 * count} idle clients came in")
            time.sleep(0.1)
        yield
        held_now = held(http)
        crowd.stop()
        if held_now < 1.9 * count:  # some are just coming again
            raise SystemExit(f"{held_now} of {2 * count} idle clients were left")


def held(http: httpx.Client) -> int:
    """Requests that wait in the server."""
    return int(http.get("/healthz").json()["open_waits"])


class _Crowd(threading.Thread):
    def __init__(self, url: str, key: str, count: int) -> None:
        super().__init__(daemon=True)
        self._url = httpx.URL(url)
        self._key = key
        self._count = count
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()

    def run(self) -> None:
        self._loop.run_until_complete(self._all())

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self.join()

    async def _all(self) -> None:
        paths = [f"/v1/runs/{RUN}/rewards?after=1&wait={POLL_S}", f"/v1/runs/{RUN}/rewards/stream"]
        waiting = [asyncio.create_task(self._wait(path)) for path in paths for _ in range(self._count)]
        await self._done.wait()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _wait(self, path: str) -> None:
        head = f"GET {path} HTTP/1.1\r\nHost: v\r\nConnection: close\r\n"
        asked = f"{head}Authorization: Bearer {self._key}\r\n\r\n".encode()
        while True:
            connection: Any = await asyncio.open_connection(self._url.host, self._url.port)
            reader, writer = connection
            writer.write(asked)
            try:
                while await reader.read(4_096):
                    pass
            finally:
                writer.close()
