"""A server that is killed while it takes evidence back goes on where it was."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from tests.support import server
from tests.support.server import Server, act, patience, submit

COUNT = 1_100
WANTED = {"verifier": "hostile", "reason": "it was wrong", "id": "one"}


def watched(http: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = http.get("/v1/retractions/one").raise_for_status().json()
    return found


def until(http: httpx.Client, state: str) -> dict[str, Any]:
    """The retraction as soon as some of it is done, or all."""
    end = time.monotonic() + patience(40)
    while True:
        found = watched(http)
        if found["state"] == "done" or (state == "begun" and found["done"] > 0):
            return found
        assert time.monotonic() < end, found
        time.sleep(0.01)


def feed(http: httpx.Client, run: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    while page := http.get(f"/v1/runs/{run}/rewards", params={"after": len(records)}).json()["records"]:
        records += page
    return records


def killed(running: Server) -> Server:
    running.kill()
    running.close()
    return server.start(running.data)


def test_a_killed_server_goes_on_and_issues_one_record_each(tmp_path: Path) -> None:
    running = server.start(tmp_path)
    try:
        with running.client() as http:
            http.put(f"/v1/ladders/{server.JUDGED['name']}", json=server.JUDGED).raise_for_status()
            submit(http, "r", *(act("ok", n=n) for n in range(COUNT)), seconds=60.0)
            before = len(feed(http, "r"))
            http.post("/v1/retractions", json=WANTED).raise_for_status()
            seen = [until(http, "begun")]
        for _ in range(2):
            running = killed(running)
            with running.client() as http:
                seen.append(watched(http))
                if seen[-1]["state"] != "done":
                    seen.append(until(http, "begun"))
        with running.client() as http:
            done = until(http, "done")
            records = feed(http, "r")
        assert (done["checks"], done["trajectories"], done["done"], done["records"]) == (COUNT,) * 4
        assert [one["done"] for one in seen] == sorted(one["done"] for one in seen)
        assert [one["seq"] for one in records] == list(range(1, len(records) + 1))
        new = Counter((one["trajectory"], one["status"]) for one in records[before:])
        assert len(new) == COUNT
        assert set(new.values()) == {1}
        assert {status for _, status in new} == {"retracted"}
    finally:
        running.close()
