"""Webhooks: where reward records are sent, and what became of each.

Requests are signed as Standard Webhooks 1.0.0 says
(https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from verifier_service.domain.records import OpenEnum, Record, Request
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.trajectories import Identifier

MAX_URL_CHARS = 2_048
MAX_CURSOR = 2**53

StatusName = Literal["unscored", "provisional", "final", "retracted"]
Statuses = Annotated[tuple[StatusName, ...], Field(strict=False, min_length=1, max_length=4)]
Address = Annotated[str, Field(min_length=1, max_length=MAX_URL_CHARS)]


class NewWebhook(Request):
    """An endpoint to be told of every reward record of the project, or of one run, or of some statuses."""

    url: Address
    run: Identifier | None = None
    statuses: Statuses | None = None
    description: Annotated[str, Field(max_length=200)] = ""


class WebhookChange(Request):
    """What may change of an endpoint; what is not named stays. A disabled endpoint stands still: enabled
    again, it goes on with what came meanwhile."""

    enabled: bool | None = None
    url: Address | None = None


class ReplayRequest(Request):
    """Send the records of a run after a position, up to ``until``, again, or only those that were given
    up."""

    run: Identifier
    after: Annotated[int, Field(ge=0, le=MAX_CURSOR)] = 0
    until: Annotated[int, Field(ge=1, le=MAX_CURSOR)] | None = None
    failed_only: bool = False


class RotateRequest(Request):
    """A new secret. ``force``: the old one, and one of a rotation that still runs, sign nothing more."""

    force: bool = False


class Webhook(Record):
    """A registered endpoint.

    ``failing_since``: no attempt has succeeded since, and none of those that failed was long after the one
    before; ``streak``: how many failed in a row, those at once counted as one; ``paused_until``: nothing is
    tried before; that it is over does not mean that the endpoint is well. ``disabled_reason``:
    ``operator``, ``gone`` (it answered 410) or ``failing`` (for too long).
    """

    id: str
    url: str
    run: str | None = None
    statuses: tuple[RewardStatus, ...] | None = None
    description: str = ""
    enabled: bool = True
    disabled_reason: str | None = None
    streak: int = 0
    failing_since: datetime | None = None
    paused_until: datetime | None = None
    created_at: datetime


class WebhookCreated(Record):
    """A new endpoint, or one with a new secret; the secret is shown this once."""

    webhook: Webhook
    secret: str = Field(repr=False)


class WebhookList(Record):
    """The project's endpoints, oldest first."""

    webhooks: tuple[Webhook, ...]


class DeliveryState(OpenEnum):
    """Life of a delivery."""

    PENDING = "pending"  # an answer of 2xx, or the last attempt, moves it out
    DELIVERED = "delivered"  # a replay moves it out
    FAILED = "failed"  # a replay moves it out
    OTHER = "other"


class Delivery(Record):
    """One record on its way to one endpoint. ``event`` is the ``webhook-id`` of every attempt; ``attempts``
    counts those that ended; ``next_at``: not tried before. ``error`` is a code (``http_status``,
    ``timeout``, ``connection``, ``blocked_address``...), then what is known of it."""

    event: str
    run: str
    seq: int
    state: DeliveryState
    attempts: int
    status: int | None = None
    error: str | None = None
    next_at: datetime | None = None
    created_at: datetime
    ended_at: datetime | None = None


class DeliveryPage(Record):
    """Deliveries, newest first; ``cursor`` is the ``before`` of the next page, null at the end."""

    deliveries: tuple[Delivery, ...]
    cursor: int | None = None


class Replayed(Record):
    """How many deliveries are due again. Not ``complete``: call again with ``after`` = ``cursor``."""

    replayed: int
    cursor: int
    complete: bool = True


class WebhookTested(Record):
    """What came of a ``webhook.test`` event that was sent at once."""

    event: str
    delivered: bool
    status: int | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where to send and what to sign with, as the sender reads it. ``secrets`` are valid now, newest
    first."""

    pk: int
    id: str
    url: str
    secrets: tuple[str, ...] = field(repr=False)
    streak: int = 0
    failing_since: float | None = None
    paused_until: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Parcel:
    """A claimed delivery: ``event`` identifies it, ``fence`` the claim; ``attempts`` ended before this one.
    ``body`` is null when its record is no more."""

    pk: int
    fence: int
    event: str
    attempts: int
    body: bytes | None = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What an attempt came to: a status or an error; ``retry_after_s`` as the endpoint asks."""

    status: int | None = None
    error: str | None = None
    retry_after_s: float | None = None

    @property
    def delivered(self) -> bool:
        """Any 2xx."""
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    """The end of an attempt; without an answer, the parcel is given back unsent."""

    parcel: Parcel
    answer: Answer | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What is written of a parcel: its new state, and when a pending one is due again, in database time.
    Where it was not ``tried``, only that."""

    parcel: Parcel
    state: DeliveryState
    attempts: int
    not_before: float = 0.0
    status: int | None = None
    error: str | None = None
    tried: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """How an endpoint fares, as it is written after some attempts. ``disabled_reason`` disables it."""

    streak: int
    failing_since: float | None
    paused_until: float | None
    disabled_reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimed:
    """What a claim found at ``now`` (database time): the endpoint, null when it takes nothing at present,
    and its parcels."""

    place: Place | None
    parcels: Sequence[Parcel] = ()
    now: float = 0.0
