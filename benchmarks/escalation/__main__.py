"""Replays ladders whose every value is known under the scheduler and under the usual baselines.

    python -m benchmarks.escalation --data DIR [--seeds 20] [--only cof,gap,freesolv,organic] [--share 0.25]

DIR holds the public data (``band_gaps``, ``cofs``, ``freesolv``); the ladder of this project needs none.
Every policy has the same belief model and sees the same streams. Prints a line per ladder, protocol, budget
and policy: means over the seeds, and the standard error of the advantage correlation. Report half of the
rows: ``--half report`` (the other half is for tuning).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.escalation.ladders import LOADERS, load
from benchmarks.escalation.metrics import metrics
from benchmarks.escalation.policies import policies
from benchmarks.escalation.replay import Replay
from benchmarks.escalation.streams import PROTOCOLS, stream

SHARES = (0.10, 0.25)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", default=",".join(LOADERS), help="ladders, by name")
    parser.add_argument("--protocol", choices=PROTOCOLS, nargs="*", default=list(PROTOCOLS))
    parser.add_argument("--share", type=float, nargs="*", default=list(SHARES))
    parser.add_argument("--half", choices=["all", "tune", "report"], default="report")
    chosen = parser.parse_args()
    for ladder in load(chosen.data, chosen.only.split(",")):
        rows = ladder.half(chosen.half)
        for protocol in chosen.protocol:
            for share in chosen.share:
                for policy in policies(rows.levels, rows.arrival):
                    began = time.monotonic()
                    seeds = range(chosen.seeds)
                    played = [
                        metrics(Replay(stream(rows, protocol, share, s), policy).run()) for s in seeds
                    ]
                    means = {name: float(np.nanmean([one[name] for one in played])) for name in played[0]}
                    spread = np.nanstd([one["advantage_r"] for one in played]) / np.sqrt(len(played))
                    words = "  ".join(f"{name} {value:.3f}" for name, value in means.items())
                    took = (time.monotonic() - began) / chosen.seeds
                    head = f"{ladder.name:9s} {protocol:8s} {share:.0%} {policy.name:28s}"
                    print(f"{head} {words}  se(r) {spread:.3f}  {took:.1f} s each", flush=True)


if __name__ == "__main__":
    main()
