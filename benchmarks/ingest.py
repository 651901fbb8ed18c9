"""What a trajectory costs from HTTP to a final record, against doing only the chemistry.

    python -m benchmarks.ingest [--count 4096] [--sizes 64 256 1024]

In one run, for the same molecules (RDKit's shipped NCI set) and the same bodies (5 turns, about
2.8 kB each):

* ``rdkit``    raw calls in this process: parse, canonical SMILES, InChIKey;
* ``trivial``  FastAPI with a pydantic body model and a scorer that parses the SMILES, nothing stored;
* ``service``  `verifier serve`: identify, two gates, identity against a reference, two process checks,
               everything persisted, a final record for each trajectory.

CPU is read from the operating system for the server process and its children apart; the verifiers' own
time is what the service measured and charged. ``beyond`` = server + children - verifiers: the price of
the service itself.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil

LADDER: dict[str, Any] = {
    "name": "ingest",
    "candidate": {"kind": "molecule", "format": "smiles", "from": "answer"},
    "outcome": {"use": "molecule.identity"},
    "truth": "fast",
    "process": {"weight": 0.2, "checks": [{"use": "turns.tool_calls"}, {"use": "turns.errors"}]},
    "tiers": {
        "fast": [
            {"use": "molecule.validity", "gate": "hard"},
            {"use": "molecule.plausibility", "gate": "soft"},
            {"use": "molecule.identity"},
        ]
    },
}
CPU_HOUR_CREDITS = 0.05
TRIVIAL = """
import fastapi, pydantic
from rdkit import Chem, rdBase
rdBase.DisableLog("rdApp.*")
app = fastapi.FastAPI()
class Item(pydantic.BaseModel):
    id: str; ladder: str; group: str; group_size: int; problem: dict; turns: list[dict]; answer: str
class Batch(pydantic.BaseModel):
    trajectories: list[Item]
@app.post("/score")
def score(batch: Batch):
    return {"rewards": [float(Chem.MolFromSmiles(t.answer) is not None) for t in batch.trajectories]}
"""


class Figures(NamedTuple):
    """CPU seconds of the server and of its children, and wall seconds."""

    server: float
    children: float
    wall: float


def molecules(count: int) -> list[str]:
    """Single-fragment SMILES of the NCI set, repeated in other atom orders when it runs out."""
    from rdkit import Chem, RDConfig, rdBase

    rdBase.DisableLog("rdApp.*")
    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text().split("\n")
    found = [line.split()[0] for line in lines if line.strip() and "." not in line.split()[0]]
    readable = [smiles for smiles in found if Chem.MolFromSmiles(smiles) is not None]
    while len(readable) < count:
        readable += [Chem.MolToSmiles(Chem.MolFromSmiles(s), doRandom=True) for s in readable]
    return readable[:count]


def trajectory(index: int, smiles: str, tag: str) -> dict[str, Any]:
    """One submission with 5 turns of a tool call and its observation."""
    turns = [
        {
            "message": f"Step {turn}: I look the candidate up and compare its gap. " * 3,
            "calls": [
                {
                    "id": f"c{turn}",
                    "name": "lookup",
                    "arguments": json.dumps({"q": f"{tag} {index} {turn}"}),
                }
            ],
            "observations": [{"call": f"c{turn}", "text": f"entry {index}: gap 4.{turn} eV. " * 12}],
        }
        for turn in range(5)
    ]
    return {
        "id": f"{tag}-{index}",
        "ladder": "ingest",
        "group": f"{tag}-{index // 8}",
        "group_size": 8,
        "problem": {"prompt": "Propose the molecule.", "reference": {"smiles": smiles}},
        "turns": turns,
        "answer": smiles,
    }


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
def server(command: list[str], folder: Path, url: str) -> Iterator[psutil.Process]:
    """A server process, ready."""
    environment = os.environ | {"VERIFIER_DATA": str(folder), "OMP_NUM_THREADS": "1"}
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


def trivial(smiles: list[str], size: int, port: int, folder: Path) -> Figures:
    """The baseline server."""
    (folder / "trivial_app.py").write_text(TRIVIAL)
    url = f"http://127.0.0.1:{port}"
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "trivial_app:app",
        "--port",
        str(port),
        "--log-level",
        "error",
    ]
    with server(command, folder, url) as process, httpx.Client(base_url=url, timeout=120) as http:
        items = [trajectory(index, text, "t") for index, text in enumerate(smiles)]
        batches = [{"trajectories": items[at : at + size]} for at in range(0, len(items), size)]
        http.post("/score", json=batches[0])
        return drive(process, lambda batch: http.post("/score", json=batch).raise_for_status(), batches)


def service(
    smiles: list[str], sizes: list[int], port: int, folder: Path
) -> Iterator[tuple[int, Figures, float]]:
    """Our server, for each batch size: figures and the verifiers' own CPU seconds."""
    url = f"http://127.0.0.1:{port}"
    command = [
        sys.executable,
        "-m",
        "verifier_service.cli",
        "serve",
        "--port",
        str(port),
        "--data",
        str(folder),
    ]
    with server(command, folder, url) as process:
        key = (folder / "admin.key").read_text().strip()
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=url, timeout=300, headers=headers) as http:
            http.put("/v1/ladders/ingest", json=LADDER).raise_for_status()

            def post(run: str, batch: Any) -> None:
                body = {"trajectories": batch, "wait": {"until": "final", "seconds": 120}}
                answer = http.post(f"/v1/runs/{run}/trajectories", json=body).raise_for_status().json()
                if not answer["complete"]:
                    raise SystemExit("a batch was not complete within 120 s")

            post("warm", [trajectory(0, smiles[0], "warm")])
            for size in sizes:
                run = f"size-{size}"
                # Other spellings of the same molecules per size, or the second size would find its
                # checks done.
                items = [trajectory(index, text, run) for index, text in enumerate(respelt(smiles, size))]
                batches = [items[at : at + size] for at in range(0, len(items), size)]
                http.put(f"/v1/runs/{run}", json={}).raise_for_status()
                figures = drive(process, lambda batch, run=run: post(run, batch), batches)
                report = http.get(f"/v1/runs/{run}").raise_for_status().json()
                credits = sum(tier["credits"] for tier in report["tiers"])
                yield size, figures, credits / CPU_HOUR_CREDITS * 3600


def respelt(smiles: list[str], size: int) -> list[str]:
    """Molecules that no other size has seen: one more carbon chain per size on every molecule."""
    from rdkit import Chem

    tail = "C" * (1 + size.bit_length() % 7)
    found = []
    for text in smiles:
        longer = f"{tail}{text}"
        found.append(longer if Chem.MolFromSmiles(longer) is not None else text)
    return found


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=4096)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--port", type=int, default=8471)
    arguments = parser.parse_args()
    smiles = molecules(arguments.count)
    count = len(smiles)
    bare = raw_rdkit(smiles)
    print(f"{count} molecules; rdkit parse + canonical + InChIKey: {bare:.0f} us CPU each")
    heads = "".join(f"{head:>10}" for head in ("traj/s", "server", "children", "verifiers", "beyond"))
    print(f"{'us CPU per trajectory':26}{heads}")
    with tempfile.TemporaryDirectory() as folder:
        for size in arguments.sizes:
            figures = trivial(smiles, size, arguments.port + 1, Path(folder))
            row("trivial", size, count, figures, None)
    with tempfile.TemporaryDirectory() as folder:
        for size, figures, own in service(smiles, arguments.sizes, arguments.port, Path(folder)):
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
