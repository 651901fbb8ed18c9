"""Does fitting models make submissions wait?

    python -m benchmarks.refits [--known 1500] [--seconds 60]

`verifier serve` with a ladder of three levels whose models are fitted in the same process. After ``known``
trajectories have reached their truth, batches of 16 are submitted one after the other for a while, each
waiting for the fast tier, and their checks go on to the truth behind them, so that models are fitted
all the time. Beside it the same with ``VERIFIER_LEARNING=false``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.ingest import server
from benchmarks.two_levels import LADDER

BATCH = 16
FILL = 128


def main() -> None:
    """Print a line without and a line with learning."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--known", type=int, default=1_500)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--port", type=int, default=8477)
    chosen = parser.parse_args()
    print(f"{'ms per batch of 16':22}{'batches':>9}{'p50':>8}{'p90':>8}{'p99':>8}{'max':>8}{'models':>8}")
    for learning in ("false", "true"):
        with tempfile.TemporaryDirectory() as folder:
            print(row(learning, chosen.known, chosen.seconds, chosen.port, Path(folder)), flush=True)


def row(learning: str, known: int, seconds: float, port: int, folder: Path) -> str:
    """Fill, then measure."""
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "verifier_service.cli", "serve", "--port", str(port)]
    more = {"VERIFIER_PLUGINS": '["benchmarks.two_levels"]', "VERIFIER_LEARNING": learning}
    with server([*command, "--data", str(folder)], folder, url, **more):
        key = (folder / "admin.key").read_text().strip()
        with httpx.Client(base_url=url, timeout=300, headers={"Authorization": f"Bearer {key}"}) as http:
            http.put(f"/v1/ladders/{LADDER['name']}", json=LADDER).raise_for_status()
            # Everything goes to the truth by lot, so that both have the same to do.
            http.put("/v1/runs/r", json={"audit_share": 1.0}).raise_for_status()
            for batch in batches("fill", known, FILL):
                submit(http, batch, "final")
            before, took = models(http), list[float]()
            until = time.monotonic() + seconds
            for batch in batches("timed", 10**6, BATCH):
                began = time.perf_counter()
                submit(http, batch, "fast")
                took.append(1e3 * (time.perf_counter() - began))
                if time.monotonic() > until:
                    break
            p50, p90, p99 = np.quantile(took, [0.5, 0.9, 0.99])
            made = models(http) - before
    name = "with learning" if learning == "true" else "without"
    return f"{name:22}{len(took):>9}{p50:>8.1f}{p90:>8.1f}{p99:>8.1f}{max(took):>8.1f}{made:>8}"


def batches(tag: str, count: int, size: int) -> Iterator[list[dict[str, Any]]]:
    """Submissions with new answers."""
    for start in range(0, count, size):
        places = range(start, min(start + size, count))
        yield [{"id": f"{tag}{at}", "ladder": LADDER["name"], "answer": f"{tag} {at}"} for at in places]


def submit(http: httpx.Client, batch: list[dict[str, Any]], until: str) -> None:
    """One request that waits."""
    body = {"trajectories": batch, "wait": {"until": until, "seconds": 120}}
    answer = http.post("/v1/runs/r/trajectories", json=body).raise_for_status().json()
    if not answer["complete"]:
        raise SystemExit(f"a batch did not reach {until}: {answer['results'][0]}")


def models(http: httpx.Client) -> int:
    """How many were fitted so far."""
    found = http.get("/v1/models").raise_for_status().json()["models"]
    return max((one["number"] for one in found), default=0)


if __name__ == "__main__":
    main()
