"""Envelopes of the HTTP API: what requests carry around the domain's records, and what comes back.

Requests are strict; responses are read tolerantly by the client, so that additions break nobody.

==========================================  ====================  ==================
call, below ``/v1``                         request               response
==========================================  ====================  ==================
POST   runs/{run}/trajectories              SubmitRequest         SubmitResponse
GET    runs/{run}/trajectories/{id}                               CaseView
POST   runs/{run}/trajectories/{id}/turns   TurnsRequest          GrowResponse
POST   runs/{run}/trajectories/{id}/cancel                        CancelResponse
POST   runs/{run}/rewards/query             RewardsQuery          RewardsAnswer
GET    runs/{run}/rewards                                         RewardsPage
POST   score/{run}/{ladder}?format=         the trainer's         the trainer's
GET    runs/{run}/hindsight                                       HindsightPage
GET    runs/{run}/groups/{group}                                  GroupAdvantages
GET    runs                                                       RunList
PUT    runs/{run}                           RunSpec               RunReport
GET    runs/{run}, POST runs/{run}/close                          RunReport
GET    runs/{run}/archive?references=                             JSON lines
POST   runs/{run}/purge?wait=                                     RunReport
GET    ladders                                                    LadderList
GET    ladders/{name}?version=                                    Ladder
PUT    ladders/{name}                       LadderSpec            LadderStored
GET    verifiers                                                  VerifierList
GET    reviews?queue=&state=&limit=                               ReviewList
GET    reviews/{id}                                               Review
POST   reviews/claim                        ClaimRequest          ReviewClaimed
POST   reviews/{id}/decision                ReviewDecision        ReviewDecided
POST   reviews/{id}/release                 ReleaseRequest        Review
GET    lab-requests?queue=&limit=                                 CSV
POST   lab-results                          NewLabResults         LabImport
GET    lab-results?check=&limit=                                  LabVersionList
GET    lab-results/{id}                                           LabImport
GET    keys                                                       KeyList
POST   keys                                 NewKey                KeyCreated
DELETE keys/{id}                                                  Key
GET    users                                                      UserList
POST   users                                NewUser               User
PATCH  users/{login}                        UserChange            User
GET    webhooks                                                   WebhookList
POST   webhooks                             NewWebhook            WebhookCreated
GET    webhooks/{id}, DELETE webhooks/{id}                        Webhook
PATCH  webhooks/{id}                        WebhookChange         Webhook
POST   webhooks/{id}/rotate                 RotateRequest         WebhookCreated
POST   webhooks/{id}/test                                         WebhookTested
GET    webhooks/{id}/deliveries                                   DeliveryPage
POST   webhooks/{id}/replay                 ReplayRequest         Replayed
GET    retractions                                                RetractionList
POST   retractions                          NewRetraction         RetractionAnswer
GET    retractions/{id}                                           Retraction
POST   retractions/{id}/reverify                                  Retraction
==========================================  ====================  ==================
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from verifier_service.domain.accounts import User
from verifier_service.domain.advantages import Estimator as Estimator
from verifier_service.domain.costs import ExpectedCost
from verifier_service.domain.decisions import LoggedDecision
from verifier_service.domain.evidence import Cost, Evidence, Failure, Tier
from verifier_service.domain.history import Attempt
from verifier_service.domain.ladders import Ladder
from verifier_service.domain.ports.catalog import VerifierListing
from verifier_service.domain.records import JsonObject, OpenEnum, Record, Request
from verifier_service.domain.retractions import Retracted
from verifier_service.domain.reviews import Review
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.runs import Key, Run
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.trajectories import Identifier, Turn

MAX_WAIT_S = 120.0
MAX_QUERY_IDS = 10_000

Until = Literal["fast", "simulation", "high_fidelity", "lab", "final"]
# As far as a trainer waits that says nothing: no person and no budget is waited for.
UNTIL_COMPUTED: Until = "high_fidelity"


# Requests


class WaitSpec(Request):
    """How far to wait before answering, and for how long at most.

    With ``linger``, the answer comes at most so many seconds after the first item is met, so that quick
    items do not wait for slow ones; what is not met then can be asked for again.
    """

    until: Until = "final"
    seconds: Annotated[float, Field(ge=0.0, le=MAX_WAIT_S)] = 30.0
    linger: Annotated[float, Field(ge=0.0, le=MAX_WAIT_S)] | None = None


class SubmitRequest(Request):
    """A batch. Items are validated one by one, so that a bad one never affects its neighbours."""

    trajectories: list[Any]
    wait: WaitSpec | None = None


class RewardsQuery(Request):
    """The latest record of each of these trajectories, without uploading them again."""

    ids: Annotated[tuple[Identifier, ...], Field(strict=False, max_length=MAX_QUERY_IDS)]
    wait: WaitSpec | None = None


class TurnsRequest(Request):
    """Turns for position ``index`` of an unfinished trajectory; ``finished`` ends it."""

    index: Annotated[int, Field(ge=0)]
    turns: Annotated[tuple[Turn, ...], Field(strict=False)] = ()
    answer: str | JsonObject | None = None
    finished: bool = False
    wait: WaitSpec | None = None


# Responses


class ProblemDetail(Record):
    """RFC 9457 body of every error.

    ``code`` is stable, ``field`` names the part that was refused, ``limit`` the limit it exceeded.
    """

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
    code: str = "error"
    field: str | None = None
    limit: float | None = None
    retryable: bool = False


class ItemError(Record):
    """Why one item of a batch was not taken."""

    code: str
    message: str
    field: str | None = None


class SubmitStatus(OpenEnum):
    """What became of one item."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    INVALID = "invalid"
    OTHER = "other"


class SubmitResult(Record):
    """One item's fate and its newest reward record, if any; ``id`` is null where none was readable.

    ``met``: the wait is met for this item (null from servers that do not say). ``expected_cost``: what its
    checks would cost, of accepted items that are finished.
    """

    id: str | None
    status: SubmitStatus
    error: ItemError | None = None
    reward: RewardRecord | None = None
    met: bool | None = None
    expected_cost: ExpectedCost | None = None


class SubmitResponse(Record):
    """Results in input order.

    ``complete``: the wait is met for every item. ``cursor``: the run's feed position from before the
    batch's first record, so following from there misses nothing.
    """

    results: tuple[SubmitResult, ...]
    complete: bool = True
    cursor: int = 0


class RewardsPage(Record):
    """A piece of the feed in commit order; ``cursor`` is what to pass as ``after`` next."""

    records: tuple[RewardRecord, ...]
    cursor: int


class RewardsAnswer(Record):
    """Answer to a query: the newest record of each id that has one, in the order asked.

    ``unknown``: ids the run has never seen. ``complete``: the wait is met for every known id;
    ``pending``: those for which it is not (null from servers that do not say).
    """

    records: tuple[RewardRecord, ...]
    unknown: tuple[str, ...] = ()
    pending: tuple[str, ...] | None = None
    complete: bool = True
    cursor: int = 0


class GrowResponse(Record):
    """After growing: how many turns there are, and the newest record if there is one.

    ``process`` has the process rewards of the turns that were sent, null where not judged (yet);
    ``complete`` says whether the wait was met.
    """

    id: str
    changed: bool
    n_turns: int
    finished: bool
    process: tuple[float | None, ...] = ()
    complete: bool = True
    reward: RewardRecord | None = None


class CheckLine(Record):
    """A check as a case shows it. ``attempts``: every attempt at it, the oldest first. ``build``: the
    version of its verifier with those of its libraries, as a retraction may name it; ``retracted``: that
    its evidence was taken back."""

    key: str
    verifier: str
    tier: Tier
    state: str
    attempt: int = 0
    credits: float = 0.0
    cost: Cost = Cost()
    payer: str | None = None
    started_at: datetime | None = None
    not_before: datetime | None = None
    evidence: Evidence | None = None
    failure: Failure | None = None
    version: str | None = None
    build: str | None = None
    attempts: tuple[Attempt, ...] = ()
    retracted: Retracted | None = None


class DemandLine(Record):
    """A demand as a case shows it: the decision, the quote and the check it led to."""

    path: str
    role: str
    tier: Tier
    state: str
    reason: str
    quote: float = 0.0
    rank: float | None = None
    propensity: float | None = None
    decided_at: datetime | None = None
    check: CheckLine | None = None


class CaseView(Record):
    """The whole case. ``reference`` is shown only to keys with scope ``gold``.

    ``waiting`` says in words what the reward still waits for.
    """

    id: str
    run: str
    ladder: str
    ladder_version: int
    group: str | None = None
    group_size: int | None = None
    policy_version: str | None = None
    multiplicity: int = 1
    finished: bool = True
    cancelled: bool = False
    status: RewardStatus | None = None
    reward: float | None = None
    revision: int = 0
    decision: str | None = None
    waiting: tuple[str, ...] = ()
    canonical: str | None = None
    prompt: str | list[JsonObject] = ""
    inputs: JsonObject = {}
    reference: JsonObject | None = None
    turns: tuple[JsonObject, ...] = ()
    answer: str | JsonObject | None = None
    metadata: JsonObject = {}
    demands: tuple[DemandLine, ...] = ()
    decisions: tuple[LoggedDecision, ...] = ()
    rewards: tuple[RewardRecord, ...] = ()
    created_at: datetime


class DecisionPage(Record):
    """Lines of a run's log of decisions, and the position to go on from."""

    decisions: tuple[LoggedDecision, ...]
    next: int


class CancelResponse(Record):
    """A cancelled trajectory with its newest record."""

    id: str
    cancelled: bool = True
    reward: RewardRecord | None = None


class RunList(Record):
    """The project's runs, newest first."""

    runs: tuple[Run, ...]


class LadderList(Record):
    """The latest version of every ladder, by name."""

    ladders: tuple[Ladder, ...]


class LadderStored(Record):
    """A stored ladder; ``created`` is false when the content was already there."""

    ladder: Ladder
    created: bool


class VerifierList(Record):
    """The catalogue, by tier and name."""

    verifiers: tuple[VerifierListing, ...]


class KeyList(Record):
    """The project's keys, oldest first, without secrets."""

    keys: tuple[Key, ...]


class UserList(Record):
    """The project's users by login, disabled ones as well, without secrets."""

    users: tuple[User, ...]


class KeyCreated(Record):
    """A new key; ``token`` is shown this once and never stored."""

    key: Key
    token: str


class ReviewList(Record):
    """Items of the desk, oldest first. ``next``: the last of them, after which the next page begins; null
    when there are no more."""

    reviews: tuple[Review, ...]
    next: str | None = None


class ReviewClaimed(Record):
    """The reserved item, or null when none is free."""

    review: Review | None


class ReviewDecided(Record):
    """The item after a vote; ``created`` is false when the same vote was already there."""

    review: Review
    created: bool
