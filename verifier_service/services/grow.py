"""Add turns to an unfinished trajectory, or end one that is under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from verifier_service.domain.cases import Body, Standing
from verifier_service.domain.contents import new_trajectory
from verifier_service.domain.errors import Conflict, InvalidInput, NotFound
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.records import JsonObject
from verifier_service.domain.runs import require_open
from verifier_service.domain.trajectories import MAX_TURNS, Problem, TrajectorySubmission, Turn


@dataclass(frozen=True, kw_only=True, slots=True)
class Grown:
    """The trajectory's pk, and whether this call changed it."""

    pk: int
    changed: bool


def grow(
    tx: Transaction,
    *,
    project: str,
    run: str,
    trajectory: str,
    index: int,
    turns: Sequence[Turn],
    answer: str | JsonObject | None,
    finished: bool,
) -> Grown:
    """Put ``turns`` at position ``index``.

    Idempotent by index: turns that are already there with the same content change nothing. An answer
    is kept with or without turns; until the trajectory is finished a later one replaces it. Raises
    ``NotFound``; ``Conflict`` for other content at an index (``turn_conflict``), a gap (``turn_gap``), a
    finished or cancelled trajectory and a closed run; ``InvalidInput`` past the turn limit.
    """
    require_open(tx.runs.share(project, run))
    standing = _standing(tx, project, run, trajectory)
    [case] = tx.trajectories.cases([standing.pk], lock=True)
    standing = case.standing
    body = tx.trajectories.bodies([standing.pk])[standing.pk]
    fresh = _fresh(standing, body, index, turns)
    told = body.answer if answer is None else answer
    if standing.finished or standing.cancelled:
        if standing.cancelled or fresh or not finished or told != body.answer:
            state = "cancelled" if standing.cancelled else "finished"
            raise Conflict(state, f"trajectory {trajectory!r} is {state} and grows no more")
        return Grown(pk=standing.pk, changed=False)
    if not fresh and not finished and told == body.answer:
        return Grown(pk=standing.pk, changed=False)
    if standing.n_turns + len(fresh) > MAX_TURNS:
        raise InvalidInput("too_many_turns", f"at most {MAX_TURNS} turns", field="turns")
    whole = _whole(standing, body, [*body.turns, *fresh], told, finished)
    tx.trajectories.grow(standing.pk, new_trajectory(whole, case.ladder, tx.projects.secret(project)))
    return Grown(pk=standing.pk, changed=True)


def _fresh(standing: Standing, body: Body, index: int, turns: Sequence[Turn]) -> Sequence[Turn]:
    """The turns that are not there yet. Raises ``Conflict`` for a gap or other content."""
    if index > standing.n_turns:
        raise Conflict("turn_gap", f"the next turn has index {standing.n_turns}", field="index")
    overlap = list(body.turns[index : index + len(turns)])
    if overlap != list(turns[: len(overlap)]):
        raise Conflict("turn_conflict", f"turns from index {index} exist with other content", field="turns")
    return turns[len(overlap) :]


def cancel(tx: Transaction, project: str, run: str, trajectory: str) -> int:
    """Mark a trajectory as cancelled (idempotent); its pk, to be advanced. Raises ``NotFound``."""
    standing = _standing(tx, project, run, trajectory)
    tx.trajectories.cancel(standing.pk)
    return standing.pk


def _standing(tx: Transaction, project: str, run: str, trajectory: str) -> Standing:
    found = tx.trajectories.find(project, run, [trajectory])
    if trajectory not in found:
        raise NotFound("unknown_trajectory", f"run {run!r} has no trajectory {trajectory!r}")
    return found[trajectory]


def _whole(
    standing: Standing,
    body: Body,
    turns: Sequence[Turn],
    answer: str | JsonObject | None,
    finished: bool,
) -> TrajectorySubmission:
    """The submission as if it had come in one piece, so that sending it whole is a duplicate."""
    return TrajectorySubmission(
        id=standing.id,
        group=standing.group,
        group_size=standing.group_size,
        policy_version=standing.policy_version,
        ladder=standing.ladder,
        problem=Problem(prompt=body.prompt, inputs=body.inputs, reference=body.reference),
        turns=tuple(turns),
        answer=answer,
        finished=finished,
        metadata=body.metadata,
    )
