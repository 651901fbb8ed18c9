"""Fitted models of ladders, as services and stores hand them to each other."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from verifier_service.domain.cases import Standing
from verifier_service.domain.decisions import RungEvidence
from verifier_service.domain.ladders import Ladder
from verifier_service.domain.records import JsonObject, Record


class LadderKey(NamedTuple):
    """One version of a ladder of one project: what a model belongs to."""

    project: str
    name: str
    version: int


def ladder_of(standing: Standing) -> LadderKey:
    """The ladder version that a trajectory climbs."""
    return LadderKey(standing.project, standing.ladder, standing.ladder_version)


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A candidate that something was bought for: all evidence about it, and how it came to be bought.

    ``propensity`` is the probability with which the truth was asked for, null where no audit was drawn;
    ``predicted`` the outcome believed in at that time.
    """

    trajectory: int
    ladder: Ladder
    evidence: tuple[RungEvidence, ...]
    propensity: float | None = None
    audited: bool = False
    predicted: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Audited:
    """An audit that has ended with the truth: what was believed of the quantity (``mean``) and
    of the outcome when it was drawn with probability ``propensity``, and all evidence. ``key``: the
    trajectory of an example, as text."""

    key: str
    mean: float
    outcome: float
    propensity: float
    evidence: tuple[RungEvidence, ...]


class ModelSummary(Record):
    """One fitted model, without its parameters."""

    ladder: str
    ladder_version: int
    number: int
    labels: int
    made_at: datetime
    summary: JsonObject = {}


class Alarm(Record):
    """That audits of one stratum, a verifier's build and a range of scores, do not look like earlier ones.

    ``statistic`` exceeded ``threshold`` after ``audits`` audits.
    """

    verifier: str
    stratum: str
    statistic: float
    threshold: float
    audits: int


class RaisedAlarm(Alarm):
    """An alarm as stored; it stands until ``cleared_at``."""

    id: str
    ladder: str
    ladder_version: int
    raised_at: datetime
    cleared_at: datetime | None = None


class AlarmList(Record):
    """``GET /v1/alarms``."""

    alarms: tuple[RaisedAlarm, ...]


class ModelList(Record):
    """``GET /v1/models``."""

    models: tuple[ModelSummary, ...]
