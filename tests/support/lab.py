"""Stories in which a laboratory answers: files as they are sent, and what comes of them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

from tests.support.story import LADDER, PROJECT, Story
from verifier_service.bootstrap.lab_results import import_lab_results
from verifier_service.domain.lab_results import LabImport, LabVersion, NewLabResults, Target
from verifier_service.domain.lab_senders import Sender
from verifier_service.domain.runs import Key
from verifier_service.lab_files.sheets import sheet_of
from verifier_service.services.lab_requests import worklist

GOOD = ("CCCCCCCCCC", "CCCCCCCCCO", "CCCCCCCCOC", "CCCCCCCOCC", "CCCCCCOCCC", "CCCCCOCCCC", "CCCCOCCCCC")
QUANTITY = "carbons@test"
HEADER = "run,trajectory,quantity,value,unit,sigma\n"
LAB = Key(
    id="k", project=PROJECT, name="lab", scopes=frozenset(), created_at=datetime(2026, 1, 1, tzinfo=UTC)
)

JUDGE = Sender(LAB, judges=True, settles=True)


def request(content: str | bytes | None = None, name: str = "results.csv", **wanted: Any) -> NewLabResults:
    """A request with a file, or with whatever else is ``wanted``."""
    if content is not None:
        raw = content.encode() if isinstance(content, str) else content
        wanted["file"] = {"name": name, "content": base64.b64encode(raw).decode()}
    return NewLabResults.model_validate(wanted)


def measured(value: str, trajectory: str = "t0", sigma: str = "0.1", quantity: str = QUANTITY) -> str:
    """A file with one measurement."""
    return f"{HEADER}r,{trajectory},{quantity},{value},1,{sigma}\n"


def approved_by(told: Story, approvals: int) -> None:
    """From now on so many people must approve each item."""
    lab = [{"use": "review", "params": {"queue": "chemists", "approvals": approvals}}]
    told.put_ladder(LADDER | {"tiers": LADDER["tiers"] | {"lab": lab}})


def sent(
    told: Story,
    content: str | bytes | None = None,
    name: str = "results.csv",
    sender: Sender = JUDGE,
    **wanted: Any,
) -> LabImport:
    """Import as the route does."""
    one = request(content, name, **wanted)
    return import_lab_results(told.service, one, sheet_of(one), sender)


def wait_at_lab(told: Story, count: int = 1, run: str = "r", **fields: Any) -> dict[str, str]:
    """Submit molecules and let them climb until they wait at the lab; reviews by trajectory."""
    items = [{"id": f"t{at}", "answer": GOOD[at], **fields} for at in range(count)]
    told.submit(run, *items)
    told.rest()
    reviews = {target.trajectory: target.review for target in waiting(told) if target.run == run}
    assert reviews.keys() == {str(item["id"]) for item in items}
    return reviews


def waiting(told: Story) -> list[Target]:
    with told.service.store.read() as tx:
        return tx.lab_results.waiting(PROJECT, None, 1_000)


def versions(told: Story, check: str) -> list[LabVersion]:
    with told.service.store.read() as tx:
        return tx.lab_results.versions(PROJECT, check, 100)


def requested(told: Story, limit: int = 1_000, **more: Any) -> str:
    with told.service.store.read() as tx:
        return worklist(tx, JUDGE, queue=None, limit=limit, **more)


def codes(done: LabImport) -> dict[int, list[tuple[str, str | None, float | None]]]:
    """(code, column, limit) of every error, by line."""
    return {
        row.line: [(error.code, error.column, error.limit) for error in row.errors]
        for row in done.rows
        if row.errors
    }


def statuses(done: LabImport) -> dict[int, str]:
    return {row.line: row.status.value for row in done.rows}
