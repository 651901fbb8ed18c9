"""What a trajectory costs from HTTP to a final record, against doing only the scoring.

    python -m benchmarks.ingest [--ladder full] [--count 4096] [--sizes 64 256 1024] [--without INDEX ...]

In one run, for the same bodies:

* ``rdkit``    raw calls in this process: parse, canonical SMILES, InChIKey (where it is about molecules);
* ``trivial``  FastAPI with a pydantic body model and a scorer that does next to nothing, nothing stored;
* ``service``  `verifier serve`: the ladder's checks, everything persisted, a final record for each
               trajectory.

Ladders: ``full`` (5 turns, about 2.8 kB, six checks), ``molecule-identity`` (two checks, no turns),
``math`` (one check, integers) and ``one-check`` (one check that compares two texts), both without turns.

CPU is read from the operating system for the server process and its children apart; the verifiers' own
time is what the service measured and charged. ``beyond`` = server + children - verifiers: the price of
the service itself. ``--without`` drops indexes of the database first: run beside a run that has them, it
tells what they cost.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil

from benchmarks.ingest_scenarios import SCENARIOS, Scenario, longer_molecules, molecules

CPU_HOUR_CREDITS = 0.05
TRIVIAL = """
import fastapi, pydantic
app = fastapi.FastAPI()
class Item(pydantic.BaseModel):
    id: str; ladder: str; group: str; group_size: int; problem: dict; turns: list[dict]; answer: str
class Batch(pydantic.BaseModel):
    trajectories: list[Item]
@app.post("/score")
def score(batch: Batch):
    return {"rewards": [float(len(t.answer) > 3) for t in batch.trajectories]}
"""


class Figures(NamedTuple):
    """CPU seconds of the server and of its children, and wall seconds."""

    server: float
    children: float
    wall: float


def raw_rdkit(smiles: list[str]) -> float:
    """CPU microseconds per molecule of the bare calls."""
    from rdkit import Chem

    started = time.process_time()
    for text in smiles:
        molecule = Chem.MolFromSmiles(text)
        Chem.MolToSmiles(molecule)
        Chem.MolToInchiKey(molecule)
    return (time.process_time() - started) / len(smiles) * 1e6


@contextlib.contextmanager
def server(command: list[str], folder: Path, url: str, **more: str) -> Iterator[psutil.Process]:
    """A server process, ready. ``more``: of its environment."""
    environment = os.environ | {
        "VERIFIER_DATA": str(folder),
        "VERIFIER_PLUGINS": '["benchmarks.one_check"]',
        "VERIFIER_LOG_LEVEL": "warning",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(__file__).parent.parent),
        **more,
    }
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(f"{url}/", timeout=1)
                break
            time.sleep(0.1)
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def cpu(process: psutil.Process) -> tuple[float, float]:
    """CPU seconds of a process, and of its living children."""
    own = sum(process.cpu_times()[:2])
    below = 0.0
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            below += sum(child.cpu_times()[:2])
    return own, below


def drive(process: psutil.Process, post: Any, batches: list[Any]) -> Figures:
    """Post every batch, one after the other, and read the CPU that took."""
    before, started = cpu(process), time.perf_counter()
    for batch in batches:
        post(batch)
    after, wall = cpu(process), time.perf_counter() - started
    return Figures(after[0] - before[0], after[1] - before[1], wall)


def trivial(scenario: Scenario, count: int, size: int, port: int, folder: Path) -> Figures:
    """The baseline server."""
    (folder / "trivial_app.py").write_text(TRIVIAL)
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "uvicorn", "trivial_app:app", "--port", str(port)]
    command += ["--log-level", "error"]
    with server(command, folder, url) as process, httpx.Client(base_url=url, timeout=120) as http:
        batches = [{"trajectories": batch} for batch in batched(scenario, count, size, "t")]
        http.post("/score", json=batches[0])
        return drive(process, lambda batch: http.post("/score", json=batch).raise_for_status(), batches)


def batched(scenario: Scenario, count: int, size: int, tag: str) -> list[list[dict[str, Any]]]:
    """The scenario's submissions in batches."""
    items = [scenario.item(index, text, tag) for index, text in enumerate(scenario.texts(count, tag))]
    return [items[at : at + size] for at in range(0, count, size)]


def service(
    scenario: Scenario, count: int, sizes: list[int], port: int, folder: Path, without: list[str]
) -> Iterator[tuple[int, Figures, float]]:
    """Our server, for each batch size: figures and the verifiers' own CPU seconds."""
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "verifier_service.cli", "serve"]
    command += ["--port", str(port), "--data", str(folder)]
    with server(command, folder, url) as process:
        key = (folder / "admin.key").read_text().strip()
        headers = {"Authorization": f"Bearer {key}"}
        with contextlib.closing(sqlite3.connect(folder / "verifier.db")) as connection:
            for index in without:
                connection.execute(f"DROP INDEX {index}")
        with httpx.Client(base_url=url, timeout=300, headers=headers) as http:
            if scenario.ladder is not None:
                http.put(f"/v1/ladders/{scenario.ladder['name']}", json=scenario.ladder).raise_for_status()

            def post(run: str, batch: Any) -> None:
                body = {"trajectories": batch, "wait": {"until": "final", "seconds": 120}}
                answer = http.post(f"/v1/runs/{run}/trajectories", json=body).raise_for_status().json()
                rewards = [result["reward"] for result in answer["results"]]
                if not all(reward and reward["status"] == "final" for reward in rewards):
                    raise SystemExit(f"a batch was not complete within 120 s: {answer['results'][0]}")

            post("warm", batched(scenario, 1, 1, "warm")[0])
            for size in sizes:
                # Other answers per size, or the second size would find its checks done.
                run = f"size-{size}"
                batches = batched(scenario, count, size, run)
                http.put(f"/v1/runs/{run}", json={}).raise_for_status()
                figures = drive(process, lambda batch, run=run: post(run, batch), batches)
                report = http.get(f"/v1/runs/{run}").raise_for_status().json()
                credits = sum(tier["credits"] for tier in report["tiers"])
                yield size, figures, credits / CPU_HOUR_CREDITS * 3600


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ladder", choices=list(SCENARIOS), default="full")
    parser.add_argument("--count", type=int, default=4096)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--without", nargs="*", default=[], metavar="INDEX")
    parser.add_argument("--port", type=int, default=8471)
    arguments = parser.parse_args()
    scenario, count = SCENARIOS[arguments.ladder], arguments.count
    print(f"{scenario.name}: {count} trajectories; checks: {scenario.checks}")
    if scenario.texts is longer_molecules:
        print(f"rdkit parse + canonical + InChIKey: {raw_rdkit(molecules(count)):.0f} us CPU each")
    heads = "".join(f"{head:>10}" for head in ("traj/s", "server", "children", "verifiers", "beyond"))
    print(f"{'us CPU per trajectory':26}{heads}")
    with tempfile.TemporaryDirectory() as folder:
        for size in arguments.sizes:
            figures = trivial(scenario, count, size, arguments.port + 1, Path(folder))
            row("trivial", size, count, figures, None)
    with tempfile.TemporaryDirectory() as folder:
        measured = service(
            scenario, count, arguments.sizes, arguments.port, Path(folder), arguments.without
        )
        for size, figures, own in measured:
            row("service", size, count, figures, own)


def row(name: str, size: int, count: int, figures: Figures, own: float | None) -> None:
    """One line of the table."""
    each = 1e6 / count
    verifiers = "" if own is None else f"{own * each:.0f}"
    beyond = "" if own is None else f"{(figures.server + figures.children - own) * each:.0f}"
    cells = (
        f"{count / figures.wall:.0f}",
        f"{figures.server * each:.0f}",
        f"{figures.children * each:.0f}",
    )
    print(
        f"{name + f' batches of {size}':26}"
        + "".join(f"{cell:>10}" for cell in (*cells, verifiers, beyond))
    )


if __name__ == "__main__":
    main()
