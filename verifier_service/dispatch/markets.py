"""Asks sources over HTTP what became of events: guarded like webhooks, bounded in time and size.

Redirects are not followed, nothing is taken from the environment but the certificates to trust, and an
answer of another encoding than none is refused: what it unpacks to has no bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from ssl import SSLContext

import httpcore
import httpx

from verifier_service.dispatch.checked_network import (
    CheckedNetwork,
    Resolve,
    addresses_of,
    named,
    system_addresses,
)
from verifier_service.dispatch.webhook_names import DaemonThreads, Full
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.market_sources import MAX_BODY_BYTES, MarketSource, failed, read_answer
from verifier_service.domain.ports.settlements import Polled
from verifier_service.domain.settlements import Poll
from verifier_service.domain.webhook_rules import retry_after
from verifier_service.domain.webhook_targets import Guard, Target

log = logging.getLogger(__name__)

AT_ONCE = 4  # requests to one source
BUSY = (429, 500, 502, 503, 504)


class HttpMarketFeed:
    """``MarketFeed`` over HTTP/1.1. ``credentials``: the value of each source's header, by source."""

    def __init__(
        self,
        guard: Guard,
        declared: Mapping[str, MarketSource],
        *,
        credentials: Mapping[str, str],
        resolve: Resolve = system_addresses,
    ) -> None:
        self._guard = guard
        self._declared = dict(declared)
        self._credentials = dict(credentials)
        self._names = partial(addresses_of, resolve, DaemonThreads(AT_ONCE))

    @property
    def sources(self) -> Mapping[str, float]:
        return {name: source.interval_s for name, source in self._declared.items()}

    def ask(self, polls: Sequence[Poll]) -> list[Polled]:
        return asyncio.run(self._ask(polls)) if polls else []

    @cached_property
    def _certificates(self) -> SSLContext:
        return httpx.create_ssl_context()

    async def _ask(self, polls: Sequence[Poll]) -> list[Polled]:
        network = CheckedNetwork(self._guard, self._names)
        turns = {name: asyncio.Semaphore(AT_ONCE) for name in self._declared}
        async with httpcore.AsyncConnectionPool(
            ssl_context=self._certificates, network_backend=network, max_connections=None
        ) as pool:
            return list(await asyncio.gather(*(self._one(pool, poll, turns) for poll in polls)))

    async def _one(
        self, pool: httpcore.AsyncConnectionPool, poll: Poll, turns: Mapping[str, asyncio.Semaphore]
    ) -> Polled:
        source = self._declared.get(poll.source)
        if source is None:
            return failed("unknown_source")
        try:
            target = self._guard.target(source.url_of(poll.event))
            async with turns[poll.source], asyncio.timeout(source.timeout_s):
                return await self._exchange(pool, poll, source, target)
        except InvalidInput as error:
            return failed(error.code, busy=True)
        except (TimeoutError, httpcore.TimeoutException):
            return failed("timeout", busy=True)
        except (OSError, UnicodeError, Full, httpcore.NetworkError, httpcore.ProtocolError) as error:
            log.info("the source %s was not reached: %s", poll.source, named(error))
            return failed("connection", busy=True)

    async def _exchange(
        self, pool: httpcore.AsyncConnectionPool, poll: Poll, source: MarketSource, target: Target
    ) -> Polled:
        headers = {"host": target.authority, "accept": "application/json", "user-agent": "verifier-service"}
        if source.header is not None:
            headers[source.header.lower()] = self._credentials[poll.source]
        url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        response = await pool.handle_async_request(
            httpcore.Request("GET", url, headers=list(headers.items()))
        )
        try:
            refused = _refusal(response)
            if refused is not None:
                return refused
            body = await _body(response)
        finally:
            await response.aclose()
        return failed("too_large") if body is None else read_answer(source, poll.event, body)


def _refusal(response: httpcore.Response) -> Polled | None:
    found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    if response.status != 200:
        code = "redirect" if 300 <= response.status < 400 else f"http_{response.status}"
        busy = response.status in BUSY
        return failed(code, retry_after_s=retry_after(found) if busy else None, busy=busy)
    if found.get("content-encoding", "identity") != "identity":
        return failed("encoded")
    return None


async def _body(response: httpcore.Response) -> bytes | None:
    """The whole body, or ``None`` where it is longer than the cap."""
    body = bytearray()
    async for chunk in response.aiter_stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)
