"""Batches on their way out: every item gets an id, and the batch is cut to what a server takes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from verifier_service.client.calls import as_json
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.domain.wire import ItemError, SubmitResult, SubmitStatus, WaitSpec

Submission: TypeAlias = TrajectorySubmission | Mapping[str, Any]

MAX_ITEMS = 512
MAX_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Packed:
    """One item as it will be sent; ``id`` is null where the item has none that is text."""

    place: int
    id: str | None
    text: bytes


def name(trajectories: Iterable[Submission]) -> list[Submission]:
    """Give a random id to every trajectory that has none.

    ``submit`` does this by itself. Call it first where a whole submission may be repeated later, by
    another process even: the same ids make the repeat harmless.
    """
    return [_named(item) for item in trajectories]


def _named(item: Submission) -> Submission:
    if isinstance(item, TrajectorySubmission):
        return item if item.id is not None else item.model_copy(update={"id": uuid.uuid4().hex})
    if isinstance(item, Mapping) and item.get("id") is None:
        return {**item, "id": uuid.uuid4().hex}
    return item


def pack(trajectories: Iterable[Submission]) -> tuple[list[Packed], dict[int, SubmitResult]]:
    """Items ready to send, and by place those that cannot be written as JSON at all: one such item
    never keeps its neighbours from going."""
    packed: list[Packed] = []
    refused: dict[int, SubmitResult] = {}
    for place, item in enumerate(name(trajectories)):
        found = item.id if isinstance(item, TrajectorySubmission) else _id_of(item)
        try:
            packed.append(Packed(place, found, as_json(item)))
        except (ValueError, TypeError, RecursionError) as error:
            refused[place] = _invalid(found, "not_json", f"cannot be written as JSON: {error}")
    return packed, refused


def too_large(item: Packed) -> SubmitResult:
    """The result of an item that no server request can hold."""
    return _invalid(item.id, "too_large", f"{len(item.text)} bytes are more than the server takes")


def _invalid(found: str | None, code: str, message: str) -> SubmitResult:
    error = ItemError(code=code, message=message[:500])
    return SubmitResult(id=found, status=SubmitStatus.INVALID, error=error)


def _id_of(item: object) -> str | None:
    found = item.get("id") if isinstance(item, Mapping) else None
    return found if isinstance(found, str) else None


def chunks(
    packed: Sequence[Packed], max_items: int = MAX_ITEMS, max_bytes: int = MAX_BYTES
) -> list[list[Packed]]:
    """Consecutive pieces of at most ``max_items`` items and ``max_bytes`` bytes; an item larger than
    that travels alone, because only the server knows its own limit."""
    pieces: list[list[Packed]] = []
    size = 0
    for item in packed:
        if not pieces or len(pieces[-1]) >= max_items or size + len(item.text) > max_bytes:
            pieces.append([])
            size = 0
        pieces[-1].append(item)
        size += len(item.text) + 1
    return pieces


def body(items: Sequence[Packed], wait: WaitSpec | None) -> bytes:
    """A ``SubmitRequest`` around items that are text already."""
    joined = b",".join(item.text for item in items)
    tail = b"" if wait is None else b',"wait":' + as_json(wait.model_dump(mode="json", exclude_none=True))
    return b'{"trajectories":[' + joined + b"]" + tail + b"}"
