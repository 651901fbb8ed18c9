"""The demo's molecules with a quarter of the money: how much of the group advantages is left?

    python -m benchmarks.live_quarter [--share 0.25] [--groups 12] [--out FILE]

Runs the real service with real calculations: once at high fidelity, then the shipped ladder with ``share``
of what that cost, then GFN2-xTB with its map alone. Prints, over the candidates whose true outcome lies
strictly between 0 and 1, the correlation of their group advantages with the true ones, its standard error
over groups, and what was spent. The truth is measured for whatever passes the hard gate; who cannot be
measured is in no group. ``--out`` keeps every candidate's outcomes. Minutes to half an hour.
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
import numpy.typing as npt

from verifier_service.cli.demo import recorded
from verifier_service.cli.demo_server import running
from verifier_service.client import Client, Wait
from verifier_service.domain.evidence import Tier
from verifier_service.domain.rewards import RewardRecord

Floats = npt.NDArray[np.float64]
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


def is_true(record: RewardRecord) -> bool:
    """Whether the outcome is a fact: measured at the top, or 0 by a hard gate. A belief is none."""
    if record.outcome is None:
        return False
    return record.tier is Tier.HIGH_FIDELITY or (record.outcome, record.variance) == (0.0, 0.0)


def advantages(records: dict[str, RewardRecord], members: list[tuple[str, str]]) -> Floats:
    """Reward minus the mean of the group's rewards, per (id, group). Without a reward: left out of the
    mean, and 0."""
    groups: dict[str, list[float]] = defaultdict(list)
    for name, group in members:
        outcome = records[name].outcome
        if outcome is not None:
            groups[group].append(outcome)
    means = {group: sum(values) / len(values) for group, values in groups.items()}
    rewards = [(records[name].outcome, group) for name, group in members]
    return np.array([0.0 if reward is None else reward - means[group] for reward, group in rewards])


def correlation(mine: Floats, truth: Floats, groups: list[str]) -> tuple[float, float]:
    """r, and its standard error by 2,000 bootstraps over groups."""
    rows = [np.flatnonzero(np.array(groups) == group) for group in sorted(set(groups))]
    rng = np.random.default_rng(0)
    again = []
    for _ in range(2_000):
        drawn = np.concatenate([rows[at] for at in rng.integers(0, len(rows), len(rows))])
        again.append(np.corrcoef(mine[drawn], truth[drawn])[0, 1])
    return float(np.corrcoef(mine, truth)[0, 1]), float(np.nanstd(again))


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
    found, spent = played(lines, arguments.share)
    if arguments.out is not None:
        kept = [{"id": line["id"], "group": line["group"], **_kept(found, line["id"])} for line in lines]
        arguments.out.write_text(json.dumps({"spent": spent, "candidates": kept}, indent=1) + "\n")
    report(found, spent, lines)


def played(
    lines: list[dict[str, Any]], share: float
) -> tuple[dict[str, dict[str, RewardRecord]], dict[str, float]]:
    """Records and credits spent of each run. ``truth`` has what ``top`` did not find worth measuring, or
    what a soft gate refused there; the money is counted by ``top``."""
    top = ladder("top", ["fast", "high_fidelity"], "high_fidelity")
    exact = ladder("exact", ["fast", "high_fidelity"], "high_fidelity")
    exact["tiers"]["fast"] = [check for check in exact["tiers"]["fast"] if check["gate"] == "hard"]
    cheap = ladder("cheap", ["fast", "simulation"], "simulation")
    whole = ladder("whole", ["fast", "simulation", "high_fidelity"], "high_fidelity")
    found: dict[str, dict[str, RewardRecord]] = {}
    spent: dict[str, float] = {}
    with service() as client:
        found["top"], spent["top"] = play(client, "top", {}, top, lines)
        found["truth"], spent["truth"] = play(client, "truth", {"audit_share": 1.0}, exact, lines)
    budget = share * spent["top"]
    spec = {"budgets": {"compute": budget}, "horizon": {"trajectories": len(lines)}}
    with service() as client:
        found["quarter"], spent["quarter"] = play(client, "quarter", spec, whole, lines)
        found["cheap"], spent["cheap"] = play(client, "cheap", {}, cheap, lines)
    return found, spent


def report(
    found: dict[str, dict[str, RewardRecord]], spent: dict[str, float], lines: list[dict[str, Any]]
) -> None:
    """Print a line per run."""
    known = [
        (line["id"], line["group"])
        for line in lines
        if all(line["id"] in records for records in found.values()) and is_true(found["truth"][line["id"]])
    ]
    inside = np.array([0.0 < (found["truth"][name].outcome or 0.0) < 1.0 for name, _ in known])
    groups = [group for (_, group), kept in zip(known, inside, strict=True) if kept]
    truth = advantages(found["truth"], known)[inside]
    print(f"{len(known)} of {len(lines)} have a truth, {inside.sum()} strictly between 0 and 1")
    for name in ("top", "quarter", "cheap"):
        r, error = correlation(advantages(found[name], known)[inside], truth, groups)
        missing = sum(found[name][one].outcome is None for one, _ in known)
        share = spent[name] / spent["top"]
        print(
            f"{name:8s} r {r:.3f} ± {error:.3f}  {spent[name]:.5f} credits ({share:.0%} of the top)", end=""
        )
        print(f", {missing} without a reward")


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
