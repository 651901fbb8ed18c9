"""What the routes share: the service, the hub of waits, the gatherer, known keys, pages of streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from verifier_service.api.backpressure import Admission
from verifier_service.api.gather import Gatherer
from verifier_service.api.key_cache import KeyCache
from verifier_service.api.key_watch import KeyWatch
from verifier_service.api.pages import Pages
from verifier_service.api.probe import Probe
from verifier_service.api.trials import Trials
from verifier_service.api.waiting import Hub
from verifier_service.bootstrap import Service


@dataclass(frozen=True, kw_only=True)
class Context:
    """One per application. ``alive`` tells whether the workers of this process live; ``salts`` are the
    secrets of projects that were looked up."""

    service: Service
    hub: Hub
    gatherer: Gatherer
    keys: KeyCache
    watch: KeyWatch
    pages: Pages
    admission: Admission
    probe: Probe
    alive: Callable[[], bool]
    salts: dict[str, str] = field(default_factory=dict)
    trials: Trials = field(default_factory=Trials)

    @classmethod
    def of(cls, service: Service, alive: Callable[[], bool], *, foresight: bool) -> Context:
        """The parts around one service."""
        return cls(
            service=service,
            hub=Hub(service),
            gatherer=Gatherer(service, foresight=foresight),
            keys=KeyCache(service.store),
            watch=KeyWatch(service.store),
            pages=Pages(service.store),
            admission=Admission(service),
            probe=Probe(service.store, service.settings.project),
            alive=alive,
        )


async def context_of(request: Request) -> Context:
    """The context of the application that serves ``request``. On the loop: a plain function would take a
    thread, and those may all hang."""
    context: Context = request.app.state.context
    return context


InContext = Annotated[Context, Depends(context_of)]
