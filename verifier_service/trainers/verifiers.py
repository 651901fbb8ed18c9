"""verifiers (Prime Intellect): rewards for its rubrics and for tasks of its v1.

A rubric turns an exception of a reward function into 0.0 (``Rubric._call_individual_reward_func``). So
where there is no reward, the rollout gets an ``error``: prime-rl schedules it again and never trains on it.
Its reward is NaN, so that nobody who overlooks the error learns from a 0. A v1 reward raises: the trace
records the error, ``ok`` is false and the reward stays null. Needs verifiers 0.3.1, the last one with both.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import verifiers as vf
from verifiers.v1 import RolloutError
from verifiers.v1 import reward as v1_reward

from verifier_service.client import VerifierError
from verifier_service.trainers.chat import reference_of, submission
from verifier_service.trainers.scoring import UNREACHABLE, Misconfigured, Scored, Scoring, score

log = logging.getLogger(__name__)

NONE = float("nan")
GIVEN = "verified_advantage"
NOBODYS = "nobody's"


class Unverified(vf.Error, RolloutError):  # type: ignore[misc]
    """A rollout has no verified reward, and doing it again would not change that."""


class VerificationFailed(vf.InfraError, Unverified):  # type: ignore[misc]
    """The service or a verifier failed: verifiers does the rollout again, if ``max_retries`` allows."""


class VerifiedRubric(vf.RubricGroup):  # type: ignore[misc]
    """A rubric whose reward function ``verified`` is the service's, alone or with rubrics of your own.

    ``info["reference"]`` (object) or the ``answer`` column is the reference, the latter under
    ``reference_field``; ``info["inputs"]`` (object) are the inputs. The trajectory's id is the rollout's
    ``trajectory_id``. Rewards of ``others`` are added. It is a ``RubricGroup`` because environments add
    rubrics of theirs (``Environment.add_rubric``), and one of another class they would put into a plain
    group. There each rubric in turn writes advantages, into unscored rollouts too: a verified rubric that
    was put into one raises ``Misconfigured`` when a group has been scored.

    What makes every rollout fail, an unknown ladder or a wrong key, is raised.
    """

    def __init__(
        self,
        scoring: Scoring,
        *,
        weight: float = 1.0,
        others: Sequence[Any] = (),
        reference_field: str = "answer",
        parser: Any = None,
    ) -> None:
        service = _Service(funcs=[self.verified], weights=[weight], parser=parser)
        super().__init__(rubrics=[service, *others], parser=parser)
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
            state["error"].__cause__ = error
            return NONE
        if scored.reward is None:
            state["error"] = error_of(scored)
            return NONE
        return scored.reward

    async def score_rollout(self, state: Any) -> None:
        """Score one rollout: the sum of all rubrics, NaN where there is no verified reward. Raises
        ``VerifierError`` for what makes every rollout fail."""
        await super().score_rollout(state)
        _stop_if_misconfigured([state])

    async def score_group(self, states: list[Any]) -> None:
        """Score rollouts of one prompt. Advantage: reward - mean over those that have a reward; null for
        the others. Steps that have no reward or advantage of their own get the rollout's. Raises as
        ``score_rollout``."""
        kept = [(state.get("reward"), state.get("metrics")) for state in states]
        totals = [0.0] * len(states)
        metrics: list[dict[str, float]] = [{} for _ in states]
        for rubric in self.rubrics:
            await _score_without_steps(rubric, states)
            for place, state in enumerate(states):
                totals[place] += state["reward"]
                for name, value in (state.get("metrics") or {}).items():
                    metrics[place][name] = metrics[place].get(name, 0.0) + value
                state["reward"], state["metrics"] = kept[place]
        for state, total, found in zip(states, totals, metrics, strict=True):
            state["reward"], state["metrics"] = total, found
        _stop_if_misconfigured(states)
        _compare(states)

    async def dummy_score_rollout(self, state: Any) -> None:
        """Where verifiers is told not to score: no number."""
        state["reward"], state["metrics"] = NONE, {}

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


class _Service(vf.Rubric):  # type: ignore[misc]
    """The member of a ``VerifiedRubric`` that asks, and that looks afterwards whether advantages are
    still those of the ``VerifiedRubric``."""

    async def score_group(self, states: list[Any]) -> None:
        await super().score_group(states)
        for state in states:
            state[GIVEN] = NOBODYS

    async def cleanup(self, state: Any) -> None:
        await super().cleanup(state)
        if GIVEN in state and state.pop(GIVEN) is not state["advantage"]:
            raise Misconfigured(
                "rubric: a plain RubricGroup wrote advantages of its own, into unscored rollouts too. Give "
                "your rubrics to VerifiedRubric(..., others=[...])."
            )


async def _score_without_steps(rubric: Any, states: Sequence[Any]) -> None:
    """``score_group``; what ``Rubric.score_group`` then fills into steps that had nothing is taken out
    again, what a reward function wrote there itself stays."""
    empty = [
        (state, step, key)
        for state in states
        for step in state["trajectory"]
        for key in ("reward", "advantage")
        if step[key] is None
    ]
    await rubric.score_group(states)
    for state, step, key in empty:
        if step[key] is state.get(key):
            step[key] = None


def _compare(states: Sequence[Any]) -> None:
    """Write the advantages of one group's rollouts."""
    known = [state.get("error") is None and math.isfinite(state["reward"]) for state in states]
    rewards = [state["reward"] for state, one in zip(states, known, strict=True) if one]
    mean = sum(rewards) / len(rewards) if rewards else NONE
    for state, one in zip(states, known, strict=True):
        state["advantage"] = state[GIVEN] = state["reward"] - mean if one else None
        for step in state["trajectory"] if one else ():
            step["advantage"] = state["advantage"] if step["advantage"] is None else step["advantage"]
            step["reward"] = state["reward"] if step["reward"] is None else step["reward"]


def _stop_if_misconfigured(states: Sequence[Any]) -> None:
    for state in states:
        cause = getattr(state.get("error"), "__cause__", None)
        if isinstance(cause, VerifierError):
            raise cause


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
