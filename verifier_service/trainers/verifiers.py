"""verifiers (Prime Intellect): rewards for its rubrics and for tasks of its v1.

A rubric turns an exception of a reward function into 0.0 (``Rubric._call_individual_reward_func``). So
where there is no reward, the rollout gets an ``error``: prime-rl schedules it again and never trains on it.
Its reward is NaN, so that nobody who overlooks the error learns from a 0. A v1 reward raises: the trace
records the error, ``ok`` is false and the reward stays null. Needs verifiers 0.3.1, the last one with both.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import verifiers as vf
from verifiers.v1 import RolloutError
from verifiers.v1 import reward as v1_reward

from verifier_service.trainers.chat import reference_of, submission
from verifier_service.trainers.scoring import UNREACHABLE, Scored, Scoring, score

log = logging.getLogger(__name__)

NONE = float("nan")


class Unverified(vf.Error, RolloutError):  # type: ignore[misc]
    """A rollout has no verified reward, and doing it again would not change that."""


class VerificationFailed(vf.InfraError, Unverified):  # type: ignore[misc]
    """The service or a verifier failed: verifiers does the rollout again, if ``max_retries`` allows."""


class VerifiedRubric(vf.Rubric):  # type: ignore[misc]
    """A rubric whose one reward function ``verified`` is the service's.

    ``info["reference"]`` (object) or the ``answer`` column is the reference, the latter under
    ``reference_field``; ``info["inputs"]`` (object) are the inputs. The trajectory's id is the rollout's
    ``trajectory_id``. Join it with rubrics of your own by ``vf.RubricGroup``.
    """

    def __init__(
        self,
        scoring: Scoring,
        *,
        weight: float = 1.0,
        reference_field: str = "answer",
        parser: Any = None,
    ) -> None:
        super().__init__(funcs=[self.verified], weights=[weight], parser=parser)
        self.scoring = scoring
        self.reference_field = reference_field

    async def verified(self, state: Any) -> float:
        """The reward; NaN with ``state["error"]`` where there is none. Asks nothing about a rollout that
        failed already."""
        if state.get("error") is not None:
            return NONE
        try:
            [scored] = await score(self.scoring, [self.submission_of(state)])
        except Exception as error:  # noqa: BLE001 - the caller would make 0.0 of it
            log.warning("no reward for %s: %s", state.get("trajectory_id"), error)
            state["error"] = Unverified(f"{type(error).__name__}: {error}")
            return NONE
        if scored.reward is None:
            state["error"] = error_of(scored)
            return NONE
        return scored.reward

    async def score_group(self, states: list[Any]) -> None:
        """Score rollouts of one prompt. Advantage: reward - mean over those that have a reward; null for
        the others."""
        await asyncio.gather(*(self.score_rollout(state) for state in states))
        rewards = [state["reward"] for state in states if not math.isnan(state["reward"])]
        mean = sum(rewards) / len(rewards) if rewards else NONE
        for state in states:
            known = not math.isnan(state["reward"])
            state["advantage"] = state["reward"] - mean if known else None
            for step in state["trajectory"] if known else ():
                step["advantage"] = state["advantage"] if step["advantage"] is None else step["advantage"]
                step["reward"] = state["reward"] if step["reward"] is None else step["reward"]

    def submission_of(self, state: Any) -> dict[str, Any]:
        """What the service is told about a rollout."""
        info = state.get("info")
        told = info if isinstance(info, Mapping) else {}
        reference = told.get("reference", state.get("answer") or None)
        return submission(
            self.scoring.ladder,
            prompt=_text(state["prompt"]),
            completion=_text(state["completion"]),
            reference=reference_of(reference, self.reference_field),
            inputs=told.get("inputs"),
            id=state.get("trajectory_id"),
        )


def reward(
    scoring: Scoring, *, weight: float = 1.0, reference_field: str = "answer"
) -> Callable[[Any, Any], Any]:
    """A v1 reward, to be set in the body of a task: ``verified = reward(Scoring(...))``.

    The task's data may have ``reference`` (object) or ``answer``, and ``inputs`` (object). What is said on
    the trace's last branch is the trajectory, its id the trace's. ``trace.info["verifier"]`` gets id, tier,
    status, credits, and the reason where there is no reward; then it raises ``Unverified`` or
    ``VerificationFailed``.
    """

    async def verified(self: Any, trace: Any) -> float:  # noqa: ARG001 - the signature of a method
        [scored] = await score(scoring, [_of_trace(scoring, trace, reference_field)])
        trace.info["verifier"] = _told(scored)
        if scored.reward is None:
            raise error_of(scored)
        return scored.reward

    marked: Callable[[Any, Any], Any] = v1_reward(verified, weight=weight)
    return marked


def error_of(scored: Scored) -> Unverified:
    """The error that stands for a missing reward."""
    reason = None if scored.record is None else scored.record.reason
    passing = scored.code == UNREACHABLE if reason is None else reason.retryable
    kind = VerificationFailed if passing else Unverified
    return kind(f"{scored.code}: {scored.message}")


def _of_trace(scoring: Scoring, trace: Any, reference_field: str) -> dict[str, Any]:
    messages = [_plain(message) for message in trace.messages]
    spoken = next((n for n, one in enumerate(messages) if one.get("role") == "assistant"), len(messages))
    data = trace.task.data
    reference = getattr(data, "reference", None)
    return submission(
        scoring.ladder,
        prompt=messages[:spoken],
        completion=messages[spoken:],
        reference=reference_of(
            getattr(data, "answer", None) if reference is None else reference, reference_field
        ),
        inputs=getattr(data, "inputs", None),
        id=trace.id,
    )


def _told(scored: Scored) -> dict[str, Any]:
    record = scored.record
    known = (
        {} if record is None else {"status": record.status, "tier": record.tier, "credits": record.credits}
    )
    return {"id": scored.id, "code": scored.code, "message": scored.message, **known}


def _text(messages: Any) -> str | list[dict[str, Any]]:
    return messages if isinstance(messages, str) else [_plain(message) for message in messages or ()]


def _plain(message: Any) -> dict[str, Any]:
    """A message as a dictionary; verifiers has them as records, too."""
    if isinstance(message, Mapping):
        calls: Sequence[Any] = message.get("tool_calls") or ()
        return {**message, "tool_calls": [_plain(call) for call in calls]} if calls else dict(message)
    dumped: dict[str, Any] = message.model_dump(mode="json", exclude_none=True)
    return dumped
