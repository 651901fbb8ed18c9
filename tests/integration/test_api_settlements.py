"""A running server that asks a market, is killed, and goes on; the trail over HTTP, client and commands."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support import server
from tests.support.markets import Market, done, forecast, market
from tests.support.server import Server, patience
from verifier_service.cli.application import app
from verifier_service.client import Client

LADDER: dict[str, Any] = {
    "name": "asked",
    "candidate": {"kind": "forecast", "format": "json", "from": "answer"},
    "outcome": {"use": "market.settlement"},
    "truth": "lab",
    "tiers": {"lab": [{"use": "market.settlement", "params": {"source": "exchange"}}]},
}


def item(name: str, close: float, chance: float = 0.8) -> dict[str, Any]:
    moment = datetime.fromtimestamp(close, tz=UTC).isoformat()
    return forecast(name, chance, close=moment) | {"ladder": "asked"}


def until(met: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + patience(seconds)
    while not met():
        assert time.monotonic() < end
        time.sleep(0.1)


def settings(there: Market) -> dict[str, str]:
    declared = {"exchange": there.source(header="Authorization", header_from="VERIFIER_DATA")}
    return {
        "market_sources": json.dumps(declared),
        "market_http": "true",
        "market_allow": "127.0.0.1",
        "tick_s": "0.05",
    }


def test_a_market_settles_what_waits_though_the_server_died(tmp_path: Path) -> None:
    with market() as there:
        there.answers["rain"] = {"state": "open"}
        running = server.start(tmp_path, **settings(there))
        try:
            close = _wait(running, there)
            running.kill()
            asked = there.count("rain")
            there.answers["rain"] = done("yes")
            running.close()
            running = server.start(tmp_path, **settings(there))
            _settled(running, close)
            assert there.count("rain") > asked
            settled = there.count("rain")
            time.sleep(2.5)
            assert there.count("rain") == settled
            assert there.asked[0][1]["authorization"] == str(tmp_path)
            _told(running)
        finally:
            running.close()


def _wait(running: Server, there: Market) -> float:
    """Submit in time; returns when the source was asked, after the close."""
    with running.client() as http, Client(running.url, running.key) as client:
        http.put("/v1/ladders/asked", json=LADDER).raise_for_status()
        close = time.time() + patience(4.0)
        client.submit("r", [item("a", close), item("b", close, 0.3)])
        client.submit("q", [item("a", close)])
        until(lambda: there.count("rain") >= 2)
        assert time.time() >= close
        assert client.rewards("r").records == () or client.rewards("r").records[-1].reward is None
    return close


def _settled(running: Server, close: float) -> None:
    with Client(running.url, running.key) as client:
        client.submit("q", [item("late", close)])

        def rewards() -> dict[tuple[str, str], Any]:
            found = [one for run in ("r", "q") for one in client.rewards(run).records]
            return {(one.run, one.trajectory): one for one in found}

        until(lambda: sum(one.reward is not None for one in rewards().values()) == 3)
        until(lambda: rewards()["q", "late"].reason.detail == "registered_late")
        worth = {place: one.reward for place, one in rewards().items()}
    assert worth == {
        ("r", "a"): pytest.approx(0.96),
        ("r", "b"): pytest.approx(0.51),
        ("q", "a"): pytest.approx(0.96),
        ("q", "late"): None,
    }


def _told(running: Server) -> None:
    with running.client() as http, Client(running.url, running.key) as client:
        client.import_lab_results(b"event,actual\nrain,no\nsnow,1\n", by="ann")
        found = client.settlements()
        assert [(one.event, one.version, one.actual, one.source, one.by) for one in found.settlements] == [
            ("rain", 1, "yes", "exchange", None),
            ("rain", 2, "no", "import", "ann"),
            ("snow", 1, "1", "import", "ann"),
        ]
        first = client.settlements(limit=1)
        assert client.settlements(after=first.next, event="rain").settlements == (found.settlements[1],)
        assert client.settlements(after=found.next).next == found.next
        assert http.get("/v1/settlements", params={"event": "../x"}).status_code == 422
        assert http.get("/v1/settlements", params={"after": -1}).status_code == 422
        until(lambda: any(one.reward == pytest.approx(0.36) for one in client.rewards("r").records))
    environment = {"VERIFIER_URL": running.url, "VERIFIER_API_KEY": running.key, "COLUMNS": "120"}
    shown = CliRunner().invoke(app, ["settlements", "--limit", "2"], env=environment)
    assert shown.exit_code == 0, shown.output
    assert "exchange" in shown.stdout
    lines = CliRunner().invoke(app, ["settlements", "--event", "snow", "--json"], env=environment).stdout
    assert json.loads(lines)["number"] == 1.0
