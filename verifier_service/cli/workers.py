"""``verifier workers``: who works, and on what."""

from __future__ import annotations

from datetime import UTC, datetime

from verifier_service.cli.connection import connect
from verifier_service.cli.screen import AsJson, dump_all, say, table
from verifier_service.domain.resources import Offer
from verifier_service.domain.workers import Worker

COLUMNS = (
    "worker",
    "tier",
    "state",
    "seen",
    "resources",
    "verifiers",
    "works on",
    "done",
    "failed",
    "rejected",
)


def workers(as_json: AsJson = False) -> None:
    """Workers of every machine: alive or not, resources, current checks, what they have done."""
    with connect() as client:
        found = client.workers()
    if as_json:
        dump_all(found)
        return
    table("", COLUMNS, (_line(one) for one in found))
    for one in found:
        for lacking in (here for here in one.card.verifiers if here.lacking and one.alive):
            say(f"{one.card.id} does not run {lacking.name} {lacking.version}: {lacking.lacking}")


def _line(one: Worker) -> tuple[object, ...]:
    return (
        one.card.id,
        one.card.tier,
        one.state,
        f"{one.silent_s:.0f} s ago",
        _resources(one.card.resources),
        len(one.card.runs()),
        ", ".join(f"{work.checks} × {work.verifier} for {_since(work.since)}" for work in one.current),
        one.done,
        one.failed,
        one.rejected,
    )


def _resources(offer: Offer) -> str:
    gpus = f", {offer.gpus} GPU" if offer.gpus else ""
    tags = f", {' '.join(offer.tags)}" if offer.tags else ""
    return f"{offer.cpus:g} cores, {offer.memory_mb / 1024:.1f} GiB{gpus}{tags}"


def _since(moment: datetime) -> str:
    seconds = max(0.0, (datetime.now(UTC) - moment).total_seconds())
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
