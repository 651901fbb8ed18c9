"""A climb, pure: which checks a case should have by now, and how it looks once it has them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from verifier_service.domain.cases import Case, Standing
from verifier_service.domain.checks import CheckRef, CheckView, DemandView, NewCheck
from verifier_service.domain.digests import candidate_digest
from verifier_service.domain.evidence import TIERS, Cost, Tier
from verifier_service.domain.ladders import Rung
from verifier_service.domain.planning import IDENTIFY_PATH, identify_rung
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.retractions import KEPT, RETRIED, REVERIFIED
from verifier_service.domain.scoring import BUDGET_EXHAUSTED, METHOD_CHANGED, contested
from verifier_service.domain.states import CheckState, DemandState

STEP_REASON = "every trajectory gets the fast tier"
AGAIN_REASON = "asked again: evidence was taken back, its verifier has changed, or an operator retried it"
GATE_REJECTED = "a hard gate rejected the candidate"
VERIFIED_AGAIN = frozenset({REVERIFIED, KEPT, RETRIED})
# Withdrawn for one of these, a rung is asked again; what a gate had ended, where none rejects any more.
ASKED_AGAIN = VERIFIED_AGAIN | {METHOD_CHANGED, GATE_REJECTED}
UNLOADED = 0
_NO_COST = Cost()

Subject = tuple[str, str | None]
PlanKey = tuple[str, str, str, int, str, str]


def plan_key(standing: Standing, path: str) -> PlanKey:
    """What a check planned in advance is good for: this content, under this version of its ladder."""
    return (
        standing.id,
        standing.content,
        standing.ladder,
        standing.ladder_version,
        path,
        standing.subject,
    )


def subject_of(catalog: Catalog, case: Case) -> Subject | None:
    """What keys the other checks of a case that is not identified, and its canonical form; ``None`` while
    that is not known. On failure the raw digest stands."""
    standing = case.standing
    if standing.identified or not standing.finished:
        return None
    if catalog.identifier(case.ladder.spec.candidate.kind) is None:
        return standing.subject, None
    demand = case.at(IDENTIFY_PATH)
    if demand is None or demand.state is not DemandState.SATISFIED:
        return None
    evidence = case.evidence(demand)
    found = evidence.identity if evidence is not None else None
    if found is None:
        return standing.subject, None
    return candidate_digest(found.kind, found.canonical, found.toolkit), found.canonical


def identified(case: Case, found: Subject) -> Case:
    """The case under its subject."""
    subject, canonical = found
    named = case.standing._replace(subject=subject, canonical=canonical, identified=True)
    return Case(standing=named, ladder=case.ladder, demands=case.demands)


def missing(catalog: Catalog, case: Case, *, again: bool) -> Iterator[Rung]:
    """Fast rungs that the case should have by now and does not; and, as soon as the gates allow, rungs
    above whose evidence is to be verified again."""
    forgiven = ASKED_AGAIN | {BUDGET_EXHAUSTED} if again else ASKED_AGAIN
    standing = case.standing
    if standing.cancelled:
        return
    last = {demand.path: demand for demand in case.demands}
    had = {
        path
        for path, demand in last.items()
        if demand.state is not DemandState.WITHDRAWN or demand.reason not in forgiven
    } | contested(case)
    yield from (rung for rung in case.ladder.process_rungs(standing.n_turns) if rung.path not in had)
    if not standing.finished or case.gate_rejection("hard_gate") is not None:
        return
    identifier = catalog.identifier(case.ladder.spec.candidate.kind)
    if identifier is not None and not standing.identified:
        if IDENTIFY_PATH not in had:
            yield identify_rung(identifier)
        return
    for rung in case.ladder.rungs_of(Tier.FAST):
        if rung.path not in had:
            yield rung
    yield from _verified_again(case, had)


def _verified_again(case: Case, had: Collection[str]) -> Iterator[Rung]:
    """Rungs above the fast tier whose evidence was there and is to be verified again."""
    taken = {demand.path for demand in case.demands if demand.reason in VERIFIED_AGAIN} - set(had)
    if taken and case.passed(up_to=Tier.FAST):
        for tier in TIERS[1:]:
            yield from (rung for rung in case.ladder.rungs_of(tier) if rung.path in taken)


@lru_cache(maxsize=4_096)
def climbing(path: str) -> tuple[int, int]:
    """Position of a rung: identify, process checks, then the tiers, each in the ladder's order."""
    place, _, index = path.partition("/")
    if place in TIERS:
        return 1 + Tier(place).rank, int(index)
    # Process checks are asked once per prefix: their paths end in "@" and its length.
    return (0, int(index.partition("@")[0])) if place == "process" else (-1, 0)


def with_demands(case: Case, views: Iterable[DemandView]) -> Case:
    """The case with demands just stored."""
    demands = sorted((*case.demands, *views), key=lambda view: climbing(view.path))
    return Case(standing=case.standing, ladder=case.ladder, demands=tuple(demands))


def demand_on(rung: Rung, check: CheckView) -> DemandView:
    """A demand just stored, as a later load would show it."""
    ended = check.state in (CheckState.SUCCEEDED, CheckState.FAILED)
    return DemandView(
        pk=UNLOADED,
        path=rung.path,
        role=rung.role,
        tier=rung.tier,
        state=DemandState.SATISFIED if ended else DemandState.REQUESTED,
        reason=STEP_REASON,
        quote=0.0,
        rank=None,
        propensity=None,
        check=check,
    )


def view_of(check: NewCheck, ref: CheckRef, payer: str) -> CheckView:
    """A check just made, as a later load would show it."""
    ended = check.ended if ref.created and ref.state is not CheckState.QUEUED else None
    return CheckView(
        pk=ref.pk,
        key=ref.key,
        verifier=check.verifier,
        tier=check.tier,
        state=ref.state,
        attempt=0 if ended is None else 1,
        payer=payer,
        credits=0.0 if ended is None else ended.credits,
        cost=_NO_COST if ended is None else ended.cost,
        evidence=None if ended is None else ended.evidence,
        failure=None if ended is None else ended.failure,
    )
