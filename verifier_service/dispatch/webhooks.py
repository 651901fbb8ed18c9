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
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from functools import cached_property, partial
from ipaddress import ip_address
from socket import IPPROTO_TCP, SOCK_STREAM, getaddrinfo
from typing import Any, cast

import httpcore
import httpx

from verifier_service.dispatch.webhook_names import DaemonThreads, Full, ProjectThreads
from verifier_service.domain.errors import Contended, InvalidInput
from verifier_service.domain.webhook_rules import retry_after
from verifier_service.domain.webhook_targets import Guard, Target
from verifier_service.domain.webhooks import Answer

log = logging.getLogger(__name__)

Resolve = Callable[[str], list[str]]

READ_BYTES = 16_384
KEEP_ALIVE_S = 20.0
CONNECT_S = 3.0
RESOLVE_S = 5.0
REST_S = 0.5
ADDRESSES = 4
ANSWER_BYTES = 49_152  # of one answer are read, with those of status 1xx before it
READ_AT_ONCE = 4_096
ERROR_CHARS = 200


def system_addresses(host: str) -> list[str]:
    """The addresses of a name as this machine resolves it. Blocks. Raises ``OSError``."""
    found = getaddrinfo(host, None, type=SOCK_STREAM, proto=IPPROTO_TCP)
    return [str(address[0]) for *_, address in found]


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
                found = await _addresses(self.resolve, self._threads.of(project), target.host)
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
        names = partial(_addresses, courier.resolve, DaemonThreads(1))
        self._network = _CheckedNetwork(courier.guard, names)
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
            return Answer(error=f"connection: {_named(error)}")
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


class _CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to addresses that the guard let through, a few of them one after the other, and to nothing
    else."""

    def __init__(self, guard: Guard, resolve: Callable[[str], Awaitable[list[str]]]) -> None:
        self._guard = guard
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = self._guard.require(host, port, await self._resolve(host))
        *others, last = [str(address) for address in addresses[:ADDRESSES]]
        for address in others:
            try:
                return _Measured(await self._network.connect_tcp(address, port, timeout=CONNECT_S))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                log.info("a connection to %s failed, the next address is tried: %s", host, _named(error))
        return _Measured(
            await self._network.connect_tcp(last, port, timeout, local_address, socket_options)
        )

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


class _Measured(httpcore.AsyncNetworkStream):
    """Reads little at a time, and of one answer no more than ``ANSWER_BYTES``: whoever sends answers of
    status 1xx without end holds nobody up."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._left = ANSWER_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._left <= 0:
            raise httpcore.ReadError(f"the answer is longer than {ANSWER_BYTES} bytes")
        found = await self._stream.read(min(max_bytes, READ_AT_ONCE, self._left), timeout)
        self._left -= len(found)
        return found

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._left = ANSWER_BYTES
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _Measured(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


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
        log.debug("the rest of an answer was not read: %s", _named(error))
    finally:
        await response.aclose()


def _answer(response: httpcore.Response) -> Answer:
    if 200 <= response.status < 300:
        return Answer(status=response.status)
    found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    return Answer(
        status=response.status, error=f"http_status: {response.status}", retry_after_s=retry_after(found)
    )


async def _addresses(resolve: Resolve, threads: DaemonThreads, host: str) -> list[str]:
    """An address is its own; names are resolved in ``threads``. Raises ``Full``."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        return await threads.run(resolve, host)


def _named(error: BaseException) -> str:
    """An error's kind, and its words unless they quote what the endpoint sent."""
    words = "" if isinstance(error, httpcore.ProtocolError) else str(error)
    return f"{type(error).__name__} {words}".strip()[:ERROR_CHARS]
