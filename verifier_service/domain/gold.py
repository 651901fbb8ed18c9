"""Gold items: what is known, and is shown among the rest to see how often a reviewer is wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from verifier_service.domain.digests import digest
from verifier_service.domain.evidence import Evidence, Verdict
from verifier_service.domain.records import JsonObject, JsonValue, Record, Request
from verifier_service.domain.reviews import QueueName, ReviewMeasurement
from verifier_service.domain.trajectories import Identifier, Turn

MAX_GOLD_TURNS = 200
_DRAWS = 2.0**64


def _strictly(value: object) -> object:
    """Records are read with lax coercions and unknown words, for clients; what a request carries is not."""
    if not isinstance(value, list):
        return value
    return [_evidence(one) if isinstance(one, dict) else one for one in value]


def _evidence(sent: dict[str, object]) -> Evidence:
    found = Evidence.model_validate_json(json.dumps(sent), strict=True)
    if found.verdict != sent["verdict"]:
        raise ValueError(f"verdict is one of {', '.join(Verdict)}")
    return found


class GoldShown(Request):
    """What the reviewer sees, as of any other item; ``turns`` where others of the queue have some."""

    ladder: Identifier | None = None
    candidate: JsonValue = None
    prompt: str | list[JsonObject] = ""
    inputs: JsonObject = {}
    evidence: Annotated[
        tuple[Evidence, ...], Field(strict=False, max_length=100), BeforeValidator(_strictly)
    ] = ()
    turns: Annotated[
        tuple[Turn, ...], Field(strict=False, max_length=MAX_GOLD_TURNS, exclude_if=lambda turns: not turns)
    ] = ()


class GoldExpected(Request):
    """What is known of it."""

    verdict: Literal["accept", "reject"]
    scores: dict[str, int] = {}
    measurements: Annotated[tuple[ReviewMeasurement, ...], Field(strict=False, max_length=20)] = ()


class NewGold(Request):
    """A known item of a queue. Without ``id`` it is named by its content."""

    id: Identifier | None = None
    queue: QueueName
    shown: GoldShown
    expected: GoldExpected


class GoldItem(Record):
    """A known item as stored; a retired one is shown no more."""

    id: str
    queue: str
    shown: JsonObject
    expected: GoldExpected
    created_at: datetime
    retired_at: datetime | None = None


class GoldList(Record):
    """The project's gold items, newest first."""

    items: tuple[GoldItem, ...]


class GoldStored(Record):
    """A stored gold item; ``created`` is false when the content was already there."""

    item: GoldItem
    created: bool


def is_gold_turn(secret: str, queue: str, reviewer: str, count: int, share: float) -> bool:
    """Whether a reviewer's next item is a gold one. Drawn from the project's secret, so that it can be
    drawn again and nobody can foresee it."""
    return _draw(secret, "gold", queue, reviewer, str(count)) < share


def coming(
    secret: str, queue: str, reviewer: str, *, taken: int, share: float, unseen: int, others: int
) -> int:
    """How many gold items a reviewer is given before they have taken so many others.

    Counted with the others they make a number that falls by one with every item, gold or not: counting
    tells nobody which was which.
    """
    known = 0
    while others > 0 and known < unseen:
        if is_gold_turn(secret, queue, reviewer, taken, share):
            known += 1
        else:
            others -= 1
        taken += 1
    return known


def choose(secret: str, reviewer: str, unseen: Sequence[str]) -> str | None:
    """Which of the items that a reviewer has not seen: in an order of their own."""
    return min(unseen, key=lambda id: _draw(secret, "which", reviewer, id), default=None)


def _draw(*parts: str) -> float:
    """A number in [0, 1)."""
    return int(digest(*parts)[:16], 16) / _DRAWS
