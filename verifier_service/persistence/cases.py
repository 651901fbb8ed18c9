"""Demands with their checks, as a case shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import select

from verifier_service.domain.checks import CheckView, DemandView
from verifier_service.domain.climb import climbing
from verifier_service.domain.evidence import Cost, Evidence, Failure, Tier
from verifier_service.domain.retractions import Retracted
from verifier_service.domain.states import CheckState, DemandState
from verifier_service.persistence import tables
from verifier_service.persistence.database import Database
from verifier_service.persistence.retractions import read_retracted

_checks, _demands, _runs = tables.checks, tables.demands, tables.runs
_CACHED_CHARS = 2_048
_NO_COST = Cost()
_NONE: Mapping[int, Retracted] = {}
# Enum calls are slow, and a case of the fast tier alone has a dozen of them per load.
_TIERS = {tier.value: tier for tier in Tier}
_CHECK_STATES = {state.value: state for state in CheckState}
_DEMAND_STATES = {state.value: state for state in DemandState}

VIEWED = (
    _checks.c.key,
    _checks.c.verifier,
    _checks.c.tier,
    _checks.c.state,
    _checks.c.attempt,
    _runs.c.id.label("payer"),
    _checks.c.spent,
    _checks.c.cost,
    _checks.c.evidence,
    _checks.c.failure,
    _checks.c.not_before,
    _checks.c.started_at,
    _checks.c.retraction,
)
_DEMANDS = (
    select(
        _demands.c.trajectory,
        _demands.c.pk,
        _demands.c.path,
        _demands.c.role,
        _demands.c.tier,
        _demands.c.state,
        _demands.c.reason,
        _demands.c.quote,
        _demands.c.rank,
        _demands.c.propensity,
        _demands.c.decided_at,
        _demands.c.check_pk,
        *VIEWED,
    )
    .join(_checks, _checks.c.pk == _demands.c.check_pk, isouter=True)
    .join(_runs, _runs.c.pk == _checks.c.payer, isouter=True)
)


def demand_views(database: Database, trajectories: Collection[int]) -> dict[int, list[DemandView]]:
    """Every demand of the trajectories, withdrawn ones too, in climbing order."""
    found: dict[int, list[DemandView]] = defaultdict(list)
    rows = database.all(_DEMANDS.where(database.among(_demands.c.trajectory, trajectories)))
    by = {row.retraction for row in rows if row.retraction is not None}
    retractions = read_retracted(database, by) if by else _NONE
    for row in rows:
        found[row[0]].append(_demand_view(row, retractions))
    for views in found.values():
        views.sort(key=lambda view: (*climbing(view.path), view.pk))
    return found


def _demand_view(row: Any, retractions: Mapping[int, Retracted]) -> DemandView:
    _, pk, path, role, tier, state, reason, quote, rank, propensity, decided_at, check, *viewed = row
    return DemandView(
        pk=pk,
        path=path,
        role=role,
        tier=_TIERS[tier],
        state=_DEMAND_STATES[state],
        reason=reason,
        quote=quote,
        rank=rank,
        propensity=propensity,
        decided_at=decided_at,
        check=None if check is None else check_view(check, viewed, retractions),
    )


def check_view(pk: int, viewed: Any, retractions: Mapping[int, Retracted] = _NONE) -> CheckView:
    """A check from the columns ``VIEWED``; ``retractions`` by their primary keys."""
    key, verifier, tier, state, attempt, payer, spent, cost, evidence, failure, not_before, *rest = viewed
    started_at, retraction = rest
    return CheckView(
        pk=pk,
        key=key,
        verifier=verifier,
        tier=_TIERS[tier],
        state=_CHECK_STATES[state],
        attempt=attempt,
        payer=payer,
        credits=spent,
        cost=read_cost(cost),
        evidence=None if evidence is None else read_evidence(evidence),
        failure=None if failure is None else Failure.model_validate_json(failure),
        not_before=not_before,
        started_at=started_at,
        retracted=None if retraction is None else retractions.get(retraction),
    )


def read_cost(text: str | None) -> Cost:
    """The accumulated cost of a check."""
    return _NO_COST if text is None else _parsed_cost(text)


def read_evidence(text: str) -> Evidence:
    """Evidence by its text: one check is read again at every step of every climb that shares it."""
    return _parsed_evidence(text) if len(text) <= _CACHED_CHARS else Evidence.model_validate_json(text)


@lru_cache(maxsize=512)
def _parsed_evidence(text: str) -> Evidence:
    return Evidence.model_validate_json(text)


@lru_cache(maxsize=512)
def _parsed_cost(text: str) -> Cost:
    return Cost.model_validate_json(text)
