"""What a case lacks because evidence was taken back."""

from __future__ import annotations

from verifier_service.domain.cases import Case
from verifier_service.domain.checks import DemandView
from verifier_service.domain.retractions import RETRACTED, REVERIFIED
from verifier_service.domain.rewards import RewardCode, RewardReason
from verifier_service.domain.states import LIVE_DEMANDS, DemandState, RewardStatus

REVERIFYING = "reverifying"


def taken_back(case: Case, *, closing: bool = False) -> RewardReason | None:
    """Why a case that had a number has none, if that is because evidence was taken back; ``None`` else, and
    once every rung concerned has ended anew."""
    standing = case.standing
    had_one = standing.reward is not None or standing.status is RewardStatus.RETRACTED
    lacking = _lacking(case) if had_one and not standing.cancelled else {}
    if not lacking:
        return None
    again = any(_asked_again(case, demand) for demand in lacking.values()) and not closing
    return RewardReason(
        code=RewardCode.RETRACTED,
        detail=REVERIFYING if again else None,
        message=_words(list(lacking.values())),
        retryable=again,
    )


def turns_taken_back(case: Case) -> bool:
    """Whether the judgement of the turns is lacking for that reason, and counts."""
    if case.ladder.spec.process.weight == 0.0:
        return False
    return any(demand.role == "process" for demand in _lacking(case).values())


def _lacking(case: Case) -> dict[str, DemandView]:
    """By path: demands whose evidence was taken back, and whose rung has not ended anew since."""
    lacking: dict[str, DemandView] = {}
    judged = f"@{case.standing.n_turns}"
    for demand in case.demands:
        if demand.role == "process" and not demand.path.endswith(judged):
            continue  # of a shorter prefix
        if demand.state is DemandState.SATISFIED:
            lacking.pop(demand.path, None)
        elif _was_taken(demand):
            lacking[demand.path] = demand
    return lacking


def _was_taken(demand: DemandView) -> bool:
    if demand.state is not DemandState.WITHDRAWN or demand.reason not in (RETRACTED, REVERIFIED):
        return False
    return demand.check is not None and demand.check.evidence is not None


def _asked_again(case: Case, demand: DemandView) -> bool:
    """Whether its rung is under way, or will be when the gates below it have let the candidate through."""
    last = [one for one in case.demands if one.path == demand.path][-1]
    return last.state in LIVE_DEMANDS or last.reason == REVERIFIED


def _words(lacking: list[DemandView]) -> str:
    for demand in lacking:
        if demand.check is not None and demand.check.retracted is not None:
            return f"evidence of {demand.check.verifier} was retracted: {demand.check.retracted.reason}"
    return "evidence was retracted"
