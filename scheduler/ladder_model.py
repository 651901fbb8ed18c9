"""A fitted model of one version of a ladder, as it is stored."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from scheduler.chain import Chain
from scheduler.chain_probability import FORMAT as PROBABILITY
from scheduler.chain_probability import Probability
from scheduler.levels import Value
from scheduler.observations import Floats
from verifier_service.domain.decisions import FittedModel
from verifier_service.domain.evidence import Tier

FORMAT = "ladder-model/3"
REACH = 0.1  # of the range of a feature among the truths: beyond it, features alone predict nothing


@dataclass(frozen=True, eq=False, slots=True)
class LadderModel:
    """A fitted model with what it is read by.

    ``levels``: the tiers of the chain's columns. ``features``: names of its x, ``usual`` what stands in
    for one that is missing. ``widen``: factor on the variance, per highest observed level.
    ``shifts``: what is added to the mean, per stratum. ``low``, ``high``: ends of each feature's range
    among candidates whose truth is known. ``held_out``: by audit, what the chain would have said too much
    had it not seen the truth.
    """

    levels: tuple[Tier, ...]
    features: tuple[str, ...]
    usual: tuple[float, ...]
    chain: Chain | Probability
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    widen: Mapping[str, float] = field(default_factory=dict)
    shifts: Mapping[str, float] = field(default_factory=dict)
    held_out: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON from which the same model is made."""
        return {
            "format": FORMAT,
            "levels": [tier.value for tier in self.levels],
            "features": list(self.features),
            "usual": list(self.usual),
            "chain": self.chain.as_json(),
            "low": list(self.low),
            "high": list(self.high),
            "widen": dict(self.widen),
            "shifts": dict(self.shifts),
            "held_out": dict(self.held_out),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LadderModel:
        """The model that ``as_json`` wrote."""
        return cls(
            levels=tuple(Tier(name) for name in document["levels"]),
            features=tuple(document["features"]),
            usual=tuple(document["usual"]),
            chain=_chain_from(document["chain"]),
            low=tuple(document["low"]),
            high=tuple(document["high"]),
            widen=document["widen"],
            shifts=document["shifts"],
            held_out=document.get("held_out", {}),
        )

    def is_like_known(self, features: Mapping[str, float]) -> bool:
        """Whether every feature lies where truths are known, or within a tenth of their range beside it."""
        return all(
            low - REACH * (high - low) <= features.get(name, low) <= high + REACH * (high - low)
            for name, low, high in zip(self.features, self.low, self.high, strict=True)
        )

    def row(self, features: Mapping[str, float], values: Mapping[Tier, Value]) -> tuple[Floats, Floats]:
        """x (1, p) and y (1, K) of one candidate."""
        x = [features.get(name, usual) for name, usual in zip(self.features, self.usual, strict=True)]
        y = [values[tier].mean if tier in values else math.nan for tier in self.levels]
        return np.array([x], dtype=np.float64).reshape(1, len(x)), np.array([y], dtype=np.float64)


def _chain_from(document: Mapping[str, Any]) -> Chain | Probability:
    kind = Probability if document.get("format") == PROBABILITY else Chain
    return kind.from_json(document)


@lru_cache(maxsize=64)
def model_of(body: str) -> LadderModel | None:
    """The model in a stored document; ``None`` for one that another version of this code wrote, which is
    replaced at the next fit."""
    document = json.loads(body)
    return LadderModel.from_json(document) if document.get("format") == FORMAT else None


def is_doubted(model: FittedModel | None, tier: Tier) -> bool:
    """Whether an alarm stands on what ``tier`` measures: then nothing rests on it as certain."""
    fitted = None if model is None else model_of(model.body)
    return fitted is not None and tier.value in fitted.widen
