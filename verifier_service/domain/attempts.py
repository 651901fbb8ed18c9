"""One attempt: from a claim to the job that the harness runs, and from its result to its end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator

from verifier_service.domain.checks import Claim, Completion
from verifier_service.domain.costs import NotedAttempt
from verifier_service.domain.evidence import Evidence, Failure, Finding, Provenance
from verifier_service.domain.history import Ran
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.execution import Done, Job, Released
from verifier_service.domain.ports.policy import Tariff
from verifier_service.domain.pricing import is_priced
from verifier_service.domain.states import CheckState
from verifier_service.domain.verifiers import CheckInput

BACKOFF_S = 1.0
MAX_BACKOFF_S = 60.0
NOTED_AT_ONCE = 16  # of one method in one report: more of the same batch teach little


def job_of(catalog: Catalog, tariff: Tariff, claim: Claim, credits: float, cut: bool) -> Job:
    limits = catalog.verifier(claim.verifier).limits
    return Job(
        id=job_id(claim),
        verifier=claim.verifier,
        params=claim.params,
        item=claim.item,
        time_s=min(limits.time_s, tariff.seconds(credits)) if cut else limits.time_s,
        memory_mb=limits.memory_mb,
        limit_is_cut=cut,
    )


def job_id(claim: Claim) -> str:
    """Name of one attempt: a result can never be taken for another attempt's."""
    return f"{claim.pk}.{claim.fence}"


def completion_of(
    catalog: Catalog,
    tariff: Tariff,
    owner: str,
    claim: Claim,
    result: Done | Released,
    host: str | None = None,
) -> Completion:
    """How an attempt ends by its result. With the worker's ``host`` it says for the history how it ran."""
    credits = tariff.credits(result.cost)
    ran = None if host is None else _ran(host, result)
    if isinstance(result, Released):
        return Completion(
            pk=claim.pk,
            fence=claim.fence,
            state=CheckState.QUEUED,
            cost=result.cost,
            credits=credits,
            spend_attempt=False,
            ran=ran,
        )
    if isinstance(result.outcome, Finding):
        return Completion(
            pk=claim.pk,
            fence=claim.fence,
            state=CheckState.SUCCEEDED,
            evidence=_evidence(catalog, owner, claim, result, result.outcome),
            cost=result.cost,
            credits=credits,
            ran=ran,
        )
    return _failed(claim, result, result.outcome, credits, ran)


def _ran(host: str, result: Done | Released) -> Ran:
    done = result if isinstance(result, Done) else None
    return Ran(
        host=host,
        version=None if done is None else done.version,
        libraries=None if done is None else done.libraries,
        ago_s=max(0.0, time.monotonic() - result.heard_at),
        wall_s=result.wall_s or None,
        peak_mb=result.peak_mb,
    )


def _failed(claim: Claim, result: Done, failure: Failure, credits: float, ran: Ran | None) -> Completion:
    again = failure.retryable and claim.attempt + 1 < claim.max_attempts
    return Completion(
        pk=claim.pk,
        fence=claim.fence,
        state=CheckState.QUEUED if again else CheckState.FAILED,
        failure=failure,
        cost=result.cost,
        credits=credits,
        delay_s=min(MAX_BACKOFF_S, BACKOFF_S * 2**claim.attempt),
        ran=ran,
    )


def _evidence(catalog: Catalog, owner: str, claim: Claim, done: Done, finding: Finding) -> Evidence:
    return Evidence(
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


def noted(catalog: Catalog, ended: Iterable[tuple[Claim, Done]]) -> Iterator[NotedAttempt]:
    """What the cost model learns from attempts that ended by themselves: a few of each method."""
    counts: Counter[str] = Counter()
    for claim, done in ended:
        if done.cost.cpu_s <= 0.0 or not is_priced(catalog.verifier(claim.verifier)):
            continue
        counts[claim.method] += 1
        if counts[claim.method] <= NOTED_AT_ONCE:
            item = CheckInput.model_validate_json(claim.item)
            yield NotedAttempt(
                verifier=claim.verifier,
                method=claim.method,
                size=catalog.size(claim.verifier, claim.params, item),
                cpu_s=done.cost.cpu_s,
                found=isinstance(done.outcome, Finding),
            )
