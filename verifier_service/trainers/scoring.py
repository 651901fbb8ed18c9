"""Scoring as every trainer's adapter does it: rollouts in, a number or a reason out.

An adapter maps ``Scored`` to its trainer's form of "no reward"; nothing here makes a number of a
verification that did not happen.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from verifier_service.client import Submission, Wait, name
from verifier_service.client.errors import (
    ServerFailed,
    UnexpectedAnswer,
    VerifierError,
    VerifierUnavailable,
)
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.wire import UNTIL_COMPUTED, ItemError, SubmitResult, SubmitStatus, Until
from verifier_service.trainers.connections import Address, blocking_client, joint

log = logging.getLogger(__name__)

UNREACHABLE = "unreachable"
NOT_YET = "pending"
HOPELESS = frozenset({"unknown_ladder"})
AWAY = (VerifierUnavailable, ServerFailed, UnexpectedAnswer)


class Misconfigured(VerifierError):
    """No rollout can ever be scored like this: the ladder does not exist. Training must not go on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scoring:
    """How an adapter asks; plain values, so that a reward function can be pickled.

    A submission waits until everything that computes is through for it, or the tier ``until`` (``final``:
    until nothing more is to come, be it from a person or when a budget allows), for at most ``seconds``.
    Then what is known comes back, and better evidence reaches the trainer by ``Client.follow``. ``url``
    and ``key`` default to ``$VERIFIER_URL`` and ``$VERIFIER_API_KEY``. A silent or busy service is tried
    again for ``retry_s`` seconds.
    """

    run: str
    ladder: str
    until: Until = UNTIL_COMPUTED
    seconds: float = 60.0
    url: str | None = None
    key: str | None = field(default=None, repr=False)
    retry_s: float = 60.0

    @property
    def address(self) -> Address:
        """Where the service is."""
        return Address(self.url, self.key, self.retry_s)


@dataclass(frozen=True, slots=True)
class Scored:
    """What one rollout got.

    ``code`` says why there is no number: a ``RewardCode``, ``invalid`` or ``conflict`` (the service did not
    take it), or ``unreachable`` (no answer came, or none that makes sense). It is null exactly when
    ``reward`` is a number.
    """

    id: str
    record: RewardRecord | None
    code: str | None
    message: str = ""

    @property
    def reward(self) -> float | None:
        """The reward, or null where there is none."""
        return None if self.record is None else self.record.reward


async def score(scoring: Scoring, submissions: Sequence[Submission]) -> list[Scored]:
    """Score rollouts, in the order given. Concurrent calls of one event loop travel together, and each is
    answered as soon as its own rollouts are through.

    A service that stays away or fails, or a rollout that it refuses, is a ``Scored`` with a reason. Raises
    what can only be mended by hand: ``NotAuthenticated``, ``NotAllowed``, ``Misconfigured``, a closed
    run's ``Conflict``.
    """
    named = name(submissions)
    joined = await joint(scoring.address, scoring.run, scoring.until)
    return _read(scoring, named, await joined.outcomes(named, seconds=scoring.seconds))


def score_blocking(scoring: Scoring, submissions: Sequence[Submission]) -> list[Scored]:
    """As ``score``, from a thread; where the service goes away in the middle, nothing is known of any."""
    named = name(submissions)
    client = blocking_client(scoring.address)
    outcomes: Sequence[SubmitResult | VerifierError]
    try:
        outcomes = client.submit(scoring.run, named, wait=Wait(scoring.until, scoring.seconds)).results
    except AWAY as error:
        outcomes = [error] * len(named)
    return _read(scoring, named, outcomes)


def of_record(record: RewardRecord) -> Scored:
    """A record as an adapter sees it."""
    if record.reward is not None:
        return Scored(record.trajectory, record, None)
    reason = record.reason
    if reason is None:
        return Scored(record.trajectory, record, NOT_YET, f"the record is {record.status}")
    message = ": ".join(part for part in (reason.detail, reason.message) if part)
    return Scored(record.trajectory, record, str(reason.code), message)


def of_result(result: SubmitResult) -> Scored:
    """The fate of a submission as an adapter sees it."""
    name = result.id or ""
    if result.status in (SubmitStatus.INVALID, SubmitStatus.CONFLICT):
        return Scored(name, None, str(result.status), _told(result.error))
    if result.reward is None:
        return Scored(name, None, NOT_YET, "there was no record when the wait was over")
    return of_record(result.reward)


def _told(error: ItemError | None) -> str:
    if error is None:
        return ""
    return ": ".join(part for part in (error.field, error.code, error.message) if part)


def _read(
    scoring: Scoring, submissions: Sequence[Submission], outcomes: Sequence[SubmitResult | VerifierError]
) -> list[Scored]:
    scored = []
    for submission, outcome in zip(submissions, outcomes, strict=True):
        if isinstance(outcome, AWAY):
            scored.append(Scored(_id(submission), None, UNREACHABLE, str(outcome)))
        elif isinstance(outcome, VerifierError):
            raise outcome
        elif outcome.error is not None and outcome.error.code in HOPELESS:
            raise Misconfigured(f"run {scoring.run!r}: {outcome.error.message}")
        else:
            scored.append(of_result(outcome))
    lost = [one for one in scored if one.code in ("invalid", "conflict", UNREACHABLE)]
    if lost:
        log.warning("%d of %d rollouts were not taken: %s", len(lost), len(scored), lost[0].message)
    return scored


def _id(item: Submission) -> str:
    found = item.get("id") if isinstance(item, Mapping) else item.id
    return found if isinstance(found, str) else ""
