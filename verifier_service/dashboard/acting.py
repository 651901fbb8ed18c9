"""What the viewer does, through services: as the API does it, with the session in the place of a key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends
from starlette.datastructures import FormData

from verifier_service.bootstrap import Service
from verifier_service.dashboard.sessions import InService, Visiting, read_form
from verifier_service.domain.accounts import Viewer
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.runs import Key

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Acting:
    """Somebody at work."""

    service: Service
    viewer: Viewer
    key: Key

    @property
    def project(self) -> str:
        """The project that everything is done in."""
        return self.viewer.project

    @property
    def login(self) -> str:
        """Who acts."""
        return self.viewer.login

    def do(self, work: Callable[[Transaction], T]) -> T:
        """One unit of work whose acts are told of as come through this session."""

        def through(tx: Transaction) -> T:
            tx.reviews.through(self.key.id)
            return work(tx)

        return self.service.unit(through)


def acting(visit: Visiting, service: InService) -> Acting:
    """The viewer, as services and the trail know who acts. It needs no scopes: pages ask for rights."""
    user, session = visit.user, visit.session
    key = Key(
        id=f"session:{session.id}",
        project=user.project,
        name=user.login,
        owner=user.login,
        scopes=frozenset(),
        created_at=session.created_at,
    )
    return Acting(service, Viewer.of(user), key)


InActing = Annotated[Acting, Depends(acting)]


SentForm = Annotated[FormData, Depends(read_form)]


def text_of(form: FormData, name: str, most: int = 20_000) -> str:
    """A field's text, without what surrounds it; empty where it is not there."""
    value = form.get(name)
    return value[:most].strip() if isinstance(value, str) else ""


def texts_of(form: FormData, name: str) -> list[str]:
    """All texts of a field that may come several times."""
    return [value for value in form.getlist(name) if isinstance(value, str) and value]
