"""Why a case is waiting, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from verifier_service.domain.cases import Case
from verifier_service.domain.checks import CheckView, DemandView
from verifier_service.domain.evidence import WORKED_TIERS
from verifier_service.domain.history import Queueing
from verifier_service.domain.retractions import RETRACTED
from verifier_service.domain.states import CheckState, DemandState, RewardStatus

MANY = 1_000  # behind more checks than this, nobody is told how many


def waiting_for(
    case: Case, now: float, queueing: Mapping[int, Queueing], stuck: Mapping[int, str]
) -> Iterator[str]:
    """One sentence for everything that may still change the reward; nothing when it is final.

    By the pk of a check: ``queueing`` knows where it stands, ``stuck`` why nobody will claim it.
    """
    standing = case.standing
    if standing.cancelled or standing.status is RewardStatus.FINAL:
        return
    if not standing.finished:
        yield "the trajectory is not finished: more turns or the answer may come"
    for demand in case.demands:
        if demand.state is DemandState.HELD:
            yield f"{demand.path}: held back, {demand.reason}"
        elif demand.state is DemandState.REQUESTED and demand.check is not None:
            yield f"{_named(demand, demand.check)} {_state(demand.check, now, queueing, stuck)}"
        elif demand.reason == RETRACTED and demand.check is not None and case.at(demand.path) is None:
            yield f"{_named(demand, demand.check)}: its evidence was taken back and is not asked for again"
    if standing.needs_decision:
        yield "the policy has not looked at the latest evidence yet"


def _named(demand: DemandView, check: CheckView) -> str:
    return f"{demand.path} ({check.verifier})"


def _state(check: CheckView, now: float, queueing: Mapping[int, Queueing], stuck: Mapping[int, str]) -> str:
    if check.state is CheckState.WAITING_EXTERNAL:
        return "waits for people"
    if check.state is CheckState.RUNNING:
        since = f" for {max(0.0, now - check.started_at):.0f} s" if check.started_at is not None else ""
        return f"runs{since}, attempt {check.attempt + 1}"
    if check.state is not CheckState.QUEUED:
        return f"has ended ({check.state}) and is being taken into account"
    if check.not_before is not None and check.not_before > now:
        failed = f" after: {check.failure.message}" if check.failure is not None else ""
        return f"is tried again in {check.not_before - now:.0f} s{failed}"
    if check.pk in stuck:
        return f"is queued, but {stuck[check.pk]}"
    ahead = queueing[check.pk].ahead if check.pk in queueing else None
    return f"is queued for {'a worker' if check.tier in WORKED_TIERS else 'the desk'}{_behind(ahead)}"


def _behind(ahead: int | None) -> str:
    if not ahead:
        return ""
    if ahead > MANY:
        return f" behind more than {MANY:,} checks"
    return f" behind {ahead} check{'s' if ahead > 1 else ''}"
