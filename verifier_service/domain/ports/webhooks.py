"""Ports of the webhooks: what is stored of them, and the hand that sends."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from verifier_service.domain.webhooks import (
    Answer,
    Claimed,
    Delivery,
    DeliveryState,
    Health,
    NewWebhook,
    Outcome,
    Place,
    Replayed,
    Webhook,
)


class Webhooks(Protocol):
    """Endpoints of projects. All but the secret is read back."""

    def add(self, project: str, wanted: NewWebhook, secret: str, limit: int) -> Webhook:
        """Store an endpoint that begins at the present end of the feeds of runs that exist, and at the
        start of those made later. Raises ``Conflict`` when the project has ``limit`` of them."""
        ...

    def of_project(self, project: str) -> tuple[Webhook, ...]:
        """All endpoints, oldest first."""
        ...

    def get(self, project: str, webhook: str) -> Webhook:
        """One endpoint. Raises ``NotFound``."""
        ...

    def place(self, project: str, webhook: str) -> Place:
        """What a sender needs to know of one. Raises ``NotFound``."""
        ...

    def enable(self, project: str, webhook: str) -> Webhook:
        """Let it take records again, all that are pending at once. Raises ``NotFound``."""
        ...

    def disable(self, project: str, webhook: str, reason: str) -> Webhook:
        """Stop sending to it; a disabled one keeps its reason. Raises ``NotFound``."""
        ...

    def redirect(self, project: str, webhook: str, url: str) -> Webhook:
        """Send to another URL. Raises ``NotFound``."""
        ...

    def rotate(self, project: str, webhook: str, secret: str, overlap_s: float, *, force: bool) -> Webhook:
        """Sign with another secret, and for ``overlap_s`` with the one before, too; with ``force`` with no
        other. Raises ``NotFound``, and ``Conflict`` while a rotation runs, unless with ``force``:
        receivers may have none but the secret that it would drop."""
        ...

    def remove(self, project: str, webhook: str) -> None:
        """Forget an endpoint; its rows are pruned later. Raises ``NotFound``."""
        ...

    def deliveries(
        self,
        project: str,
        webhook: str,
        *,
        run: str | None,
        state: DeliveryState | None,
        before: int | None,
        limit: int,
    ) -> tuple[list[Delivery], int | None]:
        """Deliveries, newest first, and the position after which older ones follow, if any. Raises
        ``NotFound``."""
        ...

    def replay(
        self,
        project: str,
        webhook: str,
        *,
        run: str,
        after: int,
        until: int | None = None,
        failed_only: bool,
        limit: int,
    ) -> Replayed:
        """Make records due again, from the first attempt on: those of a run with seq > ``after``, and at
        most ``until``, that the endpoint takes and has come to, or only those that were given up; at most
        ``limit`` of them. Raises ``NotFound``."""
        ...


class Outbox(Protocol):
    """What is to be sent. Claims hold for a lease; two senders at once send a record twice at worst."""

    def working(self, runs: Collection[str] | None) -> list[int]:
        """Endpoints, by pk, that have something to send now: a delivery that is due, or a record beyond
        their position (with ``runs``: of runs with these ids only)."""
        ...

    def any_enabled(self) -> bool:
        """Whether anybody is to be told of anything."""
        ...

    def claim(self, webhook: int, limit: int, lease_s: float) -> Claimed:
        """Lease up to ``limit`` deliveries that are due; where there are fewer, take more records off the
        feeds, moving the endpoint's position in the same transaction. While its attempts fail, one."""
        ...

    def lock(self, webhook: int) -> Place | None:
        """The endpoint as it is now, kept so until the end of the transaction; null when it is removed."""
        ...

    def settle(self, webhook: int, outcomes: Sequence[Outcome], health: Health | None) -> None:
        """Write how attempts ended. Success always holds; anything else only for the claim's holder."""
        ...

    def depths(self) -> dict[DeliveryState, int]:
        """How many deliveries are kept, by state; of each state 100,000 are counted."""
        ...

    def prune(self, keep_delivered_s: float, keep_failed_s: float, limit: int) -> int:
        """Delete at most ``limit`` deliveries that ended longer ago, and what is left of removed endpoints;
        returns how many rows."""
        ...


class Line(Protocol):
    """Connections to one endpoint, in one event loop."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """One attempt, within the time limit of one, whatever the endpoint does; never raises for what the
        endpoint does. The URL is checked again, and only a checked address is connected to."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class Courier(Protocol):
    """Sends to endpoints."""

    async def admit(self, url: str, *, project: str) -> None:
        """Raises ``InvalidInput`` (field ``url``) for a URL that is not sent to, as it resolves now, and
        ``Contended`` when its name is not resolved in time; slow names of a project delay no other's."""
        ...

    def line(self) -> Line:
        """Connections for one endpoint."""
        ...
