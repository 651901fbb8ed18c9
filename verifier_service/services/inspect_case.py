"""The whole case: turns, checks, evidence, decisions with reasons, every revision and attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from verifier_service.domain.cases import Body, Case
from verifier_service.domain.checks import CheckView
from verifier_service.domain.decisions import LoggedDecision
from verifier_service.domain.errors import NotFound
from verifier_service.domain.evidence import WORKED_TIERS
from verifier_service.domain.history import Queueing
from verifier_service.domain.planning import here
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.states import CheckState
from verifier_service.domain.workers import Kind, nobody_runs


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeCase:
    """Everything about one trajectory. By the pk of a check: ``queueing`` has every attempt, ``stuck`` says
    why no living worker will claim it."""

    case: Case
    body: Body
    history: list[RewardRecord]
    decisions: list[LoggedDecision]
    queueing: Mapping[int, Queueing]
    stuck: Mapping[int, str]


def whole_case(tx: Transaction, catalog: Catalog, project: str, run: str, trajectory: str) -> WholeCase:
    """Turns, checks, evidence, decisions and every revision. Raises ``NotFound``."""
    found = tx.trajectories.find(project, run, [trajectory])
    if trajectory not in found:
        raise NotFound("unknown_trajectory", f"run {run!r} has no trajectory {trajectory!r}")
    pk = found[trajectory].pk
    [case] = tx.trajectories.cases([pk])
    checks = {demand.check.pk: demand.check for demand in case.demands if demand.check is not None}
    queueing = tx.checks.histories(checks)
    return WholeCase(
        case=case,
        body=tx.trajectories.bodies([pk])[pk],
        history=tx.rewards.history(project, run, trajectory),
        decisions=tx.decisions.of_trajectory(pk),
        queueing=queueing,
        stuck=_stuck(tx, catalog, checks, queueing),
    )


def _stuck(
    tx: Transaction,
    catalog: Catalog,
    checks: Mapping[int, CheckView],
    queueing: Mapping[int, Queueing],
) -> dict[int, str]:
    queued = [one for one in checks.values() if one.state is CheckState.QUEUED and one.tier in WORKED_TIERS]
    workers = {tier: tx.workers.listed(tier, current=False) for tier in {one.tier for one in queued}}
    found = {
        one.pk: nobody_runs(
            Kind(one.verifier, queueing[one.pk].build),
            one.tier,
            workers[one.tier],
            here(catalog, one.verifier),
        )
        for one in queued
        if one.pk in queueing
    }
    return {pk: why for pk, why in found.items() if why is not None}
