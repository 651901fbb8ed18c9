"""Keys that are remembered: what is revoked here is forgotten at once, looks under way included."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from verifier_service.api.key_cache import KeyCache
from verifier_service.domain.errors import Unauthenticated
from verifier_service.services import tenants


class Slow:
    """A store whose looks end when they may, with what was there when they began."""

    def __init__(self) -> None:
        self.alive = True
        self.looks = 0
        self.may_end = threading.Event()
        self.begun = threading.Event()

    @contextmanager
    def read(self) -> Iterator[Any]:
        yield self


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    made = Slow()

    def authenticate(store: Slow, token: str) -> Any:
        alive, store.looks = store.alive, store.looks + 1
        store.begun.set()
        assert store.may_end.wait(10)
        if not alive:
            raise Unauthenticated("bad_key", "revoked")
        return SimpleNamespace(key=SimpleNamespace(id=token, owner="ann"))

    monkeypatch.setattr(tenants, "authenticate", authenticate)
    return made


@pytest.mark.parametrize(("forget", "what"), [("forget", "k"), ("forget_owner", "ann")])
def test_a_revocation_during_a_look_is_not_undone_by_it(slow: Slow, forget: str, what: str) -> None:
    async def story() -> None:
        cache = KeyCache(slow)  # type: ignore[arg-type]
        before = asyncio.create_task(cache.authenticate("k"))
        await asyncio.to_thread(slow.begun.wait, 10)
        slow.alive = False
        getattr(cache, forget)(what)
        after = asyncio.create_task(cache.authenticate("k"))
        await asyncio.sleep(0.05)
        slow.may_end.set()
        assert (await before).key.id == "k", "it was alive when it was asked"
        with pytest.raises(Unauthenticated):
            await after
        with pytest.raises(Unauthenticated):
            await cache.authenticate("k")

    asyncio.run(story())


def test_one_look_serves_all_who_come_meanwhile_and_those_who_come_soon(slow: Slow) -> None:
    async def story() -> None:
        cache = KeyCache(slow)  # type: ignore[arg-type]
        asked = [asyncio.create_task(cache.authenticate("k")) for _ in range(5)]
        await asyncio.to_thread(slow.begun.wait, 10)
        slow.may_end.set()
        await asyncio.gather(*asked)
        await cache.authenticate("k")
        assert slow.looks == 1

    asyncio.run(story())


def test_keys_of_others_stay_known(slow: Slow) -> None:
    async def story() -> None:
        cache = KeyCache(slow)  # type: ignore[arg-type]
        slow.may_end.set()
        await cache.authenticate("k")
        cache.forget_owner("bob")
        await cache.authenticate("k")
        assert slow.looks == 1
        cache.forget_owner("ann")
        slow.alive = False
        with pytest.raises(Unauthenticated):
            await cache.authenticate("k")

    asyncio.run(story())
