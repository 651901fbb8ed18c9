"""Couriers of webhooks for tests: with names that resolve as told, and what they try to connect to."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from verifier_service.dispatch.webhooks import HttpCourier
from verifier_service.domain.webhook_rules import headers, new_secret
from verifier_service.domain.webhook_targets import Guard
from verifier_service.domain.webhooks import Answer

PUBLIC = "93.184.215.14"
SECRET = new_secret()
BODY = b'{"type":"reward.final","data":{"run":"r","seq":1}}'

_watched: list[Any] | None = None


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and _watched is not None:
        _watched.append(arguments[1])


sys.addaudithook(_on_event)


@contextmanager
def connects() -> Iterator[list[Any]]:
    """Every address that this process tries to connect to, whether anybody answers or not."""
    global _watched
    _watched = found = []
    try:
        yield found
    finally:
        _watched = None


def courier(
    *answers: list[str], allow: tuple[str, ...] = (), ports: set[int] = frozenset(), **settings: Any
) -> HttpCourier:
    """One whose names resolve to each of ``answers`` in turn, then to the last."""
    left = list(answers)

    def resolve(host: str) -> list[str]:
        if not left:
            raise socket.gaierror(socket.EAI_NONAME, f"no {host}")
        return left.pop(0) if len(left) > 1 else left[0]

    guard = Guard.of(plain_http=True, ports={80, 443, *ports}, allow=allow)
    return HttpCourier(guard, **{"timeout_s": 2.0, "at_once": 2, "resolve": resolve, **settings})


def post(sender: HttpCourier, url: str, times: int = 1) -> list[Answer]:
    async def send() -> list[Answer]:
        line = sender.line()
        try:
            signed = headers([SECRET], "msg_1", int(time.time()), BODY)
            return [await line.post(url, signed, BODY) for _ in range(times)]
        finally:
            await line.close()

    return asyncio.run(send())
