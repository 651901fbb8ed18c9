"""The reward function for TRL: ``GRPOTrainer(reward_funcs=reward_function(run=..., ladder=...))``.

Tested with TRL 1.16.0 (GRPO, RLOO and AsyncGRPO call reward functions in the same way). A rollout that
was not verified is ``None``: TRL leaves it out of its group's mean and deviation and gives it advantage
0. Needs no part of TRL to import.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import math
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeAlias

from verifier_service.client import Submission
from verifier_service.client.errors import VerifierError
from verifier_service.domain.evidence import TIERS
from verifier_service.domain.rewards import RewardCode
from verifier_service.trainers import chat
from verifier_service.trainers.scoring import UNREACHABLE, Scored, Scoring, score

Columns: TypeAlias = str | Mapping[str, str] | None
Reward: TypeAlias = Callable[..., Coroutine[Any, Any, list[float | None]]]

REFERENCE_COLUMNS = ("reference", "ground_truth", "answer", "solution")
INPUTS_COLUMN = "inputs"
REASONS = (
    *(str(code) for code in RewardCode if code is not RewardCode.REJECTED),
    "invalid",
    "conflict",
    UNREACHABLE,
)


class ColumnMissing(VerifierError):
    """The data set has no column of the name that the reward function was given."""


def reward_function(
    *, run: str, ladder: str, reference: Columns = None, inputs: Columns = None, **scoring: Any
) -> Reward:
    """The reward function of one ladder, to be given to a trainer as it is.

    ``reference`` says where the data set keeps what an answer is held against: a column (an object is the
    reference itself, any other value becomes ``{"answer": value}``), or columns by field of the reference
    (``{"smiles": "target"}``); by default the first of ``REFERENCE_COLUMNS`` that is there. ``inputs``
    likewise for the problem's inputs (a value that is no object goes under its column's name), by default
    the column ``inputs`` if there is one. Other arguments are those of ``Scoring``: ``until``,
    ``seconds``, ``url``, ``key``, ``retry_s``.
    """
    asked = Scoring(run=run, ladder=ladder, **scoring)
    return functools.partial(reward, scoring=asked, reference_columns=reference, inputs_columns=inputs)


async def reward(
    prompts: Sequence[chat.Text],
    completions: Sequence[chat.Text],
    *,
    scoring: Scoring,
    reference_columns: Columns = None,
    inputs_columns: Columns = None,
    trainer_state: Any = None,
    log_extra: Callable[[str, list[Any]], None] | None = None,
    log_metric: Callable[[str, float], None] | None = None,
    **columns: Any,
) -> list[float | None]:
    """One reward a completion, in order; ``None`` where there is none.

    ``prompts`` and ``completions`` are B texts or B lists of chat messages, ``columns`` the data set's
    other columns with B values each. Identical problems (prompt, reference and inputs) of one step are a
    group; the step is the policy version. Raises only what can be mended by hand: see ``score``, and
    ``ColumnMissing``.
    """
    step = None if trainer_state is None else int(trainer_state.global_step)
    version = uuid.uuid4().hex if step is None else str(step)
    submissions: list[Submission] = []
    for place, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        reference = _reference(reference_columns, columns, place)
        inputs = _inputs(inputs_columns, columns, place)
        submissions.append(
            chat.submission(
                scoring.ladder,
                prompt=prompt,
                completion=completion,
                reference=reference,
                inputs=inputs,
                group=_group([prompt, reference, inputs], version),
                policy_version=None if step is None else str(step),
            )
        )
    scored = await score(scoring, submissions)
    if log_metric is not None:
        for name, value in metrics(scored).items():
            log_metric(f"verifier/{scoring.ladder}/{name}", value)
    if log_extra is not None:
        for name, values in details(scored).items():
            log_extra(f"{scoring.ladder}/{name}", values)
    return [one.reward for one in scored]


def with_others(verified: Reward, *others: tuple[Callable[..., Any], float]) -> Reward:
    """One reward function out of a verified one and others with their weights, such as a reward for format.

    In ``reward_funcs=[verified, other]`` TRL adds up whatever is there, so that a completion which was not
    verified keeps its other rewards and looks worse than its group. Here it has no reward at all, whichever
    part is missing: an other may be a verified one, too. One that does not apply to a completion says 0.
    """
    return functools.partial(weighted_sum, verified=verified, others=others)


async def weighted_sum(
    *, verified: Reward, others: Sequence[tuple[Callable[..., Any], float]], **call: Any
) -> list[float | None]:
    """verified + sum of weight x other for each completion; ``None`` where any of them is ``None`` or NaN.
    ``call`` is what TRL calls a reward function with."""
    total = await verified(**call)
    for function, weight in others:
        found = function(**call)
        values = await found if inspect.isawaitable(found) else found
        total = [
            None if one is None or value is None or math.isnan(value) else one + weight * value
            for one, value in zip(total, values, strict=True)
        ]
    return total


def metrics(scored: Sequence[Scored]) -> dict[str, float]:
    """What TRL averages and logs: ``credits`` of the batch, and shares of the batch in [0, 1]:
    ``unscored``, ``unscored/REASON``, ``tier/TIER`` (the highest tier with evidence, of those that have a
    number). The names are always the same, because TRL averages over the batches that logged a name."""
    size = max(1, len(scored))
    without = [one.code for one in scored if one.code is not None]
    tiers = [str(one.record.tier) for one in scored if one.code is None and one.record is not None]
    return {
        "credits": sum(one.record.credits for one in scored if one.record is not None),
        "unscored": len(without) / size,
        **{f"unscored/{code}": without.count(code) / size for code in REASONS},
        **{f"tier/{tier}": tiers.count(tier) / size for tier in map(str, TIERS)},
    }


def details(scored: Sequence[Scored]) -> dict[str, list[Any]]:
    """Columns of TRL's table of completions: the id to ask the service for, the tier, the reason."""
    return {
        "id": [one.id for one in scored],
        "tier": [_tier(one) for one in scored],
        "reason": [_reason(one) for one in scored],
    }


def _tier(one: Scored) -> str | None:
    return None if one.record is None or one.record.tier is None else str(one.record.tier)


def _reason(one: Scored) -> str | None:
    """Why there is no number, or why the number is the floor."""
    if one.code is not None:
        return one.code
    reason = None if one.record is None else one.record.reason
    return None if reason is None else ": ".join(filter(None, (str(reason.code), reason.detail)))


def _group(problem: list[Any], version: str) -> str:
    """A name that is the same in every process of a step. Without a step (AsyncGRPO, which asks for one
    group at a time) ``version`` is that of the call, so that no other call shares it."""
    canonical = json.dumps(problem, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
    return f"{hashlib.sha256(canonical).hexdigest()[:32]}-{version}"


def _reference(chosen: Columns, columns: Mapping[str, Any], place: int) -> dict[str, Any]:
    if chosen is None:
        chosen = next((name for name in REFERENCE_COLUMNS if name in columns), None)
    return _object(chosen, columns, place, "answer")


def _inputs(chosen: Columns, columns: Mapping[str, Any], place: int) -> dict[str, Any]:
    if chosen is None and INPUTS_COLUMN in columns:
        chosen = INPUTS_COLUMN
    return _object(chosen, columns, place, chosen if isinstance(chosen, str) else "")


def _object(chosen: Columns, columns: Mapping[str, Any], place: int, field: str) -> dict[str, Any]:
    """The object for one row. Fields that are null are left out: Arrow gives every row all fields."""
    if chosen is None:
        return {}
    if isinstance(chosen, str):
        found = chat.reference_of(_cell(columns, chosen, place), field)
    else:
        found = {field: _cell(columns, column, place) for field, column in chosen.items()}
    return {field: value for field, value in found.items() if value is not None}


def _cell(columns: Mapping[str, Any], column: str, place: int) -> Any:
    if column not in columns:
        raise ColumnMissing(f"the data set has no column {column!r}; it has {', '.join(sorted(columns))}")
    return columns[column][place]
