"""What the rows of an import say of events. A row about an event is about no check."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from verifier_service.domain.forecasts import EVENT_PATTERN, Question
from verifier_service.domain.lab_results import EventValue, RowOutcome, RowStatus
from verifier_service.domain.lab_rows import LabRow
from verifier_service.domain.lab_senders import MAY_NOT_SETTLE, OWN_SUBMISSION
from verifier_service.domain.settlements import (
    MAX_ACTUAL_CHARS,
    Actual,
    Settlement,
    SettlementState,
    misfit,
)

MAX_EVENTS = 2_000  # of one import: it is one transaction, and others wait to write meanwhile
_CHECKS = ("review", "run", "trajectory", "candidate", "plate", "well", "verdict")


class Known(NamedTuple):
    """What is stored of the events that rows name: latest versions, and the questions about them.
    ``own``: events that the sender has forecast; ``settles``: whether the sender may say what became of
    any."""

    latest: Mapping[str, Settlement]
    questions: Mapping[str, Sequence[Question]]
    own: Collection[str] = ()
    settles: bool = True


@dataclass(slots=True)
class ToldEvents:
    """Every row's outcome by line, and what is to be stored, by event, with its version."""

    rows: dict[int, RowOutcome] = field(default_factory=dict)
    actuals: dict[str, tuple[int, Actual]] = field(default_factory=dict)
    values: list[EventValue] = field(default_factory=list)


def is_of_event(row: LabRow) -> bool:
    """Whether a row says something of an event."""
    return any(name in row.texts for name in ("event", "actual", "event_state"))


def evaluate_events(rows: Sequence[LabRow], known: Known) -> ToldEvents:
    """Bring the rows about events together. Errors are noted at the rows that they are about."""
    told = ToldEvents()
    seen: dict[str, int] = {}
    for row in rows:
        status = RowStatus.EMPTY
        actual = _actual(row)
        if actual is not None and not row.errors:
            _require_may(row, actual, known)
            _require_fit(row, actual, known)
            _require_once(row, actual, seen)
        if actual is not None and not row.errors:
            status = _take(told, actual, known)
        if row.errors:
            status = RowStatus.REFUSED
        told.rows[row.line] = RowOutcome(line=row.line, status=status, errors=tuple(row.errors))
    return told


def _actual(row: LabRow) -> Actual | None:
    """What the row says, or ``None`` where it was not filled in."""
    event, text = row.texts.get("event", ""), row.texts.get("actual", "")
    state = row.texts.get("event_state", "").casefold()
    if row.errors:
        return None
    if row.readings or any(name in row.texts for name in _CHECKS):
        row.refuse("two_targets", "a row is about an event or about a check", "event")
    if not text and not state:
        return None
    if not event:
        row.refuse("missing_field", "the row names no event", "event")
    elif not re.fullmatch(EVENT_PATTERN, event):
        row.refuse("bad_format", f"{event[:60]!r} is no id of an event", "event")
    if state not in ("", "settled", "void"):
        row.refuse("not_one_of", "the state is settled, void or empty", "event_state")
    elif state == "void":
        if text:
            row.refuse("void_with_actual", "a void event has no actual", "actual")
        return Actual(event, SettlementState.VOID)
    elif not text:
        row.refuse("missing_value", "the row names no actual", "actual")
    if len(text) > MAX_ACTUAL_CHARS:
        row.refuse("too_long", "the actual is too long", "actual", MAX_ACTUAL_CHARS)
    return Actual(event, SettlementState.SETTLED, text, row.actual)


def _require_may(row: LabRow, actual: Actual, known: Known) -> None:
    if not known.settles:
        row.refuse(MAY_NOT_SETTLE, "what became of events is told with the scope operate", "event")
    elif actual.event in known.own:
        row.refuse(OWN_SUBMISSION, "you have submitted forecasts of this event", "event")


def _require_fit(row: LabRow, actual: Actual, known: Known) -> None:
    """An actual that answers none of the questions that wait for it is a mistake."""
    reasons = [misfit(actual, question) for question in known.questions.get(actual.event, ())]
    found = next((reason for reason in reasons if reason is not None), None)
    if found is not None and all(reason is not None for reason in reasons):
        row.refuse("actual_mismatch", found, "actual")


def _require_once(row: LabRow, actual: Actual, seen: dict[str, int]) -> None:
    if actual.event in seen:
        row.refuse("duplicate_row", f"line {seen[actual.event]} says it already", "event")
    elif len(seen) >= MAX_EVENTS:
        row.refuse("too_many_events", "send the rest in another file", "event", float(MAX_EVENTS))
    seen.setdefault(actual.event, row.line)


def _take(told: ToldEvents, actual: Actual, known: Known) -> RowStatus:
    before = known.latest.get(actual.event)
    if before is not None and actual.says(before):
        return RowStatus.UNCHANGED
    version = 1 if before is None else before.version + 1
    told.actuals[actual.event] = (version, actual)
    told.values.append(
        EventValue(
            event=actual.event,
            version=version,
            state=actual.state,
            actual=actual.text,
            number=actual.number,
        )
    )
    return RowStatus.ACCEPTED if before is None else RowStatus.AMENDED
