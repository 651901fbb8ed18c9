"""Every route of the API, in the order in which paths are matched."""

from __future__ import annotations

from fastapi import APIRouter

from verifier_service.api import (
    cases,
    groups,
    growth,
    health,
    hindsight,
    insight,
    keys,
    lab_results,
    ladders,
    metrics,
    retention,
    retractions,
    reviews,
    rewards,
    runs,
    scoring,
    settlements,
    stream,
    trajectories,
    verifiers,
    webhooks,
    workers,
)

ROUTERS: tuple[APIRouter, ...] = (
    trajectories.router,
    growth.router,
    scoring.router,
    cases.router,
    rewards.router,
    stream.router,
    hindsight.router,
    groups.router,
    runs.router,
    insight.router,
    retention.router,
    ladders.router,
    verifiers.router,
    reviews.router,
    lab_results.router,
    settlements.router,
    keys.router,
    workers.router,
    retractions.router,
    webhooks.router,
    health.router,
    metrics.router,
)
