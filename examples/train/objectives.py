"""What one batch teaches: the loss of each algorithm, from the service's records.

A sample without a reward is in no mean, no baseline and no loss. Shapes: B samples, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from examples.train.policy import Batch, Policy
from verifier_service.domain.rewards import RewardRecord
from verifier_service.trainers.advantages import group_advantages, token_weights
from verifier_service.trainers.gae import gae
from verifier_service.trainers.spans import Span
from verifier_service.trainers.tokens import token_rewards

Records = Sequence[RewardRecord | None]
Loss = Callable[[], Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """``epochs``: optimiser steps a batch. ``clip``: of the ratio (Schulman et al. 2017, arXiv 1707.06347,
    eq. 7). ``kl``: weight of the divergence from the pretrained policy. ``value``: of the value loss."""

    learning_rate: float = 7e-4
    epochs: int = 4
    clip: float = 0.2
    kl: float = 0.1
    value: float = 0.5


@dataclass
class Learner:
    """A policy that learns; ``reference`` is what it was before."""

    policy: Policy
    reference: Policy
    tuning: Tuning

    def __post_init__(self) -> None:
        self.optimiser = torch.optim.Adam(self.policy.parameters(), lr=self.tuning.learning_rate)

    def grpo(self, batch: Batch, records: Records) -> int:
        """Group-relative policy optimisation, the batch being one group. Returns how many taught."""
        found = group_advantages(records, "grpo", groups=[0] * len(batch))
        return self.weighted(batch, found.advantage, found.informative())

    def weighted(self, batch: Batch, advantage: np.ndarray, mask: np.ndarray) -> int:
        """Clipped policy gradient with one advantage a sample, (B,), where ``mask`` (B,) is true."""
        if not mask.any():
            return 0
        weights = token_weights(advantage, batch.mask.numpy(), sample_mask=mask, normalise="sequence")
        used = batch.mask & torch.from_numpy(mask)[:, None]
        self._descend(lambda: self._surrogate(batch, _tensor(weights), used))
        return int(mask.sum())

    def ppo(self, batch: Batch, records: Records) -> int:
        """PPO with a value head: the reward on each sample's last token, GAE over tokens (lambda 0.95)."""
        spans = [(Span(0, int(row.sum())),) for row in batch.mask]
        placed = token_rewards(records, spans, batch.mask.shape[1])
        if not placed.scored.any():
            return 0
        with torch.no_grad():
            _, values = self.policy(batch.tokens)
        found = gae(placed.rewards, values.numpy(), placed.mask)
        inside = found.advantages[placed.mask]
        scaled = np.where(placed.mask, (found.advantages - inside.mean()) / (inside.std() + 1e-6), 0.0)
        used, returns = torch.from_numpy(placed.mask), _tensor(found.returns)
        weights = _tensor(scaled / placed.mask.sum())

        def loss() -> Tensor:
            _, now = self.policy(batch.tokens)
            missed = ((now - returns) ** 2 * used).sum() / used.sum()
            return self._surrogate(batch, weights, used) + self.tuning.value * missed

        self._descend(loss)
        return int(placed.scored.sum())

    def distilled(self, batch: Batch, advantage: np.ndarray, mask: np.ndarray) -> int:
        """Policy gradient with one advantage a token, (B, T): minus the reverse KL to a teacher."""
        if not mask.any():
            return 0
        used = torch.from_numpy(mask)
        weights = _tensor(np.where(mask, advantage, 0.0) / mask.sum())
        self._descend(lambda: self._surrogate(batch, weights, used))
        return int(mask.any(axis=1).sum())

    def imitated(self, tokens: Tensor, mask: Tensor, hints: Sequence[Sequence[int]]) -> None:
        """Maximum likelihood of sequences (B, T), each after its hints (none: an empty list)."""

        def loss() -> Tensor:
            return -(self.policy.logprobs(tokens, hints) * mask).sum() / mask.sum()

        self._descend(loss)

    def _surrogate(self, batch: Batch, weights: Tensor, used: Tensor) -> Tensor:
        """-sum of the clipped weighted ratios, plus the divergence from the reference: Schulman's k3."""
        now = self.policy.logprobs(batch.tokens)
        ratio = torch.exp(torch.where(used, now - batch.logprobs, 0.0))
        bounded = ratio.clamp(1 - self.tuning.clip, 1 + self.tuning.clip)
        gain = torch.minimum(ratio * weights, bounded * weights).sum()
        with torch.no_grad():
            before = self.reference.logprobs(batch.tokens)
        gap = torch.where(used, before - now, 0.0)
        divergence = ((torch.exp(gap) - gap - 1.0) * used).sum() / used.sum()
        return self.tuning.kl * divergence - gain

    def _descend(self, loss: Loss) -> None:
        for _ in range(self.tuning.epochs):
            self.optimiser.zero_grad()
            loss().backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
            self.optimiser.step()


def _tensor(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float32))
