"""Ports for the work: checks, demands, and the ledger that pays for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from verifier_service.domain.checks import (
    CheckRef,
    CheckView,
    Claim,
    Completion,
    NewCheck,
    NewDemand,
    Reservation,
)
from verifier_service.domain.evidence import Cost, Evidence, Failure, Tier
from verifier_service.domain.history import Queueing
from verifier_service.domain.runs import Account
from verifier_service.domain.states import CheckState
from verifier_service.domain.workers import Kind


class Checks(Protocol):
    """Checks of a project, keyed by content: the unit of work."""

    def ensure(
        self, project: str, payer: str, wanted: Sequence[NewCheck], *, force: bool = False
    ) -> list[CheckRef]:
        """Find or create, in order; equal keys share one row.

        A live or succeeded check is reused and its priority raised; one that failed, was cancelled or
        whose evidence was retracted is never served: a new replicate is created. ``force`` always
        creates a replicate unless one is live. ``payer`` is the run charged for checks this call creates.

        A check with ``ended`` whose key has no row is created as ended, and its payer charged, where
        the payer's compute budget has no limit; everywhere else ``ended`` is disregarded.
        """
        ...

    def claim(
        self,
        tier: Tier,
        limit: int,
        owner: str,
        ttl_s: float,
        without: Collection[str] = (),
        only: Collection[Kind] | None = None,
    ) -> list[Claim]:
        """Lease the best ready checks (priority, then age), but none of the verifiers in ``without``, and
        where ``only`` is given none but those kinds: verifiers in one version.

        Delayed checks that are due take part; where several hundred become due at once, those that are due
        for longest come first. State becomes running, the fence rises. Never hands one check to two owners.
        Its time does not grow with what is queued of other kinds, or delayed.
        """
        ...

    def kinds(self) -> list[tuple[Tier, Kind]]:
        """Of which kinds anything is ready: queued, and not delayed."""
        ...

    def queued(self, tier: Tier, kind: Kind, limit: int) -> list[int]:
        """Pks of queued checks of one kind that are due."""
        ...

    def histories(self, pks: Collection[int]) -> dict[int, Queueing]:
        """Every attempt at these checks, oldest first, the running one last; and for a queued check how
        many of its tier are ready and stand before it, counted up to 1,001."""
        ...

    def beat(self, owner: str, fences: Mapping[int, int], ttl_s: float) -> set[int]:
        """Renew leases; returns the pks still held by (owner, fence) and running."""
        ...

    def complete(self, owner: str, completions: Sequence[Completion]) -> set[int]:
        """End attempts whose (owner, fence) still match; returns the accepted pks.

        Stale completions change nothing and are counted; the cost of a cancelled attempt is still charged,
        as far as the payer's budget goes. Every attempt gets its one row of history, unless it says that
        nothing was attempted. A queued completion past ``max_attempts``
        becomes failed with its failure. Releases what was reserved and charges ``credits`` to the payer,
        beyond the reservation as far as the budget goes.
        """
        ...

    def wait_external(self, owner: str, pk: int, fence: int) -> bool:
        """running -> waiting_external; the reservation stays. False when the lease is lost."""
        ...

    def finish_external(
        self,
        pk: int,
        state: CheckState,
        *,
        evidence: Evidence | None = None,
        failure: Failure | None = None,
        cost: Cost | None = None,
        credits: float = 0.0,
    ) -> bool:
        """waiting_external -> succeeded | failed | cancelled, settling the ledger. False if moved."""
        ...

    def answer(self, found: Mapping[int, Evidence]) -> set[int]:
        """waiting_external -> succeeded for many checks at once, without a charge: what was reserved for
        people is given back. Returns those that still waited."""
        ...

    def amend(self, found: Mapping[int, Evidence]) -> set[int]:
        """Replace the evidence of external checks that have succeeded and whose evidence was not retracted;
        returns those. Whoever calls it keeps the history."""
        ...

    def reap(self, limit: int) -> list[int]:
        """Running checks whose lease has expired: queued with attempt+1, or failed with
        ``worker_lost`` at the last attempt; reservations are refunded. Returns all moved pks."""
        ...

    def reclaim(self, owner_prefix: str) -> list[int]:
        """At start-up of a single-process service: requeue what a dead predecessor held.

        Counts an interruption, not an attempt; after 20 interruptions the check fails.
        """
        ...

    def disown(self, owner: str, held: Mapping[int, int]) -> list[int]:
        """Requeue what is leased to ``owner`` but for the checks it holds, by pk and fence: claims of which
        it never heard. As ``reclaim``, without an attempt spent."""
        ...

    def withdraw(self, pks: Collection[int], *, expired: bool = False) -> list[int]:
        """After demands were withdrawn: cancel live checks that no requested demand wants, refunding
        reservations and clearing their items from the desk, whose votes are paid; a check whose payer left
        passes to the next demanding run. Returns cancelled. ``expired``: what the desk says of them."""
        ...

    def waiting(self, pks: Collection[int]) -> list[int]:
        """Which of these external checks wait for an answer, locked in order until the transaction ends.
        Whoever ends a check together with its item on the desk locks the check first."""
        ...

    def cancelled(self, pks: Collection[int]) -> set[int]:
        """Which of ``pks`` are no longer running; polled by the supervisors of running jobs."""
        ...

    def stale_completions(self) -> int:
        """How many stale completions were discarded since the database was made."""
        ...

    def ready(self) -> frozenset[Tier]:
        """The tiers that have claimable checks, now."""
        ...

    def oldest_queued(self) -> dict[Tier, float]:
        """How long the oldest queued check of each tier has been queued, in seconds; tiers without one are
        absent."""
        ...

    def live(self) -> dict[tuple[Tier, CheckState], int]:
        """How many checks are queued, running or waiting, per tier."""
        ...

    def view(self, pk: int) -> CheckView:
        """One check. Raises ``NotFound``."""
        ...

    def found(self, project: str, keys: Collection[str]) -> dict[str, CheckView | None]:
        """What is stored: the latest success per key whose evidence stands, ``None`` where there are only
        other checks."""
        ...

    def with_passed_deadline(self, limit: int) -> list[int]:
        """Pks of waiting_external or queued external checks whose deadline has passed."""
        ...


class Demands(Protocol):
    """Wishes of runs for checks."""

    def insert(self, demands: Sequence[NewDemand]) -> None:
        """Store; a standing demand for the same (trajectory, path) is left as it is.

        A requested demand on a check that has already ended is stored as satisfied; a withdrawn one
        without a check says why something was never asked for. Raises ``Contended`` when the evidence was
        retracted since the check was found.
        """
        ...

    def request(self, demand: int, check: int, *, reason: str, quote: float) -> None:
        """held -> requested (or satisfied when the check has ended)."""
        ...

    def hold(self, demand: int, *, reason: str, rank: float | None) -> None:
        """requested -> held, or a new reason and rank for a held one."""
        ...

    def withdraw(self, demands: Collection[int], *, reason: str) -> list[int]:
        """held or requested -> withdrawn; returns the check pks they pointed at."""
        ...

    def take_back(self, demands: Collection[int], *, reason: str) -> None:
        """satisfied -> withdrawn, because the evidence was retracted; or another reason for a withdrawn
        one. The check stays with the demand."""
        ...

    def satisfy(self, checks: Collection[int]) -> list[int]:
        """requested -> satisfied for ended checks; returns the trajectory pks concerned, sorted."""
        ...

    def lock(self, checks: Collection[int]) -> list[int]:
        """Lock, in order, the trajectories with a requested demand on these checks; returns their pks.

        Called before ``Checks.complete`` by whoever advances these trajectories afterwards, so that rows
        are locked in the documented order and two workers do not wait for each other.
        """
        ...

    def wanting(self, check: int) -> list[tuple[int, int, str]]:
        """(demand pk, trajectory pk, run) of the requested demands on a check."""
        ...

    def outstanding(self, project: str, run: str) -> dict[str, float]:
        """Credits quoted for checks that the run pays and that no worker has claimed yet, by account:
        spent already as far as the policy is concerned. Reads every one of them: for runs with a limit."""
        ...

    def unpaid(self, project: str, run: str, reason: str) -> list[int]:
        """Trajectory pks with a fast demand that was withdrawn for ``reason``."""
        ...

    def unadvanced(self, limit: int) -> list[int]:
        """Trajectory pks with a requested demand whose check has ended: work left between steps. Where very
        many demands are requested, each call in a transaction that writes looks at the next share of them.
        """
        ...


class Ledger(Protocol):
    """Budgets. The invariant reserved + spent <= limit holds at every commit."""

    def accounts(self, project: str, run: str) -> tuple[Account, ...]:
        """The run's accounts. Raises ``NotFound``."""
        ...

    def totals(self) -> tuple[Account, ...]:
        """What all runs together have reserved and spent, by kind; limits are left out."""
        ...

    def reserve(self, wanted: Sequence[Reservation]) -> dict[int, float]:
        """Set credits aside for claimed checks, in order: pk -> granted credits.

        Granted is ``wanted`` cut to what is left; a check that would get less than ``least`` gets
        nothing and is absent.
        """
        ...
