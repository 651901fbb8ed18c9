"""What the demo found, computed from the server's records and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from verifier_service.domain.evidence import TIERS, Tier
from verifier_service.domain.records import Record
from verifier_service.domain.reviews import Review, ReviewState
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.runs import RunReport
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.wire import CaseView, CheckLine

SHOWN_DIGITS = 2
WAITING = (ReviewState.OPEN, ReviewState.CLAIMED)


class TierSummary(Record):
    """One tier. A check shared by several trajectories is counted once."""

    tier: Tier
    checks: int
    failed: int
    demands: int
    held: int
    settled: int
    cpu_s: float
    credits: float


class Comparison(Record):
    """What measuring everything at high fidelity would have cost, at the mean of what was measured.

    ``readable``: trajectories whose answer is one molecule; ``distinct``: different molecules among
    them; ``measured``: of those, how many were sent to high fidelity.
    """

    readable: int
    distinct: int
    measured: int
    mean_cpu_s: float | None
    mean_credits: float | None
    spent_credits: float
    each_trajectory_credits: float | None
    each_molecule_credits: float | None


class Candidate(Record):
    """One molecule with the standing of its best-known trajectory."""

    canonical: str
    trajectories: int
    outcome: float | None
    sd: float | None
    tier: str | None
    status: str
    decision: str | None


class DemoSummary(Record):
    """Everything the demo prints, as data."""

    run: str
    url: str
    data: str
    seconds: float
    trajectories: int
    submitted: dict[str, int]
    statuses: dict[str, int]
    refused: dict[str, int]
    unscored: dict[str, int]
    decisions: dict[str, int]
    rewards: dict[str, float | int | None]
    tiers: tuple[TierSummary, ...]
    comparison: Comparison
    candidates: tuple[Candidate, ...]
    reviews: tuple[str, ...]
    accounts: tuple[dict[str, Any], ...]
    restart: str


def summarise(
    *,
    report: RunReport,
    cases: Sequence[CaseView],
    reviews: Sequence[Review],
    submitted: Mapping[str, int],
    seconds: float,
    url: str,
    data: str,
    restart: str,
) -> DemoSummary:
    """Put the records together."""
    latest = [case.rewards[-1] for case in cases if case.rewards]
    return DemoSummary(
        run=report.run.id,
        url=url,
        data=data,
        seconds=round(seconds, 1),
        trajectories=len(cases),
        submitted=dict(submitted),
        statuses=dict(Counter(str(record.status) for record in latest)),
        refused=_reasons(latest, scored=True),
        unscored=_reasons(latest, scored=False),
        decisions=dict(Counter((case.decision or "none").partition(":")[0] for case in cases)),
        rewards=_rewards(latest),
        tiers=tuple(_tiers(report, cases)),
        comparison=_comparison(cases),
        candidates=tuple(_candidates(cases)),
        reviews=tuple(review.id for review in reviews if review.state in WAITING),
        accounts=tuple(account.model_dump(mode="json") for account in report.run.accounts),
        restart=restart,
    )


def _reasons(records: Iterable[RewardRecord], *, scored: bool) -> dict[str, int]:
    """Named reasons of refusals (a number, the floor) or of missing rewards (null)."""
    names = (
        f"{record.reason.detail or record.reason.code}"
        for record in records
        if record.reason is not None and (record.reward is not None) is scored
    )
    return dict(Counter(names).most_common())


def _rewards(records: Sequence[RewardRecord]) -> dict[str, float | int | None]:
    outcomes = [round(record.outcome, SHOWN_DIGITS) for record in records if record.outcome is not None]
    numbers = [record.reward for record in records if record.reward is not None]
    return {
        "scored": len(numbers),
        "null": len(records) - len(numbers),
        "outcome_zero": sum(outcome == 0.0 for outcome in outcomes),
        "outcome_between": sum(0.0 < outcome < 1.0 for outcome in outcomes),
        "outcome_one": sum(outcome == 1.0 for outcome in outcomes),
        "mean_reward": sum(numbers) / len(numbers) if numbers else None,
        "final": sum(record.status is RewardStatus.FINAL for record in records),
    }


def checks_of(cases: Iterable[CaseView]) -> dict[str, CheckLine]:
    """Every check that the cases lead to, once."""
    return {
        demand.check.key: demand.check
        for case in cases
        for demand in case.demands
        if demand.check is not None
    }


def _tiers(report: RunReport, cases: Sequence[CaseView]) -> Iterable[TierSummary]:
    checks = checks_of(cases)
    for tier in TIERS:
        own = [check for check in checks.values() if check.tier is tier]
        demands = [demand for case in cases for demand in case.demands if demand.tier is tier]
        yield TierSummary(
            tier=tier,
            checks=sum(check.state == "succeeded" for check in own),
            failed=sum(check.state == "failed" for check in own),
            demands=len(demands),
            held=sum(demand.state == "held" for demand in demands),
            settled=report.settled_per_tier.get(tier, 0),
            cpu_s=sum(check.cost.cpu_s for check in own),
            credits=sum(check.credits for check in own),
        )


def _comparison(cases: Sequence[CaseView]) -> Comparison:
    readable = [case for case in cases if case.canonical is not None and not _refused_at_the_gate(case)]
    measured = [
        check
        for check in checks_of(cases).values()
        if check.tier is Tier.HIGH_FIDELITY and check.state == "succeeded"
    ]
    distinct = len({case.canonical for case in readable})
    mean_s = sum(check.cost.cpu_s for check in measured) / len(measured) if measured else None
    mean = sum(check.credits for check in measured) / len(measured) if measured else None
    return Comparison(
        readable=len(readable),
        distinct=distinct,
        measured=len(measured),
        mean_cpu_s=mean_s,
        mean_credits=mean,
        spent_credits=sum(check.credits for check in checks_of(cases).values()),
        each_trajectory_credits=mean * len(readable) if mean is not None else None,
        each_molecule_credits=mean * distinct if mean is not None else None,
    )


def _refused_at_the_gate(case: CaseView) -> bool:
    return any(
        demand.role == "hard_gate"
        and demand.check is not None
        and demand.check.evidence is not None
        and demand.check.evidence.verdict == "reject"
        for demand in case.demands
    )


def _above_floor(record: RewardRecord) -> bool:
    return record.outcome is not None and round(record.outcome, SHOWN_DIGITS) > 0


def _candidates(cases: Sequence[CaseView]) -> list[Candidate]:
    """Molecules that were scored above the floor, best first."""
    groups: dict[str, list[CaseView]] = {}
    for case in cases:
        if case.canonical is not None and case.rewards and _above_floor(case.rewards[-1]):
            groups.setdefault(case.canonical, []).append(case)
    found = []
    for canonical, members in groups.items():
        record = members[0].rewards[-1]
        found.append(
            Candidate(
                canonical=canonical,
                trajectories=len(members),
                outcome=record.outcome,
                sd=None if record.variance is None else record.variance**0.5,
                tier=record.tier,
                status=record.status,
                decision=members[0].decision,
            )
        )
    return sorted(found, key=lambda one: -(one.outcome or 0.0))
