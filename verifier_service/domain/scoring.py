"""From a case to its reward: the rules, pure. A verification that did not happen is never a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from verifier_service.domain.cases import Case
from verifier_service.domain.checks import DemandView
from verifier_service.domain.decisions import Estimate
from verifier_service.domain.evidence import (
    TIERS,
    Cost,
    Evidence,
    Failure,
    Hint,
    Measurement,
    Tier,
    Verdict,
)
from verifier_service.domain.rewards import Interval, RewardCode, RewardReason
from verifier_service.domain.states import LIVE_DEMANDS, CheckState, DemandState, RewardStatus
from verifier_service.domain.taken import taken_back, turns_taken_back

BUDGET_EXHAUSTED = "budget_exhausted"
METHOD_CHANGED = "method_changed"
MAX_REASKED = 8  # times that a rung is asked again because the method of its check changed
UNPLANNABLE = "verifier_unavailable"
NO_ESTIMATE = "no_estimate"
BUDGET_DECISION = "budget:"
DEADLINE = "deadline"
CHECK_CANCELLED = "check_cancelled"  # an operator cancelled the check that a demand waited for
REGISTERED_LATE = "registered_late"
PASSED_OVER = (DEADLINE, CHECK_CANCELLED, REGISTERED_LATE)  # withdrawn for good: nothing is found there
MET_FINAL = len(TIERS)
MET_NOTHING = -1
FAILURE_CODES = {
    "transient": RewardCode.INFRASTRUCTURE,
    "resource": RewardCode.INFRASTRUCTURE,
    "permanent": RewardCode.UNVERIFIABLE,
    "timed_out": RewardCode.UNVERIFIABLE,
    "task_error": RewardCode.TASK_ERROR,
}
TAIL = 0.05  # of an interval, on either side
ABOUT_OUTCOME = ("hard_gate", "soft_gate", "measure", "outcome", "review")


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdicted:
    """The outcome half of a reward, before process rewards and status."""

    outcome: float | None = None
    variance: float = 0.0
    low: float = 0.0
    high: float = 0.0
    tier: Tier | None = None
    settled: bool = False  # nothing that may still come can change it
    reason: RewardReason | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A reward record before it has a revision and a place in the feed."""

    status: RewardStatus
    reward: float | None
    outcome: float | None
    process: tuple[float | None, ...]
    process_weight: float
    variance: float | None
    interval: Interval | None
    tier: Tier | None
    tiers: tuple[Tier, ...]
    measurements: tuple[Measurement, ...]
    hints: tuple[Hint, ...]
    reason: RewardReason | None
    evidence: tuple[str, ...]
    cost: Cost = field(default_factory=Cost)
    credits: float = 0.0

    true: bool = False  # rests on the tier whose value the reward estimates, or a gate's rejection


def score(case: Case, estimate: Estimate | None, *, closing: bool = False) -> Draft:
    """The reward of a case as it stands. ``closing`` makes it final at its best tier, or unscored."""
    verdict = judge(case, counting(case, estimate), closing=closing)
    unjudged = unjudged_process(case, closing=closing)
    unexplained = verdict.reason is not None and verdict.reason.detail == NO_ESTIMATE
    if unjudged is not None and (verdict.outcome is not None or unexplained):
        verdict = replace(verdict, outcome=None, tier=None, reason=unjudged)
    taken = taken_back(case, closing=closing)
    if taken is not None and (verdict.outcome is None or turns_taken_back(case)):
        verdict = Verdicted(reason=taken)
    process, process_live = process_rewards(case)
    weight = case.ladder.spec.process.weight
    bonus = _bonus(weight, process)
    retracted = taken is not None and verdict.reason is taken
    status = RewardStatus.RETRACTED if retracted else RewardStatus.UNSCORED
    if verdict.outcome is not None:
        final = closing or (verdict.settled and not process_live)
        status = RewardStatus.FINAL if final else RewardStatus.PROVISIONAL
    used = [item for item in map(case.evidence, case.demands) if item is not None]
    reached = {item.tier for item in used}
    credits, cost = _spend(case)
    scored = verdict.outcome is not None
    return Draft(
        status=status,
        reward=verdict.outcome + bonus if verdict.outcome is not None else None,
        outcome=verdict.outcome,
        process=process,
        process_weight=weight,
        variance=verdict.variance if scored else None,
        interval=Interval(low=verdict.low, high=verdict.high) if scored else None,
        tier=verdict.tier,
        tiers=tuple(tier for tier in TIERS if tier in reached),
        measurements=tuple(measurement for item in used for measurement in item.measurements),
        hints=tuple(hint for item in used for hint in item.hints),
        reason=verdict.reason,
        evidence=tuple(sorted({item.check for item in used})),
        cost=cost,
        credits=credits,
        true=_true(case, verdict),
    )


def counting(case: Case, estimate: Estimate | None) -> Estimate | None:
    """The estimate, unless it is a prediction for a candidate that was tried in vain: what cannot be
    measured is not like those that could, and a verification that did not happen is never a score."""
    if estimate is None or estimate.measured:
        return estimate
    vain = any(failure_of(demand) or demand.reason == REGISTERED_LATE for demand in case.demands)
    return None if vain or _unanswered(case) is not None else estimate


def _true(case: Case, verdict: Verdicted) -> bool:
    if verdict.outcome is None or verdict.tier is None:
        return False
    return verdict.settled or verdict.tier.rank >= case.ladder.spec.truth.rank


def judge(case: Case, estimate: Estimate | None, *, closing: bool = False) -> Verdicted:
    """The outcome: hard gate, then people, then the model, then a soft gate, else a reason why not.

    A hard gate that did not run has not let anything through: without it there is no number.
    """
    if case.standing.cancelled:
        return Verdicted(reason=RewardReason(code=RewardCode.CANCELLED, message="cancelled by the client"))
    rejected = case.gate_rejection("hard_gate")
    if rejected is not None:
        return _floor(rejected, settled=True)
    resting = not case.live() and not case.held() and not case.standing.needs_decision
    refused = case.gate_rejection("review")
    if refused is not None:
        return _refused(case, refused, settled=resting)
    if not case.passed(up_to=estimate.tier if estimate is not None else Tier.FAST):
        return Verdicted(reason=_why_unscored(case, closing=closing))
    if estimate is not None:
        return _estimated(case, estimate, resting)
    soft = case.gate_rejection("soft_gate")
    if soft is not None:
        return _floor(soft, settled=False)
    return Verdicted(reason=_why_unscored(case, closing=closing))


def process_bonus(case: Case) -> float:
    """What the judged turns add to the outcome: w x their mean."""
    weight = case.ladder.spec.process.weight
    return _bonus(weight, process_rewards(case)[0]) if weight else 0.0


def _bonus(weight: float, process: Sequence[float | None]) -> float:
    judged = [value for value in process if value is not None]
    return weight * sum(judged) / len(judged) if judged else 0.0


def process_rewards(case: Case) -> tuple[tuple[float | None, ...], bool]:
    """process[t] = mean over the checks that judged turn t; and whether such a check is still live.

    A check judges a prefix: where several prefixes were judged, the longest that has ended counts.
    """
    longest: dict[str, tuple[int, tuple[float | None, ...]]] = {}
    live = False
    for demand in case.of_role("process"):
        path, _, length = demand.path.partition("@")
        evidence = case.evidence(demand)
        live |= demand.state is DemandState.REQUESTED
        if evidence is not None and evidence.per_turn is not None:
            known = longest.get(path)
            if known is None or int(length or 0) > known[0]:
                longest[path] = (int(length or 0), evidence.per_turn)
    process: list[float | None] = []
    for turn in range(case.standing.n_turns):
        values = [row[turn] for _, row in longest.values() if turn < len(row)]
        judged = [value for value in values if value is not None]
        process.append(sum(judged) / len(judged) if judged else None)
    return tuple(process), live


def unjudged_process(case: Case, *, closing: bool = False) -> RewardReason | None:
    """Why the process half of the reward did not happen, if it should have: a turn that a broken or
    unpaid check did not judge is not a turn without reward."""
    if case.ladder.spec.process.weight == 0.0:
        return None
    wanted = [d for d in case.of_role("process") if d.path.endswith(f"@{case.standing.n_turns}")]
    for demand in wanted:
        if case.evidence_at(demand.path) is not None or demand.state in LIVE_DEMANDS:
            continue
        failure = demand.check.failure if demand.check is not None else None
        if failure is not None and demand.state is DemandState.SATISFIED:
            return _of_failure(failure)
        if case.at(demand.path) is None:
            return _why_unasked(case, closing=closing)
    return None


def _of_failure(failure: Failure) -> RewardReason:
    return RewardReason(
        code=FAILURE_CODES[failure.kind],
        detail=failure.code,
        message=failure.message,
        retryable=failure.retryable,
    )


def met_rank(case: Case, status: RewardStatus | None) -> int:
    """How far a wait is satisfied: the rank of the highest tier T for which ``until: T`` is met,
    ``MET_NOTHING`` for none, ``MET_FINAL`` when nothing at any tier is live, held or undecided."""
    if status is RewardStatus.FINAL or case.standing.cancelled:
        return MET_FINAL
    if case.live(up_to=Tier.FAST) or case.standing.needs_decision:
        return MET_NOTHING
    if case.live():
        return max(tier.rank for tier in TIERS if not case.live(up_to=tier))
    return Tier.LAB.rank if case.held() else MET_FINAL


def _floor(evidence: Evidence, *, settled: bool) -> Verdicted:
    reason = evidence.reason
    return Verdicted(
        outcome=0.0,
        tier=evidence.tier,
        settled=settled,
        reason=RewardReason(
            code=RewardCode.REJECTED,
            detail=reason.code if reason is not None else None,
            message=reason.message if reason is not None else "",
        ),
    )


def _refused(case: Case, evidence: Evidence, *, settled: bool) -> Verdicted:
    """The floor; but where people's verdict is the truth and may be wrong, the outcome is the probability
    that the candidate is good after all."""
    floor, wrong = _floor(evidence, settled=settled), evidence.mistaken
    if not wrong or case.ladder.spec.outcome is None or case.ladder.spec.truth is not Tier.LAB:
        return floor
    return replace(floor, outcome=wrong, variance=wrong * (1.0 - wrong), high=float(wrong > TAIL))


def _estimated(case: Case, estimate: Estimate, resting: bool) -> Verdicted:
    truth = case.ladder.spec.truth
    tier = max([estimate.tier, *_confirming(case)], key=lambda tier: tier.rank)
    reason = None
    for demand in case.of_role("outcome"):
        evidence = case.evidence(demand)
        if evidence is not None and evidence.tier is estimate.tier and evidence.verdict is Verdict.REJECT:
            reason = _floor(evidence, settled=False).reason
    return Verdicted(
        outcome=estimate.outcome,
        variance=estimate.outcome_variance,
        low=estimate.low,
        high=estimate.high,
        tier=tier,
        settled=resting and tier.rank >= truth.rank,
        reason=reason,
    )


def _confirming(case: Case) -> Iterator[Tier]:
    """Tiers at which people accepted the candidate."""
    for demand in case.of_role("review"):
        evidence = case.evidence(demand)
        if evidence is not None and evidence.verdict is Verdict.ACCEPT:
            yield evidence.tier


def _why_unscored(case: Case, *, closing: bool) -> RewardReason:
    """The typed reason for a null reward."""
    under_way = case.live() or case.held() or case.standing.needs_decision or not case.standing.finished
    if under_way and not closing:
        return RewardReason(code=RewardCode.PENDING, message="verification is under way", retryable=True)
    failures = [failure for demand in case.demands if (failure := failure_of(demand)) is not None]
    broken = [failure for failure in failures if failure.kind == "task_error"] or failures
    if broken:
        return _of_failure(broken[-1])
    return _why_unasked(case, closing)


def _why_unasked(case: Case, closing: bool) -> RewardReason:
    """The reason when nothing failed, and yet nothing estimates the outcome."""
    reasons = {demand.reason for demand in case.demands if demand.state is DemandState.WITHDRAWN}
    decision = case.standing.decision or ""
    unanswered = _unanswered(case)
    if REGISTERED_LATE in reasons:
        message = (
            "accepted at the event's close or later, or when its actual was known here: not a forecast"
        )
        return RewardReason(code=RewardCode.UNVERIFIABLE, detail=REGISTERED_LATE, message=message)
    if unanswered is not None:
        return unanswered
    if BUDGET_EXHAUSTED in reasons or decision.startswith(BUDGET_DECISION):
        return RewardReason(
            code=RewardCode.BUDGET_EXHAUSTED, message="the run's budget does not cover it", retryable=True
        )
    if UNPLANNABLE in reasons:
        message = "a verifier of the ladder is not installed here"
        return RewardReason(code=RewardCode.INFRASTRUCTURE, detail=UNPLANNABLE, message=message)
    if CHECK_CANCELLED in reasons:
        message = "an operator cancelled its check"
        return RewardReason(code=RewardCode.CANCELLED, detail=CHECK_CANCELLED, message=message)
    if contested(case):
        message = "workers with other libraries asked for its checks in turn"
        return RewardReason(code=RewardCode.INFRASTRUCTURE, detail=METHOD_CHANGED, message=message)
    if closing:
        message = "the run was closed before it could be verified"
        return RewardReason(code=RewardCode.CANCELLED, detail="run_closed", message=message)
    if DEADLINE in reasons:
        message = "nothing answered by the deadline"
        return RewardReason(code=RewardCode.UNVERIFIABLE, detail=DEADLINE, message=message)
    return RewardReason(
        code=RewardCode.UNVERIFIABLE,
        detail=NO_ESTIMATE,
        message=decision or "no verifier could estimate the outcome",
    )


def _unanswered(case: Case) -> RewardReason | None:
    """Why what decides at the lab tier came to no conclusion, where it says so."""
    decides = case.ladder.spec.outcome
    for demand in reversed(case.demands):
        found = case.evidence(demand) if demand.tier is Tier.LAB and decides is not None else None
        if found is None or decides is None or found.provenance.verifier != decides.use:
            continue
        if found.verdict is Verdict.INCONCLUSIVE and found.score is None and found.reason is not None:
            reason = found.reason
            return RewardReason(code=RewardCode.UNVERIFIABLE, detail=reason.code, message=reason.message)
    return None


def failure_of(demand: DemandView) -> Failure | None:
    """The failure of a demand that counts toward the outcome and ended without evidence."""
    check = demand.check
    if demand.role not in ABOUT_OUTCOME or check is None or demand.state is not DemandState.SATISFIED:
        return None
    return check.failure if check.state is CheckState.FAILED else None


def contested(case: Case) -> frozenset[str]:
    """Paths of rungs whose method changed so often that nobody asks for them any more."""
    changed = Counter(demand.path for demand in case.demands if demand.reason == METHOD_CHANGED)
    return frozenset(path for path, times in changed.items() if times > MAX_REASKED)


def _spend(case: Case) -> tuple[float, Cost]:
    """What this run paid for the case's checks, each counted once."""
    paid = {
        demand.check.pk: demand.check
        for demand in case.demands
        if demand.check is not None and demand.check.payer == case.standing.run
    }
    cost = Cost()
    for check in paid.values():
        cost = cost + check.cost
    return sum(check.credits for check in paid.values()), cost
