"""Settlements: what became of events, and which forecasts may be judged by it.

A forecast counts only if this service accepted it before the event's close and before it knew the actual.
When it was accepted is a fact about a trajectory; a check is shared by every trajectory with the same
forecast. So the time is looked at wherever a trajectory is given evidence, and never by a check.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from verifier_service.domain.cases import Standing
from verifier_service.domain.errors import NotFound, TaskError
from verifier_service.domain.evidence import Evidence, Finding, Provenance, Reason, Tier, Verdict
from verifier_service.domain.forecast_scores import Inapplicable, answer_of, score
from verifier_service.domain.forecasts import EventSpec, NotAForecast, Question, event_of, read_forecast
from verifier_service.domain.ladders import Ladder, Rung
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.records import JsonObject, OpenEnum, Record
from verifier_service.domain.verifiers import CheckInput, VerifierInfo

EVENT_VOID = "event_void"
IMPORT = "import"  # the source of what a file said
MAX_ACTUAL_CHARS = 200
VOID = "the event is void: there is no actual that a forecast could be held against"


class SettlementState(OpenEnum):
    """Whether an event has an actual, or never will."""

    SETTLED = "settled"
    VOID = "void"
    OTHER = "other"


class Settlement(Record):
    """One version of what became of an event: who said it, when it was stored.

    ``actual`` is as it was written, ``number`` its value if it is one; both are null when the event is
    void. ``source`` is ``import`` or the name of a polled source, ``by`` the name of the key that sent it.
    """

    seq: int
    event: str
    version: int
    state: SettlementState
    actual: str | None = None
    number: float | None = None
    source: str
    import_id: str | None = None
    by: str | None = None
    created_at: datetime


class SettlementList(Record):
    """Settlements in the order in which they were stored; ``next`` is the cursor behind the last one."""

    settlements: tuple[Settlement, ...]
    next: int


class Actual(NamedTuple):
    """What somebody says became of an event; ``text`` and ``number`` of one that is void are ``None``."""

    event: str
    state: SettlementState
    text: str | None = None
    number: float | None = None

    def says(self, known: Settlement) -> bool:
        """Whether that is stored already."""
        if self.state is not known.state:
            return False
        if self.number is not None and known.number is not None:
            return self.number == known.number
        return self.text == known.actual


class Behind(NamedTuple):
    """A check that has not been told the latest version: its item as JSON, and its state."""

    check: int
    key: str
    verifier: str
    item: str
    state: str
    retracted: bool


class Wanting(NamedTuple):
    """A demand that waits for a check, and when its trajectory was registered."""

    check: int
    demand: int
    trajectory: int
    registered_at: float


class Due(NamedTuple):
    """An event for which checks may be behind; ``token`` rises whenever it is asked for again."""

    project: str
    event: str
    token: int


class Poll(NamedTuple):
    """An event to ask a source about; ``failures`` in a row so far."""

    pk: int
    project: str
    source: str
    event: str
    failures: int


def misfit(actual: Actual, question: Question) -> str | None:
    """Why an actual answers no such question, or ``None``."""
    if actual.state is SettlementState.VOID:
        return None
    try:
        answer_of(question, actual.text or "", actual.number)
    except Inapplicable as error:
        return str(error)
    return None


def registered_at(standing: Standing) -> float:
    """When a trajectory's answer was accepted for good, in database time."""
    return standing.created_at if standing.registered_at is None else standing.registered_at


def too_late(registered: float, event: EventSpec, known_since: float | None) -> bool:
    """Whether a forecast is worth nothing as one: the close had come, or the actual was known here."""
    return registered >= event.close.timestamp() or (known_since is not None and registered >= known_since)


def awaiting(catalog: Catalog, ladder: Ladder) -> tuple[Rung, ...]:
    """Rungs of a ladder that wait for an event."""
    return tuple(rung for rung in ladder.rungs_of(Tier.LAB) if _awaits(catalog, rung.use.use))


def _awaits(catalog: Catalog, verifier: str) -> bool:
    try:
        return catalog.verifier(verifier).awaits == "settlement"
    except NotFound:
        return False


def settled(item: CheckInput, settlement: Settlement) -> Finding:
    """What a settlement says of a forecast. Without a score: a void event, or an actual that does not
    answer the task's question. Raises ``TaskError`` for a task without an event."""
    event = event_of(item.inputs)
    told: tuple[JsonObject, ...] = (
        {"event": event.id, "settlement": settlement.version, "rule": event.scored_by},
    )
    if settlement.state is not SettlementState.SETTLED:
        return _inconclusive(EVENT_VOID, VOID, told)
    try:
        answer = answer_of(event.question, settlement.actual or "", settlement.number)
    except Inapplicable as error:
        return _inconclusive("actual_mismatch", str(error), told)
    try:
        forecast = read_forecast(item.candidate, event)
    except NotAForecast as why:
        reason = Reason(code=why.code, message=why.message)
        return Finding(verdict=Verdict.REJECT, score=0.0, reason=reason, artifacts=told)
    return Finding(verdict=Verdict.ACCEPT, score=score(event, forecast, answer), artifacts=told)


def evidence_of(behind: Behind, info: VerifierInfo, settlement: Settlement) -> Evidence:
    """The finding as evidence of its check; a broken task gives an inconclusive one."""
    try:
        found = settled(CheckInput.model_validate_json(behind.item), settlement)
    except TaskError as error:
        found = _inconclusive(error.code, error.message, ())
    return _bound(found, behind, info, settlement)


def unreadable(behind: Behind, info: VerifierInfo, settlement: Settlement) -> Evidence:
    """Evidence of a check that cannot be judged because of an error of ours."""
    found = _inconclusive("verifier_error", "the forecast could not be judged", ())
    return _bound(found, behind, info, settlement)


def _bound(found: Finding, behind: Behind, info: VerifierInfo, settlement: Settlement) -> Evidence:
    provenance = Provenance(verifier=info.name, version=info.version, worker=settlement.source)
    return Evidence(**dict(found), check=behind.key, tier=Tier.LAB, provenance=provenance)


def _inconclusive(code: str, message: str, artifacts: tuple[JsonObject, ...]) -> Finding:
    reason = Reason(code=code, message=message)
    return Finding(verdict=Verdict.INCONCLUSIVE, reason=reason, artifacts=artifacts)
