"""What trainers ask in their own formats, as trajectories; and what came of those, to be told in a format.

A body that cannot be read is refused as a whole. An item that cannot is an ``InvalidInput`` in its place,
and its neighbours go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from verifier_service.api import parsing, strict_json
from verifier_service.domain.digests import canonical_json, digest
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.trajectories import TrajectorySubmission

ID_PREFIX = "s-"

Item: TypeAlias = TrajectorySubmission | InvalidInput


class TrainerRequest(BaseModel):
    """Base of the requests as OpenAPI describes them: trainers of other versions may send more."""

    model_config = ConfigDict(extra="ignore")


@dataclass(frozen=True, kw_only=True, slots=True)
class Manner:
    """How the URL says that requests are to be read.

    ``reference``: the field of the reference that a label becomes which is no JSON object. ``label``: the
    field of a NeMo Gym request that holds the label. ``end``: what is cut off the end of a completion, in
    place of the usual end tokens. ``unscored``: NeMo Gym's form of no reward. ``salt`` is the project's
    secret: ids are shown, and labels may not be guessed from them.
    """

    run: str
    ladder: str
    salt: str
    reference: str = "answer"
    label: str = "expected_answer"
    end: tuple[str, ...] = ()
    unscored: Literal["null", "mask"] = "null"
    max_batch: int = 4_096


@dataclass(frozen=True, slots=True)
class Asked:
    """The items of a request in its order, and the request as it was decoded."""

    items: tuple[Item, ...]
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one item. ``code`` is null exactly when there is a reward."""

    id: str | None
    record: RewardRecord | None
    code: str | None
    message: str = ""

    @property
    def reward(self) -> float | None:
        """The reward, or null where there is none."""
        return None if self.record is None else self.record.reward


@dataclass(frozen=True, slots=True)
class Format:
    """A trainer's format: its request as OpenAPI shows it, the schema of its reply, and both directions."""

    request: type[BaseModel]
    reply_schema: Mapping[str, Any]
    read: Callable[[bytes, Manner], Asked]
    reply: Callable[[Asked, Sequence[Outcome], Manner], Any]


def decoded(raw: bytes) -> dict[str, Any]:
    """The object that a body is, with marks in place of flawed values. Raises ``InvalidInput``."""
    text = parsing.decode_body(raw).strip(strict_json.WHITESPACE)
    refused = strict_json.check_text(text)
    if refused is not None:
        raise refused
    try:
        value, end = _value(text)
    except json.JSONDecodeError as error:
        raise parsing.unparsable(error) from error
    if end != len(text):
        raise InvalidInput("invalid_json", "the body holds more than one JSON value")
    if not isinstance(value, dict):
        flaw = strict_json.find_flaw(text, value) if text != "null" else None
        raise flaw or InvalidInput("wrong_type", "the body must be an object")
    return value


def _value(text: str) -> tuple[Any, int]:
    try:
        return strict_json.decode(text)
    except (strict_json.Flaw, RecursionError):
        end = strict_json.end_of(text, 0)
        return strict_json.decode_flawed(text[:end]), end


def texts(body: Mapping[str, Any], field: str) -> list[Any]:
    """The array ``field`` of a body, empty where it is missing. Raises ``InvalidInput``."""
    value = body.get(field)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidInput("wrong_type", f"{field!r} must be an array", field=field)
    return value


def made(manner: Manner, parts: Mapping[str, Any], salt: object = None) -> Item:
    """One finished trajectory of a body's decoded ``parts``: ``prompt``, ``reference``, ``answer`` and,
    where there are any, ``turns`` and ``metadata``.

    Its id is its content with the project's secret and ``salt``: the same request is the same trajectory.
    """
    flaw = strict_json.find_flaw_of_part(dict(parts))
    if flaw is not None:
        return flaw
    submission: dict[str, Any] = {
        "ladder": manner.ladder,
        "problem": {"prompt": parts["prompt"], "reference": parts["reference"]},
        "answer": parts["answer"],
        "turns": parts.get("turns", []),
        "metadata": parts.get("metadata", {}),
    }
    name = digest("score", manner.salt, manner.run, canonical_json([submission, salt]))
    submission["id"] = ID_PREFIX + name
    piece = json.dumps(submission, ensure_ascii=False)
    refused = strict_json.find_nul(piece, submission)
    if refused is not None:
        return refused
    try:
        return parsing.validated(TrajectorySubmission, piece, submission)
    except InvalidInput as error:
        return error


def reference_of(label: object, field: str) -> Any:
    """A label as a reference: an object, or the JSON text of one, as it is; nothing as nothing; any other
    value under ``field``."""
    if label is None or label == "":
        return {}
    if isinstance(label, dict):
        return label
    if isinstance(label, str) and label.lstrip().startswith("{"):
        found = _object(label.strip(strict_json.WHITESPACE))
        if found is not None:
            return found
    return {field: label}


def _object(text: str) -> dict[str, Any] | None:
    try:
        value, end = strict_json.decode(text)
    except (strict_json.Flaw, json.JSONDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) and end == len(text) else None
