"""What a monitoring system scrapes: the Prometheus text format, from the database at each scrape."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from verifier_service.api.auth import Operator
from verifier_service.api.context import Context, InContext
from verifier_service.domain.evidence import TIERS
from verifier_service.domain.states import LIVE_CHECKS

router = APIRouter(tags=["health"])


class ServiceCollector(Collector):
    """Queue depths from the database, so that every process behind a balancer says the same."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        """One sample per tier and live state, zeros included, so that an alert sees an empty queue."""
        with self._context.service.store.read() as tx:
            live, stale = tx.checks.live(), tx.checks.stale_completions()
        checks = GaugeMetricFamily(
            "verifier_checks", "Checks that have not ended", labels=["tier", "state"]
        )
        for tier in TIERS:
            for state in sorted(LIVE_CHECKS):
                checks.add_metric([tier, state], live.get((tier, state), 0))
        yield checks
        yield CounterMetricFamily(
            "verifier_stale_completions", "Results discarded because their lease was lost", value=stale
        )
        yield GaugeMetricFamily(
            "verifier_open_waits",
            "Requests of this process that wait for something",
            value=self._context.hub.open_waits,
        )


@router.get("/metrics", response_class=Response, responses={200: {"content": {CONTENT_TYPE_LATEST: {}}}})
def metrics(caller: Operator, context: InContext) -> Response:  # noqa: ARG001 - the scope is the point
    """Queue depths and counters. Scope `operate`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ServiceCollector(context))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
