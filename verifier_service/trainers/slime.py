"""slime: rewards, filters and group statistics that leave out what was not verified.

::

    --custom-rm-path verifier_service.trainers.slime.reward
    --dynamic-sampling-filter-path verifier_service.trainers.slime.all_scored

The run and the ladder are ``$VERIFIER_RUN`` and ``$VERIFIER_LADDER``, or ``verifier_run`` and
``verifier_ladder`` in slime's ``--custom-config-path``.

A sample without a reward gets ``reward = None`` and ``remove_sample = True``. slime masks the loss of such
a sample (slime/ray/rollout.py, ``_convert_samples_to_train_data``), but takes group means over all rewards,
and dies of ``None`` there: so either a filter drops its group and slime samples another (``all_scored``),
or ``post_process`` takes the means over the others. With neither, the run stops.
"""

from __future__ import annotations

import logging
import math
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from verifier_service.domain.completions import without_end
from verifier_service.trainers.chat import reference_of, submission
from verifier_service.trainers.environment import scoring_of
from verifier_service.trainers.labels import object_of
from verifier_service.trainers.scoring import Scored, Scoring, score

log = logging.getLogger(__name__)

MARK = "verifier"
GROUP_ESTIMATORS = frozenset({"grpo", "gspo", "reinforce_plus_plus_baseline"})
STD_ESTIMATORS = frozenset({"grpo", "gspo"})
EPSILON = 1e-6  # as slime's own
SPREAD = 1e-6
FEWEST_SCORED = 2  # a mean of one says nothing about it


async def reward(args: Any, sample: Any, **_: Any) -> Any:
    """``--custom-rm-path``: the reward of a sample, ``None`` where there is none; of a list of samples (as
    with ``--group-rm``) the list of rewards.

    Under ``--reward-key`` a reward is an object with that key. ``sample.metadata["verifier"]``: ``id``, and
    ``code`` and ``message`` where there is no reward, else ``credits`` and ``tier``.
    """
    samples = sample if isinstance(sample, list) else [sample]
    scoring = scoring_of(_look(args))
    found = await score(scoring, [_submission(args, scoring, one) for one in samples])
    for one, scored in zip(samples, found, strict=True):
        _mark(one, scored)
    rewards = [_told(args, scored.reward) for scored in found]
    return rewards if isinstance(sample, list) else rewards[0]


async def evaluation(args: Any, sample: Any, **_: Any) -> Any:
    """``custom_rm_path`` of a data set of an evaluation: as ``reward``, but NaN where there is no reward,
    for slime's averages do not take ``None``."""
    samples = sample if isinstance(sample, list) else [sample]
    found = await reward(args, samples)
    known = [_told(args, math.nan) if _number(args, one) is None else one for one in found]
    return known if isinstance(sample, list) else known[0]


def all_scored(args: Any, samples: Sequence[Any], **_: Any) -> bool:
    """``--dynamic-sampling-filter-path``: keep groups that have all rewards."""
    return _kept(args, samples, lambda rewards: None not in rewards)


def informative(args: Any, samples: Sequence[Any], **_: Any) -> bool:
    """``--dynamic-sampling-filter-path``: keep groups with all rewards, and not all the same (DAPO)."""
    return _kept(args, samples, lambda rewards: None not in rewards and _differ(rewards))


def some_scored(args: Any, samples: Sequence[Any], **_: Any) -> bool:
    """``--dynamic-sampling-filter-path``: keep groups with at least two rewards; needs ``post_process``."""
    return _kept(args, samples, lambda rewards: len(_known(rewards)) >= FEWEST_SCORED)


def post_process(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
    """``--custom-reward-post-process-path``: slime's group normalisation over verified samples only.

    Returns raw and normalised rewards, one a sample. With r of the scored samples of a group: r - mean(r),
    for GRPO and GSPO by std(r) + 1e-6, std with n - 1. Without a reward: NaN, which only the logs read, and
    0, under a loss mask of zeros.
    """
    flat = list(_flat(samples))
    rewards = [_reward_of(args, one) for one in flat]
    for one, known in zip(flat, rewards, strict=True):
        one.remove_sample = one.remove_sample or known is None
    raw = [math.nan if known is None else known for known in rewards]
    if args.advantage_estimator not in GROUP_ESTIMATORS or not args.rewards_normalization:
        return raw, [known or 0.0 for known in rewards]
    by_std = args.advantage_estimator in STD_ESTIMATORS and args.grpo_std_normalization
    normalised = [0.0] * len(flat)
    for members in _groups(args, flat):
        values = _known([rewards[at] for at in members])
        mean = statistics.fmean(values) if values else 0.0
        scale = statistics.stdev(values) + EPSILON if by_std and len(values) >= FEWEST_SCORED else 1.0
        for at in members:
            known = rewards[at]
            normalised[at] = 0.0 if known is None else (known - mean) / scale
    return raw, normalised


def _submission(args: Any, scoring: Scoring, sample: Any) -> dict[str, Any]:
    field = str(_look(args)("VERIFIER_REFERENCE") or "answer")
    index = None if sample.group_index is None else f"group-{sample.group_index}"
    versions = getattr(sample, "weight_versions", None)
    return submission(
        scoring.ladder,
        prompt=sample.prompt,
        completion=without_end(sample.response, _ends(args)),
        reference=reference_of(object_of(sample.label), field),
        group=index,
        group_size=None if index is None else args.n_samples_per_prompt,
        policy_version=str(versions[-1]) if versions else None,
    )


def _ends(args: Any) -> tuple[str, ...]:
    """What is cut off responses in place of the usual end tokens; the empty text cuts off none."""
    given = _look(args)("VERIFIER_END")
    if given is None:
        return ()
    return tuple(map(str, given)) if isinstance(given, (list, tuple)) else (str(given),)


def _mark(sample: Any, scored: Scored) -> None:
    told: dict[str, Any] = {"id": scored.id}
    if scored.reward is None:
        sample.remove_sample = True
        told |= {"code": scored.code, "message": scored.message}
    elif scored.record is not None:
        told |= {"credits": scored.record.credits, "tier": scored.record.tier and str(scored.record.tier)}
    sample.metadata = {**(sample.metadata or {}), MARK: told}


def _kept(args: Any, samples: Sequence[Any], wanted: Callable[[list[float | None]], bool]) -> bool:
    flat = list(_flat(samples))
    rewards = [_reward_of(args, one) for one in flat]
    if wanted(rewards):
        return True
    missing = [one for one, known in zip(flat, rewards, strict=True) if known is None]
    if missing:
        why = (missing[0].metadata or {}).get(MARK)
        log.warning("a group is dropped: %d of %d have no reward: %s", len(missing), len(flat), why)
    return False


def _flat(samples: Sequence[Any]) -> Iterator[Any]:
    """Samples, and the fragments of those that were fanned out."""
    for one in samples:
        if isinstance(one, list):
            yield from one
        else:
            yield one


def _groups(args: Any, samples: Sequence[Any]) -> list[list[int]]:
    """Positions by group: as the samples say, else as many in a row as a prompt has samples."""
    found: dict[Any, list[int]] = {}
    for at, one in enumerate(samples):
        name = one.group_index if one.group_index is not None else (at // args.n_samples_per_prompt,)
        found.setdefault(name, []).append(at)
    return list(found.values())


def _differ(rewards: Sequence[float | None]) -> bool:
    known = _known(rewards)
    return max(known, default=0.0) - min(known, default=0.0) > SPREAD


def _known(rewards: Sequence[float | None]) -> list[float]:
    return [one for one in rewards if one is not None]


def _told(args: Any, value: float | None) -> Any:
    return {args.reward_key: value} if getattr(args, "reward_key", None) else value


def _reward_of(args: Any, sample: Any) -> float | None:
    """The reward that a sample has; null also where it is NaN."""
    return _number(args, sample.reward)


def _number(args: Any, told: Any) -> float | None:
    value = told.get(args.reward_key) if isinstance(told, Mapping) else told
    return None if value is None or math.isnan(value) else float(value)


def _look(args: Any) -> Callable[[str], object]:
    def look(name: str) -> object:
        given = getattr(args, name.lower(), None)
        return os.environ.get(name) if given is None else given

    return look
