"""The form of a decision: made from the queue as it was frozen with the item, read with an error at every
field, and shown again with all that was typed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from starlette.datastructures import FormData

from verifier_service.dashboard.acting import text_of
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.ladders import QuantitySpec
from verifier_service.domain.review_queues import DecisionForm, MeasurementSpec, Queue, ScoreSpec
from verifier_service.domain.reviews import ReviewDecision, Vote

MAX_RADIOS = 11  # grades that are shown as buttons; of more a number is asked for
MAX_TIME_S = 86_400.0
GENERAL = ""  # what is wrong with the whole


@dataclass(frozen=True, slots=True)
class ScoreField:
    """A graded score. ``grades`` with their anchors, none where there are too many for buttons."""

    name: str
    spec: ScoreSpec
    grades: Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class MeasurementField:
    """A number that may be measured."""

    name: str
    spec: MeasurementSpec


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a decision beside verdict and reason."""

    scores: Sequence[ScoreField]
    measurements: Sequence[MeasurementField]
    comment: str
    queue: str


@dataclass(slots=True)
class Filled:
    """What was typed, by field, and what is wrong with it."""

    values: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


def layout(queue: Queue, quantity: QuantitySpec | None) -> Layout:
    """The fields that a queue asks for; one that nobody declared takes the ladder's quantity."""
    form = queue.spec.form
    measured = form.measurements
    if queue.version == 0 and quantity is not None:
        measured = (MeasurementSpec(quantity=quantity.name, unit=quantity.unit),)
    return Layout(
        [ScoreField(f"score-{at}", spec, _grades(spec)) for at, spec in enumerate(form.scores)],
        [MeasurementField(f"measured-{at}", spec) for at, spec in enumerate(measured)],
        form.comment,
        queue.spec.name,
    )


def asks(form: DecisionForm) -> bool:
    """Whether a form asks for anything beside verdict and reason."""
    return bool(form.scores or form.measurements or form.comment == "required")


def read(form: FormData, fields: Layout, reviewer: str) -> tuple[ReviewDecision | None, Filled]:
    """The decision, or none and what is wrong with which field."""
    filled = Filled(_values(form, fields))
    said: dict[str, Any] = {"reviewer": reviewer, "verdict": filled.values["verdict"]}
    if said["verdict"] not in ("accept", "reject"):
        filled.errors["verdict"] = "Choose accept or reject."
    said["reason"] = filled.values["reason"]
    if said["verdict"] == "reject" and not said["reason"]:
        filled.errors["reason"] = "A rejection needs a reason."
    said["scores"] = _scores(fields, filled)
    said["measurements"] = _measurements(fields, filled, needed=said["verdict"] == "accept")
    said["comment"] = filled.values["comment"] or None
    if fields.comment == "required" and said["comment"] is None:
        filled.errors["comment"] = "This queue asks for a comment."
    taken = _number(filled.values["human_s"])
    said["human_s"] = None if taken is None else min(max(taken, 0.0), MAX_TIME_S)
    if filled.errors:
        return None, filled
    try:
        return ReviewDecision.model_validate(said), filled
    except ValidationError as error:
        for one in error.errors(include_url=False, include_context=False, include_input=False):
            filled.errors[_field_of(one["loc"], fields)] = _sentence(one["msg"])
        return None, filled


def refused(error: InvalidInput, fields: Layout, filled: Filled) -> None:
    """Note what the desk found wrong, beside its field."""
    name = error.field or GENERAL
    if name.startswith("scores."):
        wanted = name.removeprefix("scores.")
        name = next((one.name for one in fields.scores if one.spec.name == wanted), GENERAL)
    elif name.startswith("measurements"):
        name = fields.measurements[0].name if fields.measurements else GENERAL
    filled.errors[name if name in filled.values else GENERAL] = _sentence(error.message)


def as_filled(vote: Vote, fields: Layout) -> Filled:
    """A vote that was undone, back in its form."""
    values = {"verdict": vote.verdict, "reason": vote.reason, "comment": vote.comment or "", "human_s": ""}
    for score in fields.scores:
        values[score.name] = str(vote.scores.get(score.spec.name, ""))
    measured = {one.quantity: one for one in vote.measurements}
    for one in fields.measurements:
        found = measured.get(one.spec.quantity)
        values[one.name] = "" if found is None else repr(found.value)
        values[f"{one.name}-sigma"] = "" if found is None or found.sigma is None else repr(found.sigma)
    return Filled(values)


def labels(fields: Layout) -> dict[str, str]:
    """What each field is called where it is told as text."""
    named = {"verdict": "Verdict", "reason": "Reason", "comment": "Comment"}
    named |= {one.name: one.spec.name for one in fields.scores}
    for one in fields.measurements:
        named[one.name] = f"{one.spec.quantity}, {one.spec.unit}"
        named[f"{one.name}-sigma"] = f"± σ, {one.spec.unit}"
    return named


def as_text(filled: Filled, fields: Layout) -> str:
    """What was typed, a line or more for each field that has anything."""
    named = labels(fields).items()
    return "\n".join(f"{label}: {filled.values[name]}" for name, label in named if filled.values.get(name))


def empty(fields: Layout) -> Filled:
    """Nothing typed yet."""
    return Filled(_values(FormData(), fields))


def _values(form: FormData, fields: Layout) -> dict[str, str]:
    names = ["verdict", "reason", "comment", "human_s", *(one.name for one in fields.scores)]
    for one in fields.measurements:
        names += [one.name, f"{one.name}-sigma"]
    return {name: text_of(form, name).replace("\r\n", "\n") for name in names}


def _grades(spec: ScoreSpec) -> list[tuple[int, str]]:
    if spec.high - spec.low >= MAX_RADIOS:
        return []
    return [(grade, spec.anchors.get(str(grade), "")) for grade in range(spec.low, spec.high + 1)]


def _scores(fields: Layout, filled: Filled) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in fields.scores:
        text = filled.values[one.name]
        grade = (
            int(text) if text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 6 else None
        )
        if grade is None or not one.spec.low <= grade <= one.spec.high:
            filled.errors[one.name] = f"Grade {one.spec.name} from {one.spec.low} to {one.spec.high}."
        else:
            found[one.spec.name] = grade
    return found


def _measurements(fields: Layout, filled: Filled, *, needed: bool) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for one in fields.measurements:
        text, spread = filled.values[one.name], filled.values[f"{one.name}-sigma"]
        if not text and not spread:
            if one.spec.required and needed:
                filled.errors[one.name] = f"Who accepts measures {one.spec.quantity}."
            continue
        value, sigma = _number(text), _number(spread) if spread else None
        if value is None or abs(value) > 1e12:
            filled.errors[one.name] = "Write a number with a decimal point, like 4.31, up to 1e12."
        elif spread and (sigma is None or not 1e-12 <= sigma <= 1e12):
            filled.errors[f"{one.name}-sigma"] = "Write one standard deviation above 0, like 0.05."
        else:
            named = {"quantity": one.spec.quantity, "unit": one.spec.unit}
            found.append({**named, "value": value, "sigma": sigma})
    return found


def _number(text: str) -> float | None:
    try:
        value = float(text.replace("−", "-"))
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def _field_of(place: tuple[int | str, ...], fields: Layout) -> str:
    name = str(place[0]) if place else GENERAL
    if name == "measurements" and len(place) > 1 and isinstance(place[1], int):
        return fields.measurements[min(place[1], len(fields.measurements) - 1)].name
    return name if name in ("verdict", "reason", "comment") else GENERAL


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
