"""Connections to addresses that were checked, for everything that is sent to the world.

A name is resolved for every new connection, its addresses are checked, and the connection is made to one of
them, so that nobody can put another address between the check and the use.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import ip_address
from socket import IPPROTO_TCP, SOCK_STREAM, getaddrinfo
from typing import Any

import httpcore

from verifier_service.dispatch.webhook_names import DaemonThreads
from verifier_service.domain.webhook_targets import Guard

log = logging.getLogger(__name__)

Resolve = Callable[[str], list[str]]

CONNECT_S = 3.0
ADDRESSES = 4
ANSWER_BYTES = 49_152  # of one answer are read, with those of status 1xx before it
READ_AT_ONCE = 4_096
ERROR_CHARS = 200


def system_addresses(host: str) -> list[str]:
    """The addresses of a name as this machine resolves it. Blocks. Raises ``OSError``."""
    found = getaddrinfo(host, None, type=SOCK_STREAM, proto=IPPROTO_TCP)
    return [str(address[0]) for *_, address in found]


class CheckedNetwork(httpcore.AsyncNetworkBackend):
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
                log.info("a connection to %s failed, the next address is tried: %s", host, named(error))
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


async def addresses_of(resolve: Resolve, threads: DaemonThreads, host: str) -> list[str]:
    """An address is its own; names are resolved in ``threads``. Raises ``Full``."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        return await threads.run(resolve, host)


def named(error: BaseException) -> str:
    """An error's kind, and its words unless they quote what the endpoint sent."""
    words = "" if isinstance(error, httpcore.ProtocolError) else str(error)
    return f"{type(error).__name__} {words}".strip()[:ERROR_CHARS]
