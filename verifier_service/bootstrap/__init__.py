"""The only place where the parts meet: ports get their implementations, services get their ports."""

from __future__ import annotations

import random

from scheduler.cost_model import PowerLaw
from scheduler.costs import HourlyTariff
from scheduler.escalation import EscalationPolicy
from scheduler.learned import LearnedBeliefs
from tiers.catalog import VerifierCatalog
from tiers.catalog_sources import Sources
from tiers.drawing import RdkitDrawer
from tiers.harness import ProcessHarness
from tiers.harness_options import HarnessOptions
from verifier_service.bootstrap.market_feed import market_feed
from verifier_service.bootstrap.units import Service
from verifier_service.dispatch.embedded import EmbeddedDispatcher
from verifier_service.dispatch.webhooks import HttpCourier
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.ports.dispatch import Dispatcher
from verifier_service.domain.ports.webhooks import Courier
from verifier_service.domain.runs import Budgets, RunSpec
from verifier_service.domain.webhook_rules import Patience
from verifier_service.domain.webhook_targets import Guard
from verifier_service.meter import Meter
from verifier_service.persistence import migrate
from verifier_service.persistence.engine import create_store
from verifier_service.services import tenants
from verifier_service.settings import Settings
from verifier_service.tracing import tracer

__all__ = ["Service", "build"]

QUICK_POLL_S = 0.05
QUICK_CHILDREN = 2


def build(settings: Settings, dispatcher: Dispatcher | None = None) -> Service:
    """Join the parts for the settings: migrate the database, ship the ladders. ``dispatcher`` is the one of
    a worker that has its own.

    Raises ``InvalidInput`` for a broker without a database that several machines can share.
    """
    url = settings.engine_url()
    if settings.broker_url is not None and url.startswith("sqlite"):
        raise InvalidInput(
            "sqlite_with_broker",
            "workers of other processes share a PostgreSQL database: set VERIFIER_DATABASE_URL",
            field="VERIFIER_BROKER_URL",
        )
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    migrate.upgrade(url)
    catalog = VerifierCatalog(Sources(settings.plugins))
    meter = Meter()
    service = Service(
        settings=settings,
        store=create_store(url, meter.add),
        meter=meter,
        tracer=tracer("verifier-worker" if dispatcher is not None else "verifier-api", on=settings.tracing),
        catalog=catalog,
        dispatcher=dispatcher if dispatcher is not None else _dispatcher(settings),
        policy=EscalationPolicy(),
        beliefs=LearnedBeliefs(catalog.map, learning=settings.learning),
        tariff=HourlyTariff(
            cpu_hour=settings.cpu_hour, gpu_hour=settings.gpu_hour, human_hour=settings.human_hour
        ),
        costs=PowerLaw(),
        harness=lambda: ProcessHarness(catalog, _harness_options(settings)),
        quick_harness=lambda: ProcessHarness(catalog, _quick(_harness_options(settings))),
        courier=_courier(settings),
        drawer=RdkitDrawer(),
        feed=market_feed(settings),
        patience=Patience(
            schedule_s=settings.webhook_schedule_s,
            disable_after_s=settings.webhook_disable_after_s,
            jitter=random.random,
        ),
        defaults=RunSpec(budgets=Budgets(compute=settings.budget_compute, human=settings.budget_human)),
    )
    with service.store.begin() as tx:
        tenants.create_project(tx, catalog, settings.project)
    return service


def _dispatcher(settings: Settings) -> Dispatcher:
    if settings.broker_url is None:
        return EmbeddedDispatcher()
    from verifier_service.dispatch.celery import CeleryDispatcher, celery_app

    return CeleryDispatcher(celery_app(settings.broker_url))


def _courier(settings: Settings) -> Courier:
    try:
        guard = Guard.of(
            plain_http=settings.webhook_http, ports=settings.webhook_ports, allow=settings.webhook_allow
        )
    except ValueError as error:
        raise InvalidInput("bad_setting", str(error), field="VERIFIER_WEBHOOK_ALLOW") from error
    return HttpCourier(guard, timeout_s=settings.webhook_timeout_s, at_once=settings.webhook_at_once)


def _harness_options(settings: Settings) -> HarnessOptions:
    counts = {"fast_children": settings.fast_children, "parallel_children": settings.parallel_children}
    return HarnessOptions(
        beat_s=settings.lease_s / 3,
        plugins=tuple(settings.plugins),
        environment=settings.for_verifiers(),
        overtake_s=settings.overtake_s,
        **{name: count for name, count in counts.items() if count is not None},
    )


def _quick(options: HarnessOptions) -> HarnessOptions:
    """For a batch that somebody waits for: asked often whether it takes too long, and small."""
    return options.model_copy(update={"poll_s": QUICK_POLL_S, "fast_children": QUICK_CHILDREN})
