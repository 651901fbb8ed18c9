"""Claim work under the ledger, and report how it ended under the fence."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from verifier_service.domain.checks import Claim, Completion, Reservation
from verifier_service.domain.errors import NotFound
from verifier_service.domain.evidence import Cost, Evidence, Failure, Finding, Provenance, Tier
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.execution import Done, Job, Released
from verifier_service.domain.ports.policy import Tariff
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.scoring import BUDGET_EXHAUSTED
from verifier_service.domain.states import CheckState

BACKOFF_S = 1.0
MAX_BACKOFF_S = 60.0
REFUND_WAIT_S = 1.0
FULL_SHARE = 0.999


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """Leased work of one worker, and the trajectories whose check ended without being run."""

    claims: dict[str, Claim]
    jobs: tuple[Job, ...]
    cut: frozenset[str]
    ended: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """Accepted check pks, and the trajectories that they concern."""

    accepted: frozenset[int]
    pks: tuple[int, ...]


def take(
    tx: Transaction, catalog: Catalog, tariff: Tariff, *, tier: Tier, limit: int, owner: str, ttl_s: float
) -> Taken:
    """Claim the best ready checks of a tier and reserve the price of their time limits.

    A reservation is cut to what the budget covers, and the time limit with it; what the budget cannot
    cover at all is not run: it waits while other work of its payer may still refund a reservation, and
    else its demands are withdrawn as ``budget_exhausted``.
    """
    claims = tx.checks.claim(tier, limit, owner, ttl_s)
    if not claims:
        return Taken(claims={}, jobs=(), cut=frozenset(), ended=())
    claims, touched = _refuse(tx, catalog, owner, claims)
    granted = tx.ledger.reserve([_reservation(catalog, tariff, claim) for claim in claims])
    unpaid = [claim for claim in claims if claim.pk not in granted]
    touched |= _give_up(tx, owner, unpaid)
    jobs: list[Job] = []
    cut: set[str] = set()
    for claim in claims:
        if claim.pk not in granted:
            continue
        limits = catalog.verifier(claim.verifier).limits
        time_s = min(limits.time_s, tariff.seconds(granted[claim.pk]))
        shortened = time_s < limits.time_s * FULL_SHARE
        if shortened:
            cut.add(job_id(claim))
        jobs.append(
            Job(
                id=job_id(claim),
                verifier=claim.verifier,
                params=claim.params,
                item=claim.item,
                time_s=time_s,
                memory_mb=limits.memory_mb,
                limit_is_cut=shortened,
            )
        )
    taken = {job_id(claim): claim for claim in claims if claim.pk in granted}
    return Taken(claims=taken, jobs=tuple(jobs), cut=frozenset(cut), ended=tuple(sorted(touched)))


def job_id(claim: Claim) -> str:
    """Name of one attempt: a result can never be taken for another attempt's."""
    return f"{claim.pk}.{claim.fence}"


def _reservation(catalog: Catalog, tariff: Tariff, claim: Claim) -> Reservation:
    info = catalog.verifier(claim.verifier)
    if claim.external:
        wanted = least = tariff.credits(Cost(human_s=info.typical_human_s))
    else:
        wanted = tariff.credits(Cost(cpu_s=info.limits.time_s))
        least = min(wanted, tariff.credits(Cost(cpu_s=info.typical_cpu_s)))
    return Reservation(
        pk=claim.pk,
        project=claim.project,
        run=claim.payer,
        account=_account(claim)[2],
        wanted=wanted,
        least=least,
    )


def _refuse(
    tx: Transaction, catalog: Catalog, owner: str, claims: Sequence[Claim]
) -> tuple[list[Claim], set[int]]:
    """Fail what this installation cannot run as it was asked for; returns the rest."""
    refused: list[Completion] = []
    kept: list[Claim] = []
    for claim in claims:
        failure = _unrunnable(catalog, claim)
        if failure is None:
            kept.append(claim)
            continue
        refused.append(Completion(pk=claim.pk, fence=claim.fence, state=CheckState.FAILED, failure=failure))
    if not refused:
        return kept, set()
    tx.demands.lock([completion.pk for completion in refused])
    accepted = tx.checks.complete(owner, refused)
    return kept, set(tx.demands.satisfy(sorted(accepted)))


def _unrunnable(catalog: Catalog, claim: Claim) -> Failure | None:
    """Why a check cannot run here: the verifier is gone, has another version, or lacks a library.

    Evidence of another version under this check's key would be passed off as the asked one.
    """
    try:
        info = catalog.verifier(claim.verifier)
    except NotFound:
        return _resource("unknown_verifier", f"{claim.verifier} is not installed here")
    if info.version != claim.version:
        message = f"{claim.verifier} {claim.version} was asked for, {info.version} is installed"
        return _resource("verifier_changed", message)
    missing = None if claim.external else catalog.availability(claim.verifier)
    return None if missing is None else _resource("verifier_unavailable", missing)


def _resource(code: str, message: str) -> Failure:
    return Failure(kind="resource", code=code, message=message)


def _give_up(tx: Transaction, owner: str, claims: Sequence[Claim]) -> set[int]:
    """Return unpaid claims. Where nothing in flight can refund anything to their payer, its demands
    go, and other runs' demands take over the bill; returns the trajectories of those."""
    if not claims:
        return set()
    hopeful = {place for place in {_account(claim) for claim in claims} if _may_be_refunded(tx, *place)}
    returned = [
        Completion(
            pk=claim.pk,
            fence=claim.fence,
            state=CheckState.QUEUED,
            spend_attempt=False,
            delay_s=REFUND_WAIT_S if _account(claim) in hopeful else 0.0,
        )
        for claim in claims
    ]
    tx.checks.complete(owner, returned)
    touched: set[int] = set()
    for claim in claims:
        if _account(claim) not in hopeful:
            touched |= _withdraw_payer(tx, claim)
    return touched


def _account(claim: Claim) -> tuple[str, str, str]:
    return claim.project, claim.payer, "human" if claim.external else "compute"


def _may_be_refunded(tx: Transaction, project: str, run: str, kind: str) -> bool:
    return any(
        account.kind == kind and account.reserved > 0 for account in tx.ledger.accounts(project, run)
    )


def _withdraw_payer(tx: Transaction, claim: Claim) -> set[int]:
    wanting = [row for row in tx.demands.wanting(claim.pk) if row[2] == claim.payer]
    tx.demands.withdraw([demand for demand, _, _ in wanting], reason=BUDGET_EXHAUSTED)
    tx.checks.withdraw([claim.pk])
    return {trajectory for _, trajectory, _ in wanting}


def report(
    tx: Transaction,
    catalog: Catalog,
    tariff: Tariff,
    *,
    owner: str,
    taken: Taken,
    results: Collection[Done | Released],
) -> Ended:
    """Complete attempts whose lease still holds; stale ones are discarded and counted."""
    completions: list[Completion] = []
    broke: list[Claim] = []
    for result in results:
        claim = taken.claims[result.id]
        completion = _completion(catalog, tariff, owner, claim, result)
        if _ran_out_of_money(result, taken):
            completion = replace(completion, state=CheckState.QUEUED, spend_attempt=False)
            broke.append(claim)
        completions.append(completion)
    tx.demands.lock([completion.pk for completion in completions])
    accepted = tx.checks.complete(owner, completions)
    touched: set[int] = set()
    for claim in broke:
        if claim.pk in accepted:
            touched |= _withdraw_payer(tx, claim)
    touched.update(tx.demands.satisfy(sorted(accepted)))
    return Ended(accepted=frozenset(accepted), pks=tuple(sorted(touched)))


def _ran_out_of_money(result: Done | Released, taken: Taken) -> bool:
    """Whether the attempt hit a time limit that only the budget had set."""
    return isinstance(result, Done) and result.limit_hit == "time_limit" and result.id in taken.cut


def _completion(
    catalog: Catalog, tariff: Tariff, owner: str, claim: Claim, result: Done | Released
) -> Completion:
    credits = tariff.credits(result.cost)
    if isinstance(result, Released):
        return Completion(
            pk=claim.pk,
            fence=claim.fence,
            state=CheckState.QUEUED,
            cost=result.cost,
            credits=credits,
            spend_attempt=False,
        )
    if isinstance(result.outcome, Finding):
        return Completion(
            pk=claim.pk,
            fence=claim.fence,
            state=CheckState.SUCCEEDED,
            evidence=_evidence(catalog, owner, claim, result, result.outcome),
            cost=result.cost,
            credits=credits,
        )
    return _failed(claim, result, result.outcome, credits)


def _failed(claim: Claim, result: Done, failure: Failure, credits: float) -> Completion:
    again = failure.retryable and claim.attempt + 1 < claim.max_attempts
    return Completion(
        pk=claim.pk,
        fence=claim.fence,
        state=CheckState.QUEUED if again else CheckState.FAILED,
        failure=failure,
        cost=result.cost,
        credits=credits,
        delay_s=min(MAX_BACKOFF_S, BACKOFF_S * 2**claim.attempt),
    )


def _evidence(catalog: Catalog, owner: str, claim: Claim, done: Done, finding: Finding) -> Evidence:
    return Evidence.model_construct(
        **finding.__dict__,
        check=claim.key,
        tier=catalog.verifier(claim.verifier).tier,
        provenance=Provenance(
            verifier=claim.verifier,
            version=done.version,
            libraries=done.libraries,
            params=claim.params,
            replicate=claim.replicate,
            worker=owner,
        ),
        cost=done.cost,
    )
