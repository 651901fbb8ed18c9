"""Queues of the desk: what reviewers are told and asked, as immutable versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, model_validator

from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.records import JsonValue, Record, Request
from verifier_service.domain.reviews import QueueName, ReviewDecision, ReviewMeasurement

MAX_INSTRUCTIONS = 20_000
MAX_APPROVALS = 5
MAX_GRADES = 100  # steps of one graded score
MAX_FIELDS = 20  # scores, and measurements, of one form
CLAIM_MINUTES = 30.0
DEFAULT_QUEUE = "default"
CLAIM_HOURS = 24.0  # however often it is renewed
MOST_HELD = 20  # items of one person at once, in a project
FieldName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.@/ -]{0,99}$")]
Grade = Annotated[int, Field(ge=-1_000, le=1_000)]


class ScoreSpec(Request):
    """A graded score: whole numbers from ``low`` to ``high``, and what some of them mean.

    Keys of ``anchors`` are grades, as text.
    """

    name: FieldName
    low: Grade
    high: Grade
    anchors: dict[str, Annotated[str, Field(max_length=500)]] = {}

    @model_validator(mode="after")
    def _is_a_scale(self) -> ScoreSpec:
        if not self.low < self.high <= self.low + MAX_GRADES:
            raise ValueError(f"high must be above low, by at most {MAX_GRADES}")
        grades = {str(grade) for grade in range(self.low, self.high + 1)}
        if strange := sorted(self.anchors.keys() - grades):
            raise ValueError(f"{strange[0][:20]!r} is no grade from {self.low} to {self.high}")
        return self


class MeasurementSpec(Request):
    """A number that may be measured; ``required`` of whoever accepts."""

    quantity: Annotated[str, Field(min_length=1, max_length=200)]
    unit: Annotated[str, Field(min_length=1, max_length=50)]
    required: bool = False


class DecisionForm(Request):
    """What a decision holds beside its verdict. All scores are asked of everybody."""

    scores: Annotated[tuple[ScoreSpec, ...], Field(strict=False, max_length=MAX_FIELDS)] = ()
    measurements: Annotated[tuple[MeasurementSpec, ...], Field(strict=False, max_length=MAX_FIELDS)] = ()
    comment: Literal["none", "optional", "required"] = "optional"

    @model_validator(mode="after")
    def _names_once(self) -> DecisionForm:
        named = ([one.name for one in self.scores], [one.quantity for one in self.measurements])
        for names in named:
            if len(set(names)) < len(names):
                raise ValueError("every score and every quantity is named once")
        return self


class QueueSpec(Request):
    """What an operator says of a queue. ``assist`` is a text shown beside the item, for whoever wants it.

    ``approvals``: votes per item unless the ladder says how many. ``blind``: scores of cheaper tiers and
    votes of others are hidden from a reviewer until their own vote stands. ``gold_share``: of the items
    that a reviewer takes, so many are known ones. ``minutes``: how long a claim may last.
    ``escalate_after_s``: age from which an item goes before others.
    """

    name: QueueName
    instructions: Annotated[str, Field(max_length=MAX_INSTRUCTIONS)] = ""
    form: DecisionForm = DecisionForm()
    approvals: Annotated[int, Field(ge=1, le=MAX_APPROVALS)] = 1
    blind: bool = False
    gold_share: Annotated[float, Field(ge=0.0, le=0.5)] = 0.0
    minutes: Annotated[float, Field(gt=0, le=1_440)] = CLAIM_MINUTES
    escalate_after_s: Annotated[float, Field(gt=0, le=31_536_000)] | None = None
    assist: Annotated[str, Field(max_length=MAX_INSTRUCTIONS)] = ""


class Queue(Record):
    """A stored version of a queue; same content, same version. Version 0 is the plain queue that nobody
    declared: verdict and reason, whatever is measured."""

    version: int
    spec: QueueSpec
    created_at: datetime | None = None


class QueueList(Record):
    """The latest version of every declared queue, by name."""

    queues: tuple[Queue, ...]


class QueueStored(Record):
    """A stored queue; ``created`` is false when the content was already there."""

    queue: Queue
    created: bool


def plain(name: str) -> Queue:
    """The queue that a ladder names and nobody declared."""
    return Queue(version=0, spec=QueueSpec(name=name))


def queue_of(params: Mapping[str, JsonValue]) -> str:
    """The queue that a check by people goes to."""
    return str(params.get("queue", DEFAULT_QUEUE))


def require_fit(decision: ReviewDecision, queue: Queue) -> None:
    """Raise ``InvalidInput``, naming the field, where a decision does not fit the queue's form."""
    if queue.version == 0 and not decision.scores:
        return
    _require_scores(decision, queue.spec.form)
    if queue.spec.form.measurements:
        _require_measurements(decision, queue.spec.form)
    asked = queue.spec.form.comment
    if asked == "required" and not (decision.comment or "").strip():
        raise InvalidInput("comment_needed", "this queue asks for a comment", field="comment")
    if asked == "none" and decision.comment:
        raise InvalidInput("comment_not_asked", "this queue takes no comment", field="comment")


def _require_scores(decision: ReviewDecision, form: DecisionForm) -> None:
    asked = {one.name: one for one in form.scores}
    for name, grade in decision.scores.items():
        field = f"scores.{name}"
        if name not in asked:
            raise InvalidInput(
                "unknown_score", f"this queue has no score {name!r}; {_all(asked)}", field=field
            )
        low, high = asked[name].low, asked[name].high
        if not low <= grade <= high:
            raise InvalidInput("score_out_of_range", f"{name} is graded from {low} to {high}", field=field)
    for name in asked:
        if name not in decision.scores:
            raise InvalidInput("score_needed", f"grade {name}", field=f"scores.{name}")


def _require_measurements(decision: ReviewDecision, form: DecisionForm) -> None:
    asked = {one.quantity: one for one in form.measurements}
    for at, found in enumerate(decision.measurements):
        field = f"measurements.{at}"
        if found.quantity not in asked:
            message = f"this queue does not ask for {found.quantity!r}; {_all(asked)}"
            raise InvalidInput("unknown_measurement", message, field=f"{field}.quantity")
        unit = asked[found.quantity].unit
        if found.unit != unit:
            message = f"{found.quantity} is measured in {unit}, not in {found.unit}"
            raise InvalidInput("wrong_unit", message, field=f"{field}.unit")
    measured = {one.quantity for one in decision.measurements}
    missing = [one.quantity for one in form.measurements if one.required and one.quantity not in measured]
    if missing and decision.verdict == "accept":
        raise InvalidInput("measurement_needed", f"measure {missing[0]}", field="measurements")


def require_unit(
    measured: Iterable[ReviewMeasurement], quantity: str, unit: str, *, field: str = "measurements.unit"
) -> None:
    """A number of the ladder's quantity in another unit would silently mean something else."""
    for one in measured:
        if one.quantity == quantity and one.unit != unit:
            message = f"{quantity} is measured in {unit}, not in {one.unit}"
            raise InvalidInput("wrong_unit", message, field=field)


def _all(asked: Iterable[str]) -> str:
    names = ", ".join(asked)
    return f"its form has {names}" if names else "its form has none"
