"""Stories of events: forecasts that wait, files that settle, and sources that are asked."""

from __future__ import annotations

from typing import Any

from tests.support.lab import sent
from tests.support.story import PROJECT, Story
from verifier_service.domain.lab_results import LabImport
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.settlements import Settlement

OPEN, SHUT = "2999-01-01T00:00:00Z", "2001-01-01T00:00:00Z"
HEADER = "event,actual,event_state\n"


def event(id: str = "rain", kind: str = "binary", **fields: Any) -> dict[str, Any]:
    """A task's event that is open for long, unless told otherwise."""
    return {"id": id, "kind": kind, "close": OPEN} | fields


def forecast(name: str, probability: float = 0.8, **fields: Any) -> dict[str, Any]:
    """A trajectory that forecasts a binary event."""
    asked = event(**fields)
    return {
        "id": name,
        "ladder": "forecast",
        "problem": {"inputs": {"event": asked}},
        "answer": {"event": asked["id"], "probability": probability},
    }


def settle(told: Story, actual: str, event: str = "rain", state: str = "", **wanted: Any) -> LabImport:
    """Import one row, and let the sweep tell everybody."""
    done = sent(told, f"{HEADER}{event},{actual},{state}\n", **wanted)
    told.rest()
    return done


def trail(told: Story, event: str | None = None) -> list[Settlement]:
    with told.service.store.read() as tx:
        return tx.settlements.listed(PROJECT, after=0, event=event, limit=1_000)


def why(record: RewardRecord) -> tuple[float | None, str | None]:
    """The reward, and the detail of its reason."""
    return record.reward, None if record.reason is None else record.reason.detail
