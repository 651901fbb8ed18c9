"""The demo's molecules with a quarter of the money: how much of the group advantages is left?

    python -m benchmarks.live_quarter [--share 0.25] [--groups 12] [--out FILE]

Runs the real service with real calculations: once everything at high fidelity, then the shipped ladder with
``share`` of what that cost, then GFN2-xTB with its map alone. Prints, over the valid candidates whose
outcome at the top lies strictly between 0 and 1, the correlation of their group advantages (reward minus
the mean of the group's valid members) with those at the top, and what was spent. ``--out`` keeps every
candidate's outcomes. Minutes to half an hour.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from verifier_service.cli.demo import recorded
from verifier_service.cli.demo_server import running
from verifier_service.client import Client, Wait
from verifier_service.domain.rewards import RewardRecord

SHIPPED = Path(__file__).parent.parent / "tiers" / "ladders" / "organic-gap.json"


def ladder(name: str, tiers: list[str], truth: str) -> dict[str, Any]:
    """The shipped ladder with some of its tiers; nobody waits for people."""
    document: dict[str, Any] = json.loads(SHIPPED.read_text())
    kept = {tier: document["tiers"][tier] for tier in tiers}
    return document | {
        "name": name,
        "truth": truth,
        "tiers": kept,
        "process": {"weight": 0.0, "checks": []},
    }


def play(
    client: Client, run: str, spec: dict[str, Any], document: dict[str, Any], lines: list[dict[str, Any]]
) -> tuple[dict[str, RewardRecord], float]:
    """Submit group by group and wait until the run is closed; records and credits spent."""
    client.put_ladder(document["name"], document)
    client.put_run(run, spec)
    began, ids = time.monotonic(), []
    for start in range(0, len(lines), 8):
        batch = [{**line, "ladder": document["name"]} for line in lines[start : start + 8]]
        ids += [line["id"] for line in batch]
        client.submit(run, batch, wait=Wait("high_fidelity", 110))
        print(f"{run}: {len(ids)}/{len(lines)}, {time.monotonic() - began:.0f} s", flush=True)
    while not client.query(run, ids, wait=Wait("high_fidelity", 110)).complete:
        print(f"{run}: waiting, {time.monotonic() - began:.0f} s", flush=True)
    records = {record.trajectory: record for record in client.query(run, ids).records}
    [compute] = [one for one in client.run(run).run.accounts if one.kind == "compute"]
    return records, compute.spent


def advantages(
    records: dict[str, RewardRecord], lines: list[dict[str, Any]], valid: set[str]
) -> np.ndarray:
    """Reward minus the mean of the group's valid members, in the order of the lines."""
    groups: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        if line["id"] in valid:
            groups[line["group"]].append(records[line["id"]].outcome or 0.0)
    means = {group: sum(values) / len(values) for group, values in groups.items()}
    rows = [line for line in lines if line["id"] in valid]
    return np.array([(records[line["id"]].outcome or 0.0) - means[line["group"]] for line in rows])


@contextmanager
def service() -> Iterator[Client]:
    """A new service in a folder of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), None) as started,
        Client(started.url, started.key, retry_s=20.0) as client,
    ):
        yield client


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--groups", type=int, default=12)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    unique = {line["id"]: line for line in recorded(arguments.groups) if line.get("answer") is not None}
    lines = list(unique.values())
    top = ladder("top", ["fast", "high_fidelity"], "high_fidelity")
    cheap = ladder("cheap", ["fast", "simulation"], "simulation")
    whole = ladder("whole", ["fast", "simulation", "high_fidelity"], "high_fidelity")
    found: dict[str, dict[str, RewardRecord]] = {}
    spent: dict[str, float] = {}
    with service() as client:
        found["top"], spent["top"] = play(client, "top", {}, top, lines)
    budget = arguments.share * spent["top"]
    spec = {"budgets": {"compute": budget}, "horizon": {"trajectories": len(lines)}}
    with service() as client:
        found["quarter"], spent["quarter"] = play(client, "quarter", spec, whole, lines)
        found["cheap"], spent["cheap"] = play(client, "cheap", {}, cheap, lines)
    valid = {
        name
        for name, record in found["top"].items()
        if record.outcome is not None and all(name in records for records in found.values())
    }
    inside = np.array(
        [0.0 < (found["top"][line["id"]].outcome or 0.0) < 1.0 for line in lines if line["id"] in valid]
    )
    if arguments.out is not None:
        kept = [{"id": line["id"], "group": line["group"], **_kept(found, line["id"])} for line in lines]
        arguments.out.write_text(json.dumps({"spent": spent, "candidates": kept}, indent=1) + "\n")
    truth = advantages(found["top"], lines, valid)[inside]
    print(f"{len(valid)} valid of {len(lines)} candidates, {inside.sum()} strictly between 0 and 1")
    for name in ("top", "quarter", "cheap"):
        mine = advantages(found[name], lines, valid)[inside]
        r = float(np.corrcoef(mine, truth)[0, 1])
        print(
            f"{name:8s} r {r:.3f}  {spent[name]:.5f} credits ({spent[name] / spent['top']:.0%} of the top)"
        )


def _kept(found: dict[str, dict[str, RewardRecord]], name: str) -> dict[str, Any]:
    """Outcome, standard deviation, tier and cost of one candidate in every run."""
    return {
        run: {
            "outcome": records[name].outcome,
            "sd": None if records[name].variance is None else records[name].variance ** 0.5,
            "tier": records[name].tier,
            "credits": records[name].credits,
        }
        for run, records in found.items()
        if name in records
    }


if __name__ == "__main__":
    main()
