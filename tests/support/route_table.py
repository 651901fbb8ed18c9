"""The application's own table of routes: no test of access depends on a list that somebody keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Mount, Route

from verifier_service.dashboard.headers import SafeHeaders
from verifier_service.dashboard.sizes import Bounded


@dataclass(frozen=True, slots=True)
class Served:
    """One method of one path. ``calls``: everything that is run before the handler."""

    method: str
    path: str
    calls: tuple[Callable[..., Any], ...] = ()


def table(app: FastAPI) -> list[Served]:
    """Every route of an application and of what is mounted in it.

    Raises ``TypeError`` for a kind of route that is not known here: it would be overlooked.
    """
    return list(_walked(app.routes, "", ()))


def _walked(
    routes: Iterable[BaseRoute], prefix: str, before: tuple[Callable[..., Any], ...]
) -> Iterator[Served]:
    for route in routes:
        if isinstance(route, APIRoute):
            calls = (*before, *_calls(route.dependant))
            for method in sorted(route.methods):
                yield Served(method, prefix + route.path, calls)
        elif isinstance(route, Route):
            for method in sorted(route.methods or ()):
                yield Served(method, prefix + route.path, before)
        elif isinstance(route, Mount):
            yield from _mounted(route, prefix, before)
        elif hasattr(route, "original_router"):
            context: Any = route.include_context  # type: ignore[attr-defined]
            asked = tuple(one.dependency for one in context.dependencies)
            inner = route.original_router.routes
            yield from _walked(inner, prefix + context.prefix, (*before, *asked))
        else:
            raise TypeError(f"{type(route).__name__} is no kind of route that is known here")


def _mounted(route: Mount, prefix: str, before: tuple[Callable[..., Any], ...]) -> Iterator[Served]:
    inner = route.app
    while isinstance(inner, SafeHeaders | Bounded):
        inner = inner._app
    if isinstance(inner, FastAPI):
        yield from _walked(inner.routes, prefix + route.path, before)
    else:
        yield Served("*", f"{prefix}{route.path}/", before)


def _calls(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    for one in dependant.dependencies:
        if one.call is not None:
            yield one.call
        yield from _calls(one)
