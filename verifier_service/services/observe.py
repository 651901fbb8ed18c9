"""What a trace shows of attempts that were reported."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from verifier_service.domain.checks import Claim
from verifier_service.domain.digests import version_of
from verifier_service.domain.evidence import Finding
from verifier_service.domain.ports.execution import Done, Released
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.ports.traces import AttemptSpan

Traced = tuple[tuple[str, ...], AttemptSpan]


def spans(
    tx: Transaction, owner: str, claims: Mapping[str, Claim], results: Sequence[Done | Released]
) -> list[Traced]:
    """The spans of attempts whose trajectories were submitted in a trace, with those traces. ``claims`` by
    job."""
    made = [one for one in results if isinstance(one, Done)]
    parents = tx.traces.of_checks([claims[one.id].pk for one in made])
    return list(_of(owner, claims, made, parents))


def _of(
    owner: str, claims: Mapping[str, Claim], made: Sequence[Done], parents: Mapping[int, tuple[str, ...]]
) -> Iterator[Traced]:
    for done in made:
        claim = claims[done.id]
        if claim.pk in parents:
            yield parents[claim.pk], _span(owner, claim, done)


def _span(owner: str, claim: Claim, done: Done) -> AttemptSpan:
    attributes: dict[str, str | int | float] = {
        "verifier.name": claim.verifier,
        "verifier.version": version_of(claim.version),
        "verifier.tier": claim.tier.value,
        "verifier.check": claim.key,
        "verifier.attempt": claim.fence,
        "verifier.run": claim.payer,
        "verifier.worker": owner,
        "verifier.cpu_s": done.cost.cpu_s,
    }
    outcome = done.outcome
    if isinstance(outcome, Finding):
        attributes["verifier.verdict"] = outcome.verdict.value
    return AttemptSpan(
        verifier=claim.verifier,
        attributes=attributes,
        ago_s=max(0.0, time.monotonic() - done.heard_at),
        wall_s=done.wall_s,
        failed=None if isinstance(outcome, Finding) else outcome.code,
    )
