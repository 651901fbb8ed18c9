"""Stories of events: forecasts that wait, files that settle, and sources that are asked."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sqlalchemy import text

from tests.contract.samples import alter
from tests.support.lab import sent
from tests.support.story import PROJECT, Story
from verifier_service.bootstrap.market_feed import market_feed
from verifier_service.dispatch.markets import HttpMarketFeed
from verifier_service.domain.lab_results import LabImport
from verifier_service.domain.rewards import RewardRecord
from verifier_service.domain.settlements import Poll, Settlement
from verifier_service.settings import Settings
from verifier_service.worker.markets import MarketPoller

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


@dataclass(eq=False)
class Market:
    """A source of settlements: a real HTTP server that answers what it is told to, and counts."""

    answers: dict[str, Any] = field(default_factory=dict)  # by event: a document, bytes, or a status
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    delay_s: float = 0.0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/events/{{event}}"

    def source(self, **declared: Any) -> dict[str, Any]:
        """It as an operator declares it."""
        words = {"state": "/state", "open": ["open"], "settled": ["done"], "void": ["void"]}
        return {"url": self.url, "value": "/result/0/value", "interval_s": 1.0, **words, **declared}

    def count(self, event: str) -> int:
        return sum(path.endswith(f"/{event}") for path, _ in self.asked)


@contextmanager
def market() -> Iterator[Market]:
    """A market that listens on loopback."""
    made = Market()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append((self.path, {name.lower(): one for name, one in self.headers.items()}))
            time.sleep(made.delay_s)
            said = made.answers.get(self.path.rpartition("/")[2], 404)
            status = said if isinstance(said, int) else 200
            body = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = listening.server_port
    thread = threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        listening.shutdown()
        listening.server_close()


def done(value: Any) -> dict[str, Any]:
    """A settled event, as the market says it."""
    return {"state": "done", "result": [{"value": value}]}


def feed_of(allow: tuple[str, ...] = ("127.0.0.0/8",), **sources: dict[str, Any]) -> HttpMarketFeed:
    """A feed over declared sources, which may be on loopback."""
    settings = Settings(market_sources=json.dumps(sources), market_http=True, market_allow=allow)
    return market_feed(settings, {"MARKET_KEY": "secret"})


def poll(event: str = "rain", source: str = "m", failures: int = 0) -> Poll:
    return Poll(1, PROJECT, source, event, failures)


def polling(told: Story, feed: HttpMarketFeed) -> MarketPoller:
    """The story with sources; what asks them, when it is told to."""
    told.service = replace(told.service, feed=feed)
    return MarketPoller(told.service)


def hurry(told: Story) -> None:
    """Move every poll to now; only tests do this."""
    alter(told.service.store, "UPDATE event_polls SET next_at = 1.0")


def polls(told: Story) -> list[Any]:
    """What is to be asked: event, failures, error."""
    with told.service.store.begin() as tx:
        rows = tx._database.connection.execute(
            text("SELECT event, failures, error, next_at FROM event_polls ORDER BY pk")
        )
        return list(rows)
