"""What one piece of work leaves, and what follows from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from verifier_service.domain.evidence import Tier
from verifier_service.domain.rewards import Issued
from verifier_service.services import advance

T = TypeVar("T")


@dataclass(frozen=True)
class Step(Generic[T]):
    """What one piece of work leaves: its value, the cases it touched, and tiers with new work.

    ``known`` need not be read, or run, again; ``again`` asks once more for what the budget could not pay.
    Of the ``reopened`` cases evidence was taken back.
    """

    value: T
    pks: Collection[int]
    known: advance.Known = advance.KNOW_NOTHING
    woken: Collection[Tier] = ()
    again: bool = False
    reopened: Collection[int] = ()


class Followed(NamedTuple):
    """What followed from a step: tiers to wake, runs to announce, and records issued, by trajectory."""

    woken: frozenset[Tier]
    told: frozenset[tuple[str, str]] = frozenset()
    issued: Mapping[int, Issued] = MappingProxyType({})
