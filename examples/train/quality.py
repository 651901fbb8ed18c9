"""True quality: the mean utility of a policy's samples under the top tier, measured apart from the run."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from examples.train.service import Service
from verifier_service.trainers import chat
from verifier_service.trainers.scoring import Scoring, score_blocking

LADDER = "train-all-at-top"


@dataclass(frozen=True, slots=True)
class Quality:
    """``mean`` over the samples that have a number; ``unscored`` have none and are in no mean."""

    mean: float
    unscored: int


class Judge:
    """Measures on a service that no training run is charged for. Equal molecules are measured once."""

    def __init__(self, service: Service) -> None:
        self._scoring = Scoring(
            run=f"true-quality-{secrets.token_hex(4)}",
            ladder=LADDER,
            seconds=600.0,
            url=service.url,
            key=service.key,
        )
        self._names = itertools.count()

    def quality(self, texts: Sequence[str]) -> Quality:
        """Quality of one sample of a policy. Raises ``RuntimeError`` when nothing could be measured."""
        submissions = [
            chat.submission(LADDER, prompt="", completion=text, id=f"sample-{next(self._names)}")
            for text in texts
        ]
        scored = score_blocking(self._scoring, submissions)
        rewards = [one.reward for one in scored if one.reward is not None]
        if not rewards:
            raise RuntimeError(f"no sample could be measured: {scored[0].code} {scored[0].message}")
        return Quality(sum(rewards) / len(rewards), len(scored) - len(rewards))
