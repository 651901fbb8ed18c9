"""Every route of the API, in the order in which paths are matched."""

from __future__ import annotations

from fastapi import APIRouter

from verifier_service.api import (
    cases,
    groups,
    growth,
    health,
    keys,
    ladders,
    metrics,
    reviews,
    rewards,
    runs,
    trajectories,
    verifiers,
)

ROUTERS: tuple[APIRouter, ...] = (
    trajectories.router,
    growth.router,
    cases.router,
    rewards.router,
    groups.router,
    runs.router,
    ladders.router,
    verifiers.router,
    reviews.router,
    keys.router,
    health.router,
    metrics.router,
)
