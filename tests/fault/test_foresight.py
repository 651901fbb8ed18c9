"""kill -9 while batches are judged before they are stored: what was answered is there, nothing twice."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.server import JUDGED, Server, start

BATCHES = 24
SIZE = 16


def batch(number: int) -> list[dict[str, Any]]:
    """Items that take a few milliseconds each; every batch shares its first check with the others."""
    answers = [{"do": "sleep", "s": 0.002, "n": 0 if n == 0 else number * SIZE + n} for n in range(SIZE)]
    return [
        {"id": f"t{number}-{n}", "ladder": "hostile", "answer": answer} for n, answer in enumerate(answers)
    ]


def post(server: Server, number: int) -> httpx.Response:
    body = {"trajectories": batch(number), "wait": {"until": "final", "seconds": 30}}
    with server.client() as client:
        return client.post("/v1/runs/r/trajectories", json=body)


@pytest.mark.parametrize("after_s", [0.05, 0.2, 0.5])
def test_answered_batches_survive_kill_9(tmp_path: Path, after_s: float) -> None:
    server = start(tmp_path)
    with server.client() as client:
        client.put("/v1/ladders/hostile", json=JUDGED).raise_for_status()
    assert post(server, 0).status_code == 200  # the child is warm
    answered = [0]

    def drive(first: int) -> None:
        for number in range(first, BATCHES, 3):
            with contextlib.suppress(httpx.HTTPError):
                if post(server, number).status_code == 200:
                    answered.append(number)

    threads = [threading.Thread(target=drive, args=(first,)) for first in (1, 2, 3)]
    for thread in threads:
        thread.start()
    time.sleep(after_s)
    server.kill()
    for thread in threads:
        thread.join()
    server.close()

    restarted = start(tmp_path)
    try:
        ids = [item["id"] for number in answered for item in batch(number)]
        with restarted.client() as client:
            found = client.post("/v1/runs/r/rewards/query", json={"ids": ids}).json()
        assert found["unknown"] == []
        assert [record["reward"] for record in found["records"]] == [1.0] * len(ids)
        for number in range(BATCHES):
            answer = post(restarted, number).json()
            assert [result["reward"]["status"] for result in answer["results"]] == ["final"] * SIZE
    finally:
        restarted.close()
    with sqlite3.connect(tmp_path / "verifier.db") as database:
        made = database.execute("SELECT key, count(*) FROM checks GROUP BY key").fetchall()
        states = database.execute("SELECT DISTINCT state FROM checks").fetchall()
        records = database.execute("SELECT count(*), count(DISTINCT seq), max(seq) FROM rewards").fetchone()
    assert {count for _, count in made} == {1}
    assert len(made) == BATCHES * (SIZE - 1) + 1
    assert states == [("succeeded",)]
    assert records == (BATCHES * SIZE, BATCHES * SIZE, BATCHES * SIZE)
