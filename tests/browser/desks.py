"""Items on the desk for browser tests, made through the real API: trajectories whose ladder asks people."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page

from tests.browser.people import BrowserServer, Person
from tests.support.server import fresh, patience

WAIT_S = 60.0
FORM: dict[str, Any] = {
    "scores": [{"name": "stability", "low": 1, "high": 5, "anchors": {"1": "falls apart", "5": "keeps"}}],
    "measurements": [{"quantity": "yield", "unit": "%"}],
}
_KINDS: dict[str, dict[str, Any]] = {
    "molecule": {"kind": "molecule", "format": "smiles"},
    "json": {"kind": "json", "format": "json"},
    "geometry": {"kind": "geometry", "format": "xyz"},
    "program": {"kind": "program", "format": "source"},
    "text": {"kind": "text", "format": "text"},
}


@dataclass(frozen=True)
class Desk:
    """A queue of its own with the items put on it, by place; trajectories are ``t0``, ``t1``, …"""

    site: BrowserServer
    queue: str
    items: dict[str, str]
    run: str = ""

    @property
    def first(self) -> str:
        """Id of the item that was made first."""
        return next(iter(self.items.values()))

    def path(self, review: str | None = None) -> str:
        """Where an item is worked on."""
        return f"/ui/desk/items/{review or self.first}"

    def read(self, review: str | None = None) -> dict[str, Any]:
        """The item as the API shows it."""
        with self.site.client() as client:
            found: dict[str, Any] = (
                client.get(f"/v1/reviews/{review or self.first}").raise_for_status().json()
            )
        return found

    def until(self, state: str, review: str | None = None) -> dict[str, Any]:
        """Wait for a state."""
        end = time.monotonic() + patience(WAIT_S)
        while (found := self.read(review))["state"] != state:
            assert time.monotonic() < end, found
            time.sleep(0.1)
        return found

    def votes(self, review: str | None = None) -> list[dict[str, Any]]:
        """All that was said of an item."""
        found: list[dict[str, Any]] = self.read(review)["votes"]
        return found


def desk(
    site: BrowserServer,
    *answers: Any,
    kind: str = "molecule",
    tiers: dict[str, Any] | None = None,
    prompt: str = "Design a molecule that keeps.",
    turns: list[dict[str, Any]] | None = None,
    quantity: dict[str, str] | None = None,
    **queue: Any,
) -> Desk:
    """A queue with items, one for each answer."""
    name = f"q-{secrets.token_hex(4)}"
    ladder = {
        "name": fresh("ladder"),
        "candidate": _KINDS[kind],
        "outcome": {"use": "review"},
        "truth": "lab",
        "tiers": {**(tiers or {}), "lab": [{"use": "review", "params": {"queue": name}}]},
    }
    if quantity is not None:
        del ladder["outcome"]
        ladder |= {"quantity": quantity, "utility": {"kind": "linear", "zero": 0.0, "one": 10.0}}
    run = fresh()
    items = [
        {
            "id": f"t{at}",
            "ladder": ladder["name"],
            "problem": {"prompt": prompt, "inputs": {"seed": secrets.token_hex(4)}},
            "turns": turns or [],
            "answer": answer,
        }
        for at, answer in enumerate(answers)
    ]
    with site.client() as client:
        if queue:
            spec = {"name": name, **queue}
            client.put(f"/v1/review-queues/{name}", json=spec).raise_for_status()
        client.put(f"/v1/ladders/{ladder['name']}", json=ladder).raise_for_status()
        body = {"trajectories": items}
        client.post(f"/v1/runs/{run}/trajectories", json=body).raise_for_status()
    return Desk(site, name, waiting(site, name, len(answers)), run)


def waiting(site: BrowserServer, queue: str, count: int) -> dict[str, str]:
    """The items of a queue by their place, once there are so many."""
    end = time.monotonic() + patience(WAIT_S)
    with site.client() as client:
        while True:
            found = client.get("/v1/reviews", params={"queue": queue, "limit": 1_000}).json()["reviews"]
            if len(found) == count:
                return {str(at): item["id"] for at, item in enumerate(found)}
            assert time.monotonic() < end, found
            time.sleep(0.1)


def reviewer(site: BrowserServer, page: Page, path: str = "/ui/desk", role: str = "reviewer") -> Person:
    """Somebody new, signed in, on a page."""
    person = site.newcomer(role)
    site.sign_in(page, person, path)
    return person


def claim(page: Page, made: Desk, review: str | None = None) -> None:
    """Open an item and claim it there."""
    page.goto(f"{made.site.url}{made.path(review)}")
    page.get_by_role("button", name="Claim this item").click()
    page.get_by_role("button", name="Send").and_(page.locator(":enabled")).wait_for()


def api_vote(
    made: Desk, reviewer: str, verdict: str = "accept", review: str | None = None, **more: Any
) -> None:
    """Somebody else claims and votes, through the API."""
    item = review or made.first
    with made.site.client() as client:
        client.post("/v1/reviews/claim", json={"reviewer": reviewer, "review": item}).raise_for_status()
        said = {
            "reviewer": reviewer,
            "verdict": verdict,
            "reason": "" if verdict == "accept" else "no",
            **more,
        }
        client.post(f"/v1/reviews/{item}/decision", json=said).raise_for_status()
