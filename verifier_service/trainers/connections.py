"""One client per process, and per event loop where there is one: adapters are called as plain functions,
often pickled and sent to other processes, and have nowhere to keep a connection."""

from __future__ import annotations

import asyncio
import os
import threading
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
    clients: dict[Address, AsyncClient] = field(default_factory=dict)
    joints: dict[tuple[Address, str, Until], Joint] = field(default_factory=dict)


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


def async_client(address: Address) -> AsyncClient:
    """The client of the running event loop."""
    clients = _of_loop().clients
    if address not in clients:
        clients[address] = AsyncClient(address.url, address.key, retry_s=address.retry_s)
    return clients[address]


def joint(address: Address, run: str, until: Until) -> Joint:
    """The joined submissions of the running event loop to one run."""
    joints = _of_loop().joints
    name = (address, run, until)
    if name not in joints:
        joints[name] = async_client(address).joint(run, until=until)
    return joints[name]


def _of_loop() -> _Loop:
    """What belongs to the running loop; what belonged to loops that are closed is let go."""
    name = (os.getpid(), asyncio.get_running_loop())
    with _making:
        if name not in _loops:
            for other in [other for other in _loops if other[1].is_closed() or other[0] != name[0]]:
                del _loops[other]
            _loops[name] = _Loop()
        return _loops[name]
