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
    key: str | None
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


_making = threading.Lock()
_blocking: dict[tuple[int, Address], Client] = {}
_loops: dict[tuple[int, asyncio.AbstractEventLoop], _Loop] = {}


def blocking_client(address: Address) -> Client:
    """The client of this process for threads; another after a fork."""
    name = (os.getpid(), address)
    with _making:
        if name not in _blocking:
            _blocking[name] = Client(address.url, address.key, retry_s=address.retry_s)
        return _blocking[name]


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
    name = (os.getpid(), asyncio.get_running_loop())
    with _making:
        found = _loops.get(name)
        if found is None:
            for other in [other for other in _loops if other[1].is_closed() or other[0] != name[0]]:
                del _loops[other]
            found = _loops[name] = _Loop()
    if found.life is None:
        found.life = found.live()
        await anext(found.life)
    return found
