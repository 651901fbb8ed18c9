"""Atropos: scored groups without the rollouts that nobody could verify.

Atropos' ``scores`` are numbers, its trainers normalise over the group as it comes, and its API holds back
a group of another size than the registered one (``{"status": "buffered"}``) until it finds others that fill
it up. So unscored rollouts are left out, and a group goes only when ``group_size`` rollouts have a reward:
roll out a few more than that. Tested with atroposlib 0.4.0; needs only its HTTP API.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx

from verifier_service.client import Submission
from verifier_service.trainers.scoring import Scored, Scoring, score

log = logging.getLogger(__name__)

OPTIONAL = (
    "advantages",
    "ref_logprobs",
    "inference_logprobs",
    "messages",
    "overrides",
    "distill_token_ids",
    "distill_logprobs",
)
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollout:
    """One sample of a prompt with T tokens.

    ``tokens`` (T) and ``masks`` (T; -100 where the loss is masked) as Atropos has them; ``submission``:
    what the service verifies. Optional, for all members of a group or none: ``advantages`` (T),
    ``ref_logprobs`` (T), ``inference_logprobs`` (T), ``messages``, ``overrides``, and for distillation
    ``distill_token_ids`` and ``distill_logprobs`` (T x k, natural logarithms).
    """

    tokens: Sequence[int]
    masks: Sequence[int]
    submission: Submission
    advantages: Sequence[float] | None = None
    ref_logprobs: Sequence[float] | None = None
    inference_logprobs: Sequence[float] | None = None
    messages: Sequence[Mapping[str, Any]] | None = None
    overrides: Mapping[str, Any] | None = None
    distill_token_ids: Sequence[Sequence[int]] | None = None
    distill_logprobs: Sequence[Sequence[float]] | None = None

    def __post_init__(self) -> None:
        if len(self.masks) != len(self.tokens):
            raise ValueError(f"masks: {len(self.masks)} for {len(self.tokens)} tokens")


async def scored_group(
    scoring: Scoring,
    rollouts: Sequence[Rollout],
    *,
    group_size: int,
    group_overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Score the rollouts of one prompt and make a ``ScoredDataGroup`` of the first ``group_size`` that have
    a reward; null, with a warning that gives the reasons, when fewer have. Return it from
    ``BaseEnv.collect_trajectories`` or hand it to ``AtroposApi.post``."""
    scored = await score(scoring, [one.submission for one in rollouts])
    return group_of(rollouts, scored, group_size=group_size, group_overrides=group_overrides)


def group_of(
    rollouts: Sequence[Rollout],
    scored: Sequence[Scored],
    *,
    group_size: int,
    group_overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """As ``scored_group``, of what is scored already. Raises ``ValueError`` for an optional field that
    some members have and others have not."""
    if group_size < 1:
        raise ValueError(f"group_size: at least 1, not {group_size}")
    pairs = [
        (rollout, one.reward)
        for rollout, one in zip(rollouts, scored, strict=True)
        if one.reward is not None
    ]
    if len(pairs) < group_size:
        reasons = Counter(one.code for one in scored if one.reward is None)
        log.warning("dropped a group: %d of %d have a reward: %s", len(pairs), group_size, dict(reasons))
        return None
    kept = [rollout for rollout, _ in pairs[:group_size]]
    group: dict[str, Any] = {
        "tokens": [list(one.tokens) for one in kept],
        "masks": [list(one.masks) for one in kept],
        "scores": [reward for _, reward in pairs[:group_size]],
    }
    for name in OPTIONAL:
        values = [getattr(one, name) for one in kept]
        if any(value is not None for value in values):
            if any(value is None for value in values):
                raise ValueError(f"{name}: all members of a group have it, or none")
            group[name] = values
    if group_overrides is not None:
        group["group_overrides"] = dict(group_overrides)
    return group


class AtroposApi:
    """An environment's side of the Atropos API at ``url``, for those that do not subclass ``BaseEnv``."""

    def __init__(self, url: str, *, timeout: float = 30.0) -> None:
        self._http = httpx.AsyncClient(base_url=url, timeout=timeout)
        self._env_id: int | None = None
        self._group_size = 0

    async def register(
        self,
        name: str,
        *,
        group_size: int,
        max_token_length: int,
        weight: float = 1.0,
        min_batch_allocation: float | None = None,
        wait_s: float = 600.0,
    ) -> int:
        """Register and return the environment's id. Waits ``wait_s`` seconds for the trainer to start, then
        raises ``TimeoutError``."""
        body = {
            "desired_name": name,
            "group_size": group_size,
            "max_token_length": max_token_length,
            "weight": weight,
            "min_batch_allocation": min_batch_allocation,
        }
        pause = FIRST_PAUSE_S
        async with asyncio.timeout(wait_s):
            while True:
                answer = (await self._post("/register-env", body)).json()
                if answer.get("status") == "success":
                    break
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE_S, 2 * pause)
        self._env_id, self._group_size = int(answer["env_id"]), group_size
        return self._env_id

    async def post(self, group: Mapping[str, Any]) -> None:
        """Hand a group over, once: the API would take a second delivery for another group.

        Raises ``ValueError`` for a group of another size than the registered one, ``httpx.HTTPError`` when
        it may not have arrived.
        """
        if self._env_id is None:
            raise RuntimeError("post before register")
        size = len(group["tokens"])
        if size != self._group_size:
            raise ValueError(f"tokens: {size} members in a group of {self._group_size}")
        answer = (await self._post("/scored_data", {**group, "env_id": self._env_id})).json()
        if answer.get("status") != "received":
            raise ValueError(f"the API did not queue the group: {answer}")

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        answer = await self._http.post(path, json=dict(body))
        return answer.raise_for_status()
