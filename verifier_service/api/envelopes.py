"""The envelopes of ``domain.wire`` where the server says a little more than it must."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from verifier_service.domain.errors import VerificationError
from verifier_service.domain.evidence import Tier
from verifier_service.domain.records import JsonObject, Request
from verifier_service.domain.scoring import MET_FINAL
from verifier_service.domain.trajectories import Identifier, TrajectorySubmission
from verifier_service.domain.wire import (
    CaseView,
    GrowResponse,
    ItemError,
    ProblemDetail,
    TurnsRequest,
    WaitSpec,
)

ScopeName = Literal["submit", "read", "review", "operate", "admin", "gold"]
NO_WAIT = WaitSpec(until="final", seconds=0.0)


class BatchRequest(Request):
    """A batch of trajectories. It is read item by item, see ``batches``."""

    trajectories: Annotated[tuple[TrajectorySubmission, ...], Field(strict=False)]
    wait: WaitSpec | None = None


class Growth(TurnsRequest):
    """Turns for a trajectory. Without ``wait`` the answer waits a few seconds for the fast tier."""

    wait: WaitSpec | None = None


class NewKey(Request):
    """A new API key. No scope implies another. ``owner`` is the login of the person it is for: who reviews
    through it is that person, and what is submitted through it that person cannot judge."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    owner: Identifier | None = None
    scopes: Annotated[tuple[ScopeName, ...], Field(strict=False, min_length=1, max_length=100)]


class GrowAnswer(GrowResponse):
    """``process`` holds the process rewards of the turns from ``index`` on, null where not judged (yet).

    ``complete`` says whether the wait was met.
    """

    process: tuple[float | None, ...]
    complete: bool


class CaseAnswer(CaseView):
    """A case, with what its reward still waits for in words.

    ``reference`` is left out, and ``reference_hidden`` true, for keys without scope ``gold``.
    """

    reference: JsonObject | None = Field(default=None, exclude_if=lambda value: value is None)
    reference_hidden: bool
    reward: float | None
    revision: int
    waiting: tuple[str, ...]


class Problem(ProblemDetail):
    """An error. ``limit`` was exceeded; ``error_id`` finds the error in the server's log."""

    field: str | None = Field(default=None, exclude_if=lambda value: value is None)
    limit: float | None = Field(default=None, exclude_if=lambda value: value is None)
    error_id: str | None = Field(default=None, exclude_if=lambda value: value is None)


def rank_of(wait: WaitSpec) -> int:
    """``until`` as the rank that ``Standing.met`` is compared with."""
    return MET_FINAL if wait.until == "final" else Tier(wait.until).rank


def item_error(error: VerificationError) -> ItemError:
    """A domain error as an item's."""
    return ItemError(code=error.code, message=error.message, field=error.field)
