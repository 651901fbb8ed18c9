"""The sender's hand: one POST over a connection to an address that was checked.

A name is resolved for every new connection, its addresses are checked, and the connection is made to one of
them, so that nobody can put another address between the check and the use. Nothing is taken from the
environment but the certificates to trust (``SSL_CERT_FILE``, ``SSL_CERT_DIR``): no proxies. Redirects are
answers like others.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import cached_property, partial
from typing import cast

import httpcore
import httpx

from verifier_service.dispatch.checked_network import (
    CheckedNetwork,
    Resolve,
    addresses_of,
    named,
    system_addresses,
)
from verifier_service.dispatch.webhook_names import DaemonThreads, Full, ProjectThreads
from verifier_service.domain.errors import Contended, InvalidInput
from verifier_service.domain.webhook_rules import retry_after
from verifier_service.domain.webhook_targets import Guard, Target
from verifier_service.domain.webhooks import Answer

log = logging.getLogger(__name__)

READ_BYTES = 16_384
KEEP_ALIVE_S = 20.0
RESOLVE_S = 5.0
REST_S = 0.5


class HttpCourier:
    """``Courier`` over HTTP/1.1. ``timeout_s`` bounds an attempt from the name to the answer's headers;
    ``at_once`` the connections to one endpoint."""

    def __init__(
        self, guard: Guard, *, timeout_s: float, at_once: int, resolve: Resolve = system_addresses
    ) -> None:
        self.guard = guard
        self.timeout_s = timeout_s
        self.at_once = at_once
        self.resolve = resolve
        self._threads = ProjectThreads()

    @cached_property
    def certificates(self) -> ssl.SSLContext:
        """Whom to trust: read once, it takes tens of milliseconds."""
        return httpx.create_ssl_context()

    async def admit(self, url: str, *, project: str) -> None:
        target = self.guard.target(url)
        try:
            async with asyncio.timeout(RESOLVE_S):
                found = await addresses_of(self.resolve, self._threads.of(project), target.host)
        except (TimeoutError, Full) as error:
            raise Contended(
                "names_slow", f"the name {target.host} is not resolved yet; try again", field="url"
            ) from error
        except (OSError, UnicodeError) as error:
            raise InvalidInput(
                "url_unresolvable", f"no address was found for {target.host}", field="url"
            ) from error
        self.guard.require(target.host, target.port, found)

    def line(self) -> HttpLine:
        return HttpLine(self)


class HttpLine:
    """``Line`` over HTTP/1.1, with a thread of its own for names: a slow name server holds up no other."""

    def __init__(self, courier: HttpCourier) -> None:
        self._courier = courier
        names = partial(addresses_of, courier.resolve, DaemonThreads(1))
        self._network = CheckedNetwork(courier.guard, names)
        self._pool: httpcore.AsyncConnectionPool | None = None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        timeout_s = self._courier.timeout_s
        try:
            target = self._courier.guard.target(url)
            pool = await self._open()
            async with asyncio.timeout(timeout_s):
                response = await pool.handle_async_request(_request(target, headers, body))
        except InvalidInput as error:
            return Answer(error=error.code)
        except (TimeoutError, httpcore.TimeoutException):
            return Answer(error=f"timeout: no answer within {timeout_s:g} s")
        except (OSError, UnicodeError, Full, httpcore.NetworkError, httpcore.ProtocolError) as error:
            return Answer(error=f"connection: {named(error)}")
        await _end(response)
        return _answer(response)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()

    async def _open(self) -> httpcore.AsyncConnectionPool:
        if self._pool is None:
            courier = self._courier
            trusted = await asyncio.to_thread(lambda: courier.certificates)
            self._pool = self._pool or httpcore.AsyncConnectionPool(
                ssl_context=trusted,
                max_connections=courier.at_once,
                keepalive_expiry=KEEP_ALIVE_S,
                network_backend=self._network,
            )
        return self._pool


def _request(target: Target, headers: Mapping[str, str], body: bytes) -> httpcore.Request:
    """Made of the parts that were checked."""
    url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
    sent = {"host": target.authority, **headers, "content-length": str(len(body))}
    return httpcore.Request("POST", url, headers=list(sent.items()), content=body)


async def _end(response: httpcore.Response) -> None:
    """Read a short rest, so that the connection can be used again, and no long or slow one: the status,
    which is all that counts, has come."""
    left = READ_BYTES
    try:
        async with (
            asyncio.timeout(REST_S),
            aclosing(cast(AsyncGenerator[bytes, None], response.aiter_stream())) as chunks,
        ):
            async for chunk in chunks:
                left -= len(chunk)
                if left < 0:
                    break
    except (
        TimeoutError,
        httpcore.TimeoutException,
        httpcore.NetworkError,
        httpcore.ProtocolError,
    ) as error:
        log.debug("the rest of an answer was not read: %s", named(error))
    finally:
        await response.aclose()


def _answer(response: httpcore.Response) -> Answer:
    if 200 <= response.status < 300:
        return Answer(status=response.status)
    found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    return Answer(
        status=response.status, error=f"http_status: {response.status}", retry_after_s=retry_after(found)
    )
