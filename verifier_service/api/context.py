"""What the routes share: the service, the hub of waits, the gatherer, known keys, pages of streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from fastapi import Depends, Request

from verifier_service.api.backpressure import Admission
from verifier_service.api.expectations import Expectations
from verifier_service.api.gather import Gatherer
from verifier_service.api.key_cache import KeyCache
from verifier_service.api.pages import Pages
from verifier_service.api.probe import Probe
from verifier_service.api.trials import Trials
from verifier_service.api.waiting import KEYS_EVERY_S, Hub
from verifier_service.api.watch import Watch
from verifier_service.bootstrap import Service
from verifier_service.bootstrap.accounts import Accounts
from verifier_service.domain.ports.store import Store
from verifier_service.domain.runs import RunState

PURGED_EVERY_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Context:
    """One per application. ``alive`` tells whether the workers of this process live; ``revoked`` and
    ``purged`` wait until a key or a run is; ``salts`` are the secrets of projects that were looked up."""

    service: Service
    accounts: Accounts
    hub: Hub
    gatherer: Gatherer
    keys: KeyCache
    revoked: Watch[str]
    purged: Watch[tuple[str, str]]
    pages: Pages
    admission: Admission
    probe: Probe
    expectations: Expectations
    alive: Callable[[], bool]
    salts: dict[str, str] = field(default_factory=dict)
    trials: Trials = field(default_factory=Trials)

    @classmethod
    def of(cls, service: Service, alive: Callable[[], bool], *, foresight: bool) -> Context:
        """The parts around one service."""
        keys = KeyCache(service.store)
        return cls(
            service=service,
            accounts=Accounts(service, revoked=keys.forget, changed=keys.forget_owner),
            hub=Hub(service),
            gatherer=Gatherer(service, foresight=foresight),
            keys=keys,
            revoked=Watch(partial(_revoked, service.store), KEYS_EVERY_S),
            purged=Watch(partial(_purged, service.store), PURGED_EVERY_S),
            pages=Pages(service.store),
            admission=Admission(service),
            probe=Probe(service.store, service.settings.project),
            expectations=Expectations(service),
            alive=alive,
        )


def _revoked(store: Store, key_ids: set[str]) -> set[str]:
    with store.read() as tx:
        return tx.keys.dead(key_ids)


def _purged(store: Store, runs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    with store.read() as tx:
        return {place for place in runs if tx.runs.get(*place).state is RunState.PURGED}


async def context_of(request: Request) -> Context:
    """The context of the application that serves ``request``. On the loop: a plain function would take a
    thread, and those may all hang."""
    context: Context = request.app.state.context
    return context


InContext = Annotated[Context, Depends(context_of)]
