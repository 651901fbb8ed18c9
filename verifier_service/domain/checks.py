"""Checks and demands as services and stores hand them to each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from verifier_service.domain.evidence import Cost, Evidence, Failure, Tier
from verifier_service.domain.history import Ran
from verifier_service.domain.ladders import Role
from verifier_service.domain.records import JsonObject
from verifier_service.domain.retractions import Retracted
from verifier_service.domain.states import CheckState, DemandState


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """The end of one attempt, as its lease holder reports it.

    ``state`` succeeded carries ``evidence``; failed and queued carry ``failure``; queued with
    ``spend_attempt`` false is a release. ``credits`` is what is charged, beyond what was reserved
    as far as the budget goes.
    ``ran`` is what the history of attempts says of it; with ``attempted`` false it says nothing, because
    the claim was given back before anything was tried.
    """

    pk: int
    fence: int
    state: CheckState
    evidence: Evidence | None = None
    failure: Failure | None = None
    cost: Cost = field(default_factory=Cost)
    credits: float = 0.0
    spend_attempt: bool = True
    delay_s: float = 0.0
    attempted: bool = True
    ran: Ran | None = None


class NewCheck(NamedTuple):
    """A check to find or create: one live check per (project, key, replicate).

    ``ended`` is how an attempt went that was made before there was a row: what is created then has ended.
    """

    key: str
    verifier: str
    version: str
    tier: Tier
    params: JsonObject
    item: str  # CheckInput as JSON text
    method: str = ""  # digest of verifier, versions and parameters
    external: bool = False
    priority: float = 0.0
    max_attempts: int = 3
    deadline: float | None = None  # database epoch seconds; only external checks have one
    ended: Completion | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckRef:
    """What ``ensure`` found or made; ``state`` succeeded means that evidence was already there."""

    pk: int
    key: str
    state: CheckState
    created: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class NewDemand:
    """A run's wish for a check on behalf of one trajectory, with the decision behind it.

    ``check`` is ``None`` for a held demand whose check does not exist yet.
    """

    trajectory: int
    path: str
    role: Role
    tier: Tier
    state: DemandState
    check: int | None
    reason: str
    quote: float = 0.0
    rank: float | None = None
    propensity: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A leased check. ``fence`` rises with every claim; only its holder may complete it."""

    pk: int
    key: str
    project: str
    verifier: str
    version: str
    tier: Tier
    params: JsonObject
    item: str
    method: str
    attempt: int
    max_attempts: int
    fence: int
    payer: str  # run id
    external: bool
    replicate: int = 0
    deadline: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """Credits to set aside for one claimed check: what is wanted, and the least that makes sense."""

    pk: int
    project: str
    run: str
    account: str  # "compute" or "human"
    wanted: float
    least: float


class CheckView(NamedTuple):
    """A check as a case sees it. ``retracted`` says that its evidence was taken back: it counts for no
    trajectory any more."""

    pk: int
    key: str
    verifier: str
    tier: Tier
    state: CheckState
    attempt: int
    payer: str | None
    credits: float
    cost: Cost
    evidence: Evidence | None
    failure: Failure | None
    not_before: float | None = None
    started_at: float | None = None
    retracted: Retracted | None = None


class DemandView(NamedTuple):
    """A demand with its check, as a case sees it."""

    pk: int
    path: str
    role: Role
    tier: Tier
    state: DemandState
    reason: str
    quote: float
    rank: float | None
    propensity: float | None
    check: CheckView | None
    decided_at: float | None = None
