"""Work that would hold up the event loop: database transactions, parsing, large answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread

T = TypeVar("T")

INLINE_BYTES = 16_384
THREADS = 24  # fewer than the store has connections


async def in_thread(call: Callable[..., T], *args: object) -> T:
    """``call(*args)`` in a thread. It is not abandoned when the caller is cancelled."""
    return await anyio.to_thread.run_sync(call, *args)


async def by_size(size: int, call: Callable[..., T], *args: object) -> T:
    """``call(*args)``: here when the work is small, else in a thread."""
    return call(*args) if size <= INLINE_BYTES else await in_thread(call, *args)


def limit_threads() -> None:
    """Keep this loop's threads below the number of database connections."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
