"""One client per process, and per event loop where there is one: adapters are called as plain functions,
often pickled and sent to other processes, and have nowhere to keep a connection."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from verifier_service.client import AsyncClient, Client, Joint
from verifier_service.domain.wire import Until


@dataclass(frozen=True, slots=True)
class Address:
    """Where the service is; null: ``$VERIFIER_URL`` and ``$VERIFIER_API_KEY``, then this machine's.
    A silent or busy service is tried again for ``retry_s`` seconds."""

    url: str | None
    key: str | None = field(repr=False)
    retry_s: float


@dataclass(slots=True)
class _Loop:
    """What belongs to one event loop, until the loop ends."""

    clients: dict[Address, AsyncClient] = field(default_factory=dict)
    joints: dict[tuple[Address, str, Until], Joint] = field(default_factory=dict)
    life: AsyncGenerator[None, None] | None = None

    async def live(self) -> AsyncGenerator[None, None]:
        """Suspended as long as the loop runs: a loop that ends in order closes its generators first."""
        try:
            yield
        finally:
            for joined in self.joints.values():
                await joined.close()
            for client in self.clients.values():
                await client.close()


@dataclass(slots=True)
class _Process:
    """What belongs to this process."""

    making: threading.Lock = field(default_factory=threading.Lock)
    blocking: dict[Address, Client] = field(default_factory=dict)
    loops: dict[asyncio.AbstractEventLoop, _Loop] = field(default_factory=dict)


_here = _Process()
_inherited: list[_Process] = []  # a parent's: never used, and never closed under it


def _after_fork() -> None:
    """A child has connections, and a lock, of its own."""
    global _here
    _inherited.append(_here)
    _here = _Process()


os.register_at_fork(after_in_child=_after_fork)


def blocking_client(address: Address) -> Client:
    """The client of this process for threads."""
    with _here.making:
        if address not in _here.blocking:
            _here.blocking[address] = Client(address.url, address.key, retry_s=address.retry_s)
        return _here.blocking[address]


async def async_client(address: Address) -> AsyncClient:
    """The client of the running event loop; closed when the loop ends."""
    clients = (await _of_loop()).clients
    if address not in clients:
        clients[address] = AsyncClient(address.url, address.key, retry_s=address.retry_s)
    return clients[address]


async def joint(address: Address, run: str, until: Until) -> Joint:
    """The joined submissions of the running event loop to one run."""
    client = await async_client(address)
    joints = (await _of_loop()).joints
    name = (address, run, until)
    if name not in joints:
        joints[name] = client.joint(run, until=until)
    return joints[name]


async def _of_loop() -> _Loop:
    """What belongs to the running loop; what belonged to loops that are closed is let go."""
    loop = asyncio.get_running_loop()
    with _here.making:
        found = _here.loops.get(loop)
        if found is None:
            for other in [other for other in _here.loops if other.is_closed()]:
                del _here.loops[other]
            found = _here.loops[loop] = _Loop()
    if found.life is None:
        found.life = found.live()
        await anext(found.life)
    return found
