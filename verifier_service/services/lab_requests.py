"""The worklist of a laboratory: what waits on the desk, as a CSV file to fill in and send back."""

from __future__ import annotations

from datetime import UTC, datetime

from verifier_service.domain.digests import canonical_json
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.lab_results import Target
from verifier_service.domain.lab_senders import Sender
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.tabular import csv_text

HEADER = (
    "review",
    "run",
    "trajectory",
    "candidate",
    "quantity",
    "value",
    "unit",
    "sigma",
    "replicate",
    "verdict",
    "reason",
    "deadline",
)


def worklist(
    tx: Transaction, sender: Sender, *, queue: str | None, limit: int, after: str | None = None
) -> str:
    """The oldest waiting checks that a file of the sender may answer, one row each: not those that a
    reviewer has claimed, whose deadline has passed, that several people must approve, or that are about
    what the sender submitted. ``after`` an item: those that follow it."""
    project = sender.key.project
    waiting = tx.lab_results.answerable(project, queue, limit, after=after, person=sender.person)
    bodies = tx.trajectories.bodies([target.pk for target in waiting if target.canonical is None])
    rows = []
    for target in waiting:
        spec = tx.ladders.version(project, target.ladder, target.ladder_version).spec
        candidate = target.canonical
        if candidate is None:
            body = bodies[target.pk]
            found = candidate_of(spec.candidate, body.answer, body.turns)
            candidate = found if isinstance(found, str) else canonical_json(found)
        quantity = ("", "") if spec.quantity is None else (spec.quantity.name, spec.quantity.unit)
        rows.append(_cells(target, candidate, *quantity))
    return csv_text(HEADER, rows)


def _cells(target: Target, candidate: str, quantity: str, unit: str) -> tuple[str, ...]:
    deadline = ""
    if target.deadline is not None:
        deadline = datetime.fromtimestamp(target.deadline, tz=UTC).isoformat(timespec="seconds")
    named = (target.review, target.run, target.trajectory, candidate)
    return (*named, quantity, "", unit, "", "", "", "", deadline)
