"""The whole case: turns, checks, evidence, decisions with reasons, every revision."""

from __future__ import annotations

from dataclasses import dataclass

from verifier_service.domain.cases import Body, Case
from verifier_service.domain.errors import NotFound
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.rewards import RewardRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeCase:
    """Everything about one trajectory."""

    case: Case
    body: Body
    history: list[RewardRecord]


def whole_case(tx: Transaction, project: str, run: str, trajectory: str) -> WholeCase:
    """Turns, checks, evidence, decisions and every revision. Raises ``NotFound``."""
    found = tx.trajectories.find(project, run, [trajectory])
    if trajectory not in found:
        raise NotFound("unknown_trajectory", f"run {run!r} has no trajectory {trajectory!r}")
    pk = found[trajectory].pk
    [case] = tx.trajectories.cases([pk])
    return WholeCase(
        case=case,
        body=tx.trajectories.bodies([pk])[pk],
        history=tx.rewards.history(project, run, trajectory),
    )
