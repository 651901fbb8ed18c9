"""Groups: advantages over the samples of one prompt."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from verifier_service.api.auth import Reader
from verifier_service.api.context import InContext
from verifier_service.api.paths import GroupId, RunId
from verifier_service.api.problems import documented
from verifier_service.domain.rewards import GroupAdvantages
from verifier_service.services.advantages import group_advantages

router = APIRouter(prefix="/v1/runs/{run}/groups", tags=["groups"])


@router.get("/{group}", responses=documented(404, 410))
def advantages(
    run: RunId,
    group: GroupId,
    caller: Reader,
    context: InContext,
    estimator: Literal["grpo", "dr_grpo", "rloo", "posterior"] = "grpo",
    ddof: Annotated[Literal["0", "1"], Query(description="0: population, 1: sample deviation.")] = "0",
) -> GroupAdvantages:
    """Advantages as the rewards stand; members without a reward are outside all of it. Scope: `read`."""
    with context.service.store.read() as tx:
        return group_advantages(tx, caller.project, run, group, estimator=estimator, ddof=int(ddof))
