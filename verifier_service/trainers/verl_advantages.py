"""verl's group advantages over the rollouts that were verified.

A rollout without a number is missing from its group (``verl_manager`` with ``unscored=raise``, ``verl``),
or has the score NaN (``unscored=mask``). verl's own estimators would give the last one left of a group its
reward as advantage, and spread a NaN over the group; ``verified_grpo`` and ``verified_rloo`` are the same
estimators over the rest, and 0 where nothing is left to compare with.

Importing this module registers them, for ``algorithm.adv_estimator=verified_grpo``. The process that
computes advantages imports it with the reward manager; with the reward function by
``actor_rollout_ref.model.external_lib=verifier_service.trainers.verl_advantages``. Tested with verl 0.9.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from verl.trainer.ppo.core_algos import (
    compute_grpo_outcome_advantage,
    compute_rloo_outcome_advantage,
    register_adv_est,
)

Advantages: TypeAlias = tuple[Any, Any]

NAMES = ("verified_grpo", "verified_rloo")
LONE_SAFE = ("gae", "reinforce_plus_plus", "rloo_vectorized")
"""Those of verl for which a missing rollout is no more than that: the first two compare with no group, the
third gives a group of one advantage 0."""
SMALLEST_GROUP = 2


@register_adv_est("verified_grpo")  # type: ignore[untyped-decorator]
def verified_grpo(
    token_level_rewards: Any, response_mask: Any, index: Any, config: Any = None, **_: Any
) -> Advantages:
    """GRPO (Shao et al. 2024, arXiv:2402.03300, section 4.1.2), over verified rollouts.

    ``token_level_rewards`` (B, T), a row with NaN has no reward; ``response_mask`` (B, T); ``index`` (B,)
    the groups. Advantages and returns, (B, T): 0 for rows without a reward and for groups with fewer than
    two rewards. ``config.norm_adv_by_std_in_grpo`` false leaves the deviation out (Dr. GRPO,
    arXiv:2503.20783).
    """
    normed = True if config is None else bool(config.get("norm_adv_by_std_in_grpo", True))

    def estimate(rewards: Any, mask: Any, groups: Any) -> Advantages:
        found: Advantages = compute_grpo_outcome_advantage(
            rewards, mask, groups, norm_adv_by_std_in_grpo=normed
        )
        return found

    return _over_verified(estimate, token_level_rewards, response_mask, index)


@register_adv_est("verified_rloo")  # type: ignore[untyped-decorator]
def verified_rloo(
    token_level_rewards: Any, response_mask: Any, index: Any, config: Any = None, **_: Any
) -> Advantages:
    """RLOO (Ahmadian et al. 2024, arXiv:2402.14740, equation 6), over verified rollouts; shapes as
    above."""

    def estimate(rewards: Any, mask: Any, groups: Any) -> Advantages:
        found: Advantages = compute_rloo_outcome_advantage(rewards, mask, groups, config=config)
        return found

    return _over_verified(estimate, token_level_rewards, response_mask, index)


def _over_verified(
    estimate: Callable[[Any, Any, Any], Advantages], rewards: Any, mask: Any, index: Any
) -> Advantages:
    """The estimate for the rows that have a reward and company in their group, 0 for the others."""
    verified = ~torch.isnan(rewards.sum(dim=-1))
    members = Counter(index[row] for row in verified.nonzero().flatten().tolist())
    rows = [
        row for row, has in enumerate(verified.tolist()) if has and members[index[row]] >= SMALLEST_GROUP
    ]
    advantages = torch.zeros_like(rewards)
    returns = torch.zeros_like(rewards)
    if rows:
        advantages[rows], returns[rows] = estimate(rewards[rows], mask[rows], index[rows])
    return advantages, returns
