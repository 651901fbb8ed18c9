"""Claim work under the ledger, and report how it ended under the fence."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from verifier_service.domain.attempts import completion_of, job_id, job_of, noted
from verifier_service.domain.checks import Claim, Completion, Reservation
from verifier_service.domain.errors import NotFound
from verifier_service.domain.evidence import WORKED_TIERS, Failure, Tier
from verifier_service.domain.planning import current_method, here
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.costs import CostModel
from verifier_service.domain.ports.execution import Done, Job, Released
from verifier_service.domain.ports.policy import Tariff
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.pricing import Pricing, is_priced
from verifier_service.domain.scoring import BUDGET_EXHAUSTED, METHOD_CHANGED
from verifier_service.domain.states import CheckState
from verifier_service.domain.workers import Counts, Kind, VerifierHere

REFUND_WAIT_S = 1.0
LEFT_S = 1.0  # what was left to another worker is not claimed again before
FULL_SHARE = 0.999
OVER_ITSELF = 1.000001


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """Leased work of one worker, and the trajectories whose check ended without being run."""

    claims: dict[str, Claim]
    jobs: tuple[Job, ...]
    cut: frozenset[str]
    ended: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sorted:
    """Claims to run here, trajectories whose check ended, and how many claims were left to others."""

    kept: list[Claim] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)
    left: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """Accepted check pks, the trajectories that they concern, and how many attempts ended in which way."""

    accepted: frozenset[int]
    pks: tuple[int, ...]
    counts: Counts


def take(
    tx: Transaction,
    catalog: Catalog,
    tariff: Tariff,
    costs: CostModel,
    *,
    tier: Tier,
    limit: int,
    owner: str,
    ttl_s: float,
    without: Collection[str] = (),
    only: Collection[Kind] | None = None,
) -> Taken:
    """Claim the best ready checks of a tier and reserve what each hardly ever exceeds.

    A reservation is cut to what the budget covers, and the time limit with it; what the budget cannot
    cover at all is not run: it waits while other work of its payer may still refund a reservation, and
    else its demands are withdrawn as ``budget_exhausted``.
    """
    sorted_out = _claim(tx, catalog, tier, limit, owner, ttl_s, without, only)
    claims, touched = sorted_out.kept, sorted_out.touched
    if not claims:
        return Taken(claims={}, jobs=(), cut=frozenset(), ended=tuple(sorted(touched)))
    wanted = _reservations(tx, Pricing(catalog, tariff, costs), claims)
    granted = tx.ledger.reserve(wanted)
    cut = {one.pk for one in wanted if one.pk in granted and granted[one.pk] < one.wanted * FULL_SHARE}
    unpaid = _unpaid(tx, claims, granted, cut)
    touched |= _give_up(tx, owner, unpaid, {claim.pk for claim in unpaid if claim.pk in granted})
    kept = {claim.pk for claim in unpaid}
    paid = [claim for claim in claims if claim.pk not in kept]
    return Taken(
        claims={job_id(claim): claim for claim in paid},
        jobs=tuple(job_of(catalog, tariff, claim, granted[claim.pk], claim.pk in cut) for claim in paid),
        cut=frozenset(job_id(claim) for claim in paid if claim.pk in cut),
        ended=tuple(sorted(touched)),
    )


def _claim(
    tx: Transaction,
    catalog: Catalog,
    tier: Tier,
    limit: int,
    owner: str,
    ttl_s: float,
    without: Collection[str],
    only: Collection[Kind] | None,
) -> _Sorted:
    """Claim what can be run here. In place of what is left to others, more is claimed of what is ours."""
    claims = tx.checks.claim(tier, limit, owner, ttl_s, without, only)
    found = _sort_out(tx, catalog, owner, claims) if claims else _Sorted()
    if found.left:
        ours = {one.kind for one in _ours(catalog, tier)}
        more = tx.checks.claim(tier, found.left, owner, ttl_s, without, ours if only is None else only)
        rest = _sort_out(tx, catalog, owner, more)
        found = _Sorted(kept=[*found.kept, *rest.kept], touched=found.touched | rest.touched)
    return found


def _ours(catalog: Catalog, tier: Tier) -> Iterator[VerifierHere]:
    for listing in catalog.list():
        mine = here(catalog, listing.info.name) if listing.info.tier is tier else None
        if mine is not None and mine.lacking is None:
            yield mine


def _unpaid(
    tx: Transaction, claims: Sequence[Claim], granted: Mapping[int, float], cut: Collection[int]
) -> list[Claim]:
    """Claims that the budget does not cover, or not enough while others may still refund something."""
    flying = _in_flight(tx, claims)
    return [
        claim
        for claim in claims
        if claim.pk not in granted
        or (claim.pk in cut and flying[_account(claim)] > granted[claim.pk] * OVER_ITSELF)
    ]


def _reservations(tx: Transaction, pricing: Pricing, claims: Sequence[Claim]) -> list[Reservation]:
    if any(is_priced(pricing.catalog.verifier(claim.verifier)) for claim in claims):
        pricing = replace(pricing, fits=tx.costs.fits())
    if projects := {claim.project for claim in claims if claim.external}:
        pricing = replace(pricing, approvals=tx.queues.approvals(projects))
    return [_reservation(pricing, claim) for claim in claims]


def _reservation(pricing: Pricing, claim: Claim) -> Reservation:
    """Less than what it is expected to cost makes no sense; and whoever reserves whole time limits keeps a
    small budget from everybody else while one check runs."""
    least = pricing.of_claim(claim)
    wanted = least if claim.external else pricing.most_of_claim(claim)
    return Reservation(
        pk=claim.pk,
        project=claim.project,
        run=claim.payer,
        account=_account(claim)[2],
        wanted=wanted,
        least=min(wanted, least),
    )


def _sort_out(tx: Transaction, catalog: Catalog, owner: str, claims: Sequence[Claim]) -> _Sorted:
    """Sort out what this installation cannot run, or would run in another way than it was asked for.

    Evidence of another version, or of other libraries, under a check's key would be passed off as the
    asked one. What a living worker runs as it was asked is left to it. Where there is none, a check that
    cannot be run fails, and for one of another method its cases ask again under the key of today.
    """
    reasons = {claim.pk: _unrunnable(catalog, claim) for claim in claims}
    foreign = [claim for claim in claims if reasons[claim.pk] is not None or _outdated(catalog, claim)]
    if not foreign:
        return _Sorted(kept=list(claims))
    left = _elsewhere(tx, catalog, foreign)
    if left:
        tx.checks.complete(owner, [_returned(claim, LEFT_S) for claim in foreign if claim.pk in left])
    mine = [claim for claim in foreign if claim.pk not in left]
    touched = _fail(tx, owner, [(claim, why) for claim in mine if (why := reasons[claim.pk]) is not None])
    touched |= _ask_again(tx, owner, [claim for claim in mine if reasons[claim.pk] is None])
    gone = {claim.pk for claim in foreign}
    return _Sorted(kept=[one for one in claims if one.pk not in gone], touched=touched, left=len(left))


def _outdated(catalog: Catalog, claim: Claim) -> bool:
    return bool(claim.method) and current_method(catalog, claim.verifier, claim.params) != claim.method


def _elsewhere(tx: Transaction, catalog: Catalog, claims: Sequence[Claim]) -> set[int]:
    """Pks of claims that a living worker, as it says of itself, runs just as they were asked."""
    tiers = {claim.tier for claim in claims} & set(WORKED_TIERS)
    run = {
        kind
        for tier in tiers
        for one in tx.workers.listed(tier, current=False)
        if one.alive
        for kind in one.card.runs()
    }
    ours = {mine.kind for tier in tiers for mine in _ours(catalog, tier)}
    return {claim.pk for claim in claims if Kind(claim.verifier, claim.version) in run - ours}


def _fail(tx: Transaction, owner: str, failures: Sequence[tuple[Claim, Failure]]) -> set[int]:
    if not failures:
        return set()
    ended = [
        Completion(pk=claim.pk, fence=claim.fence, state=CheckState.FAILED, failure=failure)
        for claim, failure in failures
    ]
    tx.demands.lock([one.pk for one in ended])
    return set(tx.demands.satisfy(sorted(tx.checks.complete(owner, ended))))


def _ask_again(tx: Transaction, owner: str, claims: Sequence[Claim]) -> set[int]:
    touched: set[int] = set()
    if claims:
        tx.checks.complete(owner, [_returned(claim) for claim in claims])
    for claim in claims:
        touched |= _withdraw(tx, claim, tx.demands.wanting(claim.pk), METHOD_CHANGED)
    return touched


def _unrunnable(catalog: Catalog, claim: Claim) -> Failure | None:
    """Why a check cannot run here: its verifier is gone, or lacks a library."""
    try:
        missing = None if claim.external else catalog.availability(claim.verifier)
    except NotFound:
        return _resource("unknown_verifier", f"{claim.verifier} is not installed here")
    return None if missing is None else _resource("verifier_unavailable", missing)


def _resource(code: str, message: str) -> Failure:
    return Failure(kind="resource", code=code, message=message)


def _returned(claim: Claim, delay_s: float = 0.0) -> Completion:
    return Completion(
        pk=claim.pk,
        fence=claim.fence,
        state=CheckState.QUEUED,
        spend_attempt=False,
        delay_s=delay_s,
        attempted=False,
    )


def _give_up(tx: Transaction, owner: str, claims: Sequence[Claim], hopeful: Collection[int]) -> set[int]:
    """Return unpaid claims. Where work in flight may still refund something to their payer they wait,
    and so do those in ``hopeful``; else the payer's demands go and other runs' demands take over the
    bill. Returns the trajectories of those."""
    if not claims:
        return set()
    flying = _in_flight(tx, claims)
    waiting = {claim.pk for claim in claims if claim.pk in hopeful or flying[_account(claim)] > 0}
    tx.checks.complete(
        owner, [_returned(claim, REFUND_WAIT_S if claim.pk in waiting else 0.0) for claim in claims]
    )
    touched: set[int] = set()
    for claim in claims:
        if claim.pk not in waiting:
            touched |= _withdraw_payer(tx, claim)
    return touched


def _in_flight(tx: Transaction, claims: Sequence[Claim]) -> dict[tuple[str, str, str], float]:
    """Credits reserved at this moment in every account that these claims are paid from."""
    places = {(claim.project, claim.payer) for claim in claims}
    return {
        (project, run, account.kind): account.reserved
        for project, run in places
        for account in tx.ledger.accounts(project, run)
    }


def _account(claim: Claim) -> tuple[str, str, str]:
    return claim.project, claim.payer, "human" if claim.external else "compute"


def _withdraw_payer(tx: Transaction, claim: Claim) -> set[int]:
    wanting = [row for row in tx.demands.wanting(claim.pk) if row[2] == claim.payer]
    return _withdraw(tx, claim, wanting, BUDGET_EXHAUSTED)


def _withdraw(
    tx: Transaction, claim: Claim, wanting: Sequence[tuple[int, int, str]], reason: str
) -> set[int]:
    tx.demands.withdraw([demand for demand, _, _ in wanting], reason=reason)
    tx.checks.withdraw([claim.pk])
    return {trajectory for _, trajectory, _ in wanting}


def report(
    tx: Transaction,
    catalog: Catalog,
    tariff: Tariff,
    *,
    owner: str,
    host: str,
    taken: Taken,
    results: Collection[Done | Released],
) -> Ended:
    """Complete attempts whose lease still holds; stale ones are discarded and counted. ``host`` is where
    they ran."""
    completions: list[Completion] = []
    broke: list[Claim] = []
    for result in results:
        claim = taken.claims[result.id]
        completion = completion_of(catalog, tariff, owner, claim, result, host)
        if _ran_out_of_money(result, taken):
            completion = replace(completion, state=CheckState.QUEUED, spend_attempt=False)
            broke.append(claim)
        completions.append(completion)
    tx.demands.lock([completion.pk for completion in completions])
    accepted = tx.checks.complete(owner, completions)
    own = [(taken.claims[one.id], one) for one in results if isinstance(one, Done)]
    unpaid = {claim.pk for claim in broke}
    tx.costs.note([*noted(catalog, (pair for pair in own if pair[0].pk in accepted - unpaid))])
    touched: set[int] = set()
    for claim in broke:
        if claim.pk in accepted:
            touched |= _withdraw_payer(tx, claim)
    touched.update(tx.demands.satisfy(sorted(accepted)))
    for result, completion in zip(results, completions, strict=True):
        _tell(tx, owner, taken.claims[result.id], completion, stale=completion.pk not in accepted)
    made = [one for one, result in zip(completions, results, strict=True) if isinstance(result, Done)]
    return Ended(accepted=frozenset(accepted), pks=tuple(sorted(touched)), counts=_counted(made, accepted))


def _tell(tx: Transaction, owner: str, claim: Claim, completion: Completion, *, stale: bool) -> None:
    """Attempts of the fast tier by the thousand are for who looks for them."""
    failure = completion.failure
    tx.tell(
        "attempt discarded: its lease was lost" if stale else f"attempt {completion.state}",
        level=logging.WARNING if stale else logging.DEBUG if claim.tier is Tier.FAST else logging.INFO,
        project=claim.project,
        run=claim.payer,
        check=claim.key,
        verifier=claim.verifier,
        tier=claim.tier,
        attempt=claim.fence,
        worker=owner,
        code=None if failure is None else failure.code,
        cpu_s=round(completion.cost.cpu_s, 6),
    )


def _counted(completions: Sequence[Completion], accepted: Collection[int]) -> Counts:
    kept = [one for one in completions if one.pk in accepted]
    done = sum(one.evidence is not None for one in kept)
    return Counts(done=done, failed=len(kept) - done, rejected=len(completions) - len(kept))


def _ran_out_of_money(result: Done | Released, taken: Taken) -> bool:
    """Whether the attempt hit a time limit that only the budget had set."""
    return isinstance(result, Done) and result.limit_hit == "time_limit" and result.id in taken.cut
