"""What a monitoring system scrapes: the Prometheus text format.

Counters and depths come from the database, so that every process behind a balancer says the same; what only
a process knows, how long its clients waited, is its own. Names and units follow
https://prometheus.io/docs/practices/naming/.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from verifier_service.api.auth import Operator
from verifier_service.api.context import Context, InContext
from verifier_service.api.problems import documented
from verifier_service.domain.evidence import TIERS, WORKED_TIERS
from verifier_service.domain.ports.meters import Series
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.runs import Account
from verifier_service.domain.states import LIVE_CHECKS
from verifier_service.domain.webhooks import DeliveryState
from verifier_service.domain.workers import Worker

router = APIRouter(tags=["health"])
MAX_OPEN = 1_000

COUNTERS = {
    "claims": ("verifier_claims", "Checks leased by workers", None),
    "attempts": (
        "verifier_attempts",
        "Attempts by how they ended: requeued ones are retried, failed ones are given up",
        "end",
    ),
    "foreseen": ("verifier_foreseen_checks", "Checks judged before they were stored", "end"),
    "records": (
        "verifier_reward_records",
        "Reward records issued, by status and the tier they rest on",
        "status",
    ),
    "retracted": ("verifier_retracted_checks", "Checks whose evidence was taken back", None),
    "models": ("verifier_models_fitted", "Models fitted to what was bought, by ladder", "ladder"),
    "alarms": ("verifier_alarms", "Alarms of the watch over audits, by ladder", "ladder"),
    "decisions": ("verifier_decisions", "What the policy decided, by action and tier", "action"),
}


class ServiceCollector(Collector):
    """Everything that the database knows, in one snapshot."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        """Zeros included, so that an alert sees an empty queue."""
        with self._context.service.store.read() as tx:
            yield from _queues(tx)
            yield from _counters(tx.meters.totals(), tx.checks.stale_completions())
            yield from _money(tx.ledger.totals())
            yield from _workers(tx.workers.listed(current=False))
            yield from _deliveries(tx.outbox.depths())
            yield GaugeMetricFamily(
                "verifier_open_retractions",
                "Retractions that are not worked off yet, counted up to 1,000",
                value=len(tx.retractions.open(MAX_OPEN)),
            )
        yield GaugeMetricFamily(
            "verifier_open_waits",
            "Requests of this process that wait for something",
            value=self._context.hub.open_waits,
        )


def _queues(tx: Transaction) -> Iterator[Metric]:
    checks = GaugeMetricFamily("verifier_checks", "Checks that have not ended", labels=["tier", "state"])
    ages = GaugeMetricFamily(
        "verifier_queue_oldest_seconds", "Age of the check that is queued for longest", labels=["tier"]
    )
    depths, oldest = tx.checks.live(), tx.checks.oldest_queued()
    for tier in TIERS:
        for state in sorted(LIVE_CHECKS):
            checks.add_metric([tier, state], depths.get((tier, state), 0))
        ages.add_metric([tier], oldest.get(tier, 0.0))
    yield checks
    yield ages


def _counters(totals: dict[Series, float], stale: int) -> Iterator[Metric]:
    for name, (metric, words, kind) in COUNTERS.items():
        labels = ["tier", kind] if kind is not None else ["tier"]
        family = CounterMetricFamily(metric, words, labels=labels)
        for series, value in sorted(totals.items(), key=str):
            if series.name == name:
                tier = "" if series.tier is None else series.tier.value
                family.add_metric([tier, series.kind] if kind is not None else [tier], value)
        yield family
    yield CounterMetricFamily(
        "verifier_stale_completions", "Results discarded because their lease was lost", value=stale
    )


def _money(accounts: tuple[Account, ...]) -> Iterator[Metric]:
    spent = CounterMetricFamily("verifier_spent_credits", "Credits charged to runs", labels=["account"])
    reserved = GaugeMetricFamily(
        "verifier_reserved_credits", "Credits set aside for running checks", labels=["account"]
    )
    for account in accounts:
        spent.add_metric([account.kind], account.spent)
        reserved.add_metric([account.kind], account.reserved)
    yield spent
    yield reserved


def _workers(workers: list[Worker]) -> Iterator[Metric]:
    alive = GaugeMetricFamily("verifier_workers", "Workers whose heartbeat is recent", labels=["tier"])
    for tier in WORKED_TIERS:
        alive.add_metric([tier], sum(one.alive and one.card.tier is tier for one in workers))
    yield alive


def _deliveries(depths: dict[DeliveryState, int]) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "verifier_webhook_deliveries",
        "Webhook deliveries kept, by state, counted up to 100,000",
        labels=["state"],
    )
    for state in (DeliveryState.PENDING, DeliveryState.DELIVERED, DeliveryState.FAILED):
        family.add_metric([state], depths.get(state, 0))
    yield family


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {CONTENT_TYPE_LATEST: {}}}, **documented()},
)
def metrics(caller: Operator, context: InContext) -> Response:  # noqa: ARG001 - the scope is the point
    """Queue depths, counters and waits. Scope `operate`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ServiceCollector(context))
    scraped = generate_latest(registry) + generate_latest(context.hub.times.registry)
    return Response(scraped, media_type=CONTENT_TYPE_LATEST)
