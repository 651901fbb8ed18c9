"""Trajectories without a verified reward, taken out of SkyRL's loss and of its group statistics.

SkyRL has no reward that is null (``SkyRLGymGenerator._build_per_token_rewards`` asserts a number), and its
estimators take group means over every row, loss-masked or not (``compute_grpo_outcome_advantage`` reads
``response_mask``, not ``loss_mask``; skyrl 0.3.0). So a row is masked and its whole group with it, as
SkyRL's own Harbor generator does; or only the row, and then the trainer has to leave it out of the group:
``LeavesOutUnscored``. In an evaluation an unscored row is NaN, and every other row as it is.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from verifier_service.domain.trajectories import ID_PATTERN
from verifier_service.trainers.scoring import Misconfigured
from verifier_service.trainers.skyrl_evaluation import (
    NONE,
    UNVERIFIED,
    Recorder,
    is_evaluation,
    over_verified,
    owners_of,
)

log = logging.getLogger(__name__)

MARK = "verifier_mark"
UNFINISHED = "unfinished"
FEWEST_SCORED = 2  # a mean of one says nothing about it
# Their mean over the batch has masked rows in it (masked_whiten takes response_mask, not loss_mask).
WHITENING = ("gae", "reinforce++")

Scope: TypeAlias = Literal["group", "sample"]


@dataclass(slots=True)
class Mark:
    """What became of one trajectory; its environment fills it in.

    ``begun`` is false for environments of other kinds. One that has begun and has no reward when its
    rollout is over is unscored: ``code`` says why, by default that it never ended (the context was full).
    """

    begun: bool = False
    scored: bool = False
    code: str = UNFINISHED
    message: str = ""

    @property
    def unscored(self) -> bool:
        """Whether there is no number for it."""
        return self.begun and not self.scored


class MasksUnscored:
    """Mix into a generator: ``class Generator(MasksUnscored, SkyRLGymGenerator): pass``.

    Environments of ``verifier_service.trainers.skyrl`` then report a missing reward instead of stopping
    the run, and the rows are masked before the trainer sees them. ``scope`` ``group``: all samples of a
    prompt with an unscored one. ``sample``: only those rows, and prompts with fewer than two scored
    samples; the trainer needs ``LeavesOutUnscored``. They also learn their group and policy version.
    In an evaluation nothing is masked but the unscored rows, whose reward is NaN.
    """

    scope: Scope = "group"

    async def generate(self, input_batch: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Generate as the class below does, and mask what has no reward. Raises ``ValueError`` when the
        batch does not say which samples belong together (``trajectory_ids``)."""
        groups = groups_of(input_batch)
        marks = [Mark() for _ in groups]
        batch = {**input_batch, "env_extras": extras_of(input_batch, groups, marks)}
        output = await super().generate(batch, *args, **kwargs)  # type: ignore[misc]
        scope: Scope | None = None if is_evaluation(input_batch) else self.scope
        return mask_unscored(output, marks, groups, scope)


class LeavesOutUnscored:
    """Mix into a trainer whose generator masks: ``class Trainer(LeavesOutUnscored, RayPPOTrainer): pass``.

    While advantages are computed, each unscored row stands in a group of its own, so that mean and
    deviation of its former group are those of the scored samples. For estimators over groups: GRPO, RLOO,
    MAXRL. Raises ``Misconfigured`` for settings that take means over the whole batch. Scores of
    evaluations are those of the verified rows.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        refuse_whitening(self.cfg)  # type: ignore[attr-defined]

    async def eval(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """As the class below; average score, mean positive reward and pass@n are over rows with a verified
        reward, NaN where there are none."""
        generator = self.generator
        self.generator: Any = Recorder(generator)
        try:
            metrics = await super().eval(*args, **kwargs)  # type: ignore[misc]
            return over_verified(metrics, self.generator.rows)
        finally:
            self.generator = generator

    def convert_to_training_input(self, generator_output: Mapping[str, Any], uids: list[str]) -> Any:
        """As the class below; remembers which rows are unscored."""
        data = super().convert_to_training_input(generator_output, uids)  # type: ignore[misc]
        data.metadata[MARK] = [reason == UNVERIFIED for reason in generator_output["stop_reasons"]]
        return data

    def compute_advantages_and_returns(self, data: Any) -> Any:
        """As the class below, over the scored rows of each group."""
        uids = data.metadata["uids"]
        data.metadata["uids"] = set_apart(uids, data.metadata.pop(MARK))
        data = super().compute_advantages_and_returns(data)  # type: ignore[misc]
        data.metadata["uids"] = uids
        return data


def refuse_whitening(cfg: Any) -> None:
    """Raises ``Misconfigured`` naming the setting of a SkyRL configuration by which masked rows would
    shift the advantages of the others."""
    algorithm = cfg.trainer.algorithm
    estimator = str(algorithm.advantage_estimator)
    if estimator in WHITENING:
        raise Misconfigured(
            f"trainer.algorithm.advantage_estimator: {estimator} takes a mean over the whole batch, rows "
            "without a verified reward included; use grpo, rloo or maxrl"
        )
    if algorithm.advantage_batch_normalize:
        raise Misconfigured(
            "trainer.algorithm.advantage_batch_normalize: it takes a mean over the whole batch, rows "
            "without a verified reward included; set it to false"
        )


def set_apart(uids: Sequence[str], unscored: Sequence[bool]) -> list[str]:
    """Group names in which every unscored row is alone. Rows beyond ``unscored`` are padding."""
    flags = [*unscored, *[False] * (len(uids) - len(unscored))]
    return [
        f"{uid}/{UNVERIFIED}/{row}" if flag else uid
        for row, (uid, flag) in enumerate(zip(uids, flags, strict=True))
    ]


def groups_of(input_batch: Mapping[str, Any]) -> list[str]:
    """The prompt that each trajectory samples."""
    ids = input_batch.get("trajectory_ids")
    if ids is None:
        raise ValueError("trajectory_ids: without them nobody knows which samples share a prompt")
    return [str(one.instance_id) for one in ids]


def extras_of(
    input_batch: Mapping[str, Any], groups: Sequence[str], marks: Sequence[Mark]
) -> list[dict[str, Any]]:
    """The environments' extras with a mark each, and where the batch tells, group and policy version.

    A prompt comes again in later steps, and those samples are another group: its name has the step.
    """
    metadata = input_batch.get("batch_metadata")
    step = None if metadata is None else f"{metadata.training_phase}-{metadata.global_step}"
    sizes = Counter(groups)
    extras = []
    for extra, group, mark in zip(input_batch["env_extras"], groups, marks, strict=True):
        told: dict[str, Any] = {MARK: mark}
        name = f"{group}@{step}"
        if step is not None and re.fullmatch(ID_PATTERN, name):
            told |= {"group": name, "group_size": sizes[group], "policy_version": step}
        extras.append({**told, **extra, MARK: mark})
    return extras


def mask_unscored(
    output: Mapping[str, Any], marks: Sequence[Mark], groups: Sequence[str], scope: Scope | None = "group"
) -> dict[str, Any]:
    """A ``GeneratorOutput`` in which nothing can be learnt from unscored trajectories.

    ``marks`` and ``groups``: one per trajectory; with step-wise output a trajectory has several rows, the
    last of which ``is_last_step`` tells. Masked rows keep their tokens; their loss mask and rewards are 0,
    and unscored ones have the stop reason ``unverified``. With no ``scope``, for an evaluation, only
    unscored rows are masked, and their rewards are NaN. ``rollout_metrics`` gets ``verifier/avg_unscored``,
    ``verifier/avg_masked`` (shares of trajectories) and ``verifier/unscored/{code}`` (counts): where SkyRL
    joins batches, it averages names with ``avg`` and adds the others.
    """
    masked = _masked(marks, groups, scope)
    owners = owners_of(output, len(marks))
    nothing = NONE if scope is None else 0.0
    reasons = output.get("stop_reasons") or ["stop"] * len(owners)
    found = Counter(mark.code for mark in marks if mark.unscored)
    if found:
        log.warning("%d of %d trajectories have no reward: %s", found.total(), len(marks), dict(found))
    return {
        **output,
        "loss_masks": [
            [0] * len(row) if owner in masked else row
            for row, owner in zip(output["loss_masks"], owners, strict=True)
        ],
        "rewards": [
            _filled(row, nothing) if owner in masked else row
            for row, owner in zip(output["rewards"], owners, strict=True)
        ],
        "stop_reasons": [
            UNVERIFIED if marks[owner].unscored else reason
            for reason, owner in zip(reasons, owners, strict=True)
        ],
        "rollout_metrics": {
            **(output.get("rollout_metrics") or {}),
            "verifier/avg_unscored": found.total() / max(1, len(marks)),
            "verifier/avg_masked": len(masked) / max(1, len(marks)),
            **{f"verifier/unscored/{code}": float(count) for code, count in found.items()},
        },
    }


def _masked(marks: Sequence[Mark], groups: Sequence[str], scope: Scope | None) -> set[int]:
    """Places of the trajectories that must not be trained on."""
    if scope is None:
        return {place for place, mark in enumerate(marks) if mark.unscored}
    unscored = Counter(group for group, mark in zip(groups, marks, strict=True) if mark.unscored)
    sizes = Counter(groups)
    spoilt = {
        group
        for group, count in unscored.items()
        if scope == "group" or sizes[group] - count < FEWEST_SCORED
    }
    return {
        place
        for place, (group, mark) in enumerate(zip(groups, marks, strict=True))
        if mark.unscored or group in spoilt
    }


def _filled(rewards: Any, value: float) -> Any:
    return [value] * len(rewards) if isinstance(rewards, list) else value
