"""Replays ladders whose every value is known under the scheduler and under the usual baselines.

    python -m benchmarks.escalation --data DIR [--seeds 20] [--jobs 1] [--only cof gap] [--out FOLDER]

DIR holds the public data (``band_gaps``, ``cofs``, ``freesolv``); the ladder of this project needs none.
Every policy has the same belief model and sees the same streams. Prints ours against the best baseline of
every cell, paired by seed, and with ``--out`` writes every figure as CSV, tables as Markdown and, where at
least two budgets were run, cost curves. Rows and seeds of ``--half tune`` are not those of the report.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.escalation import campaign, plots, table
from benchmarks.escalation.ladders import LOADERS, BadData
from benchmarks.escalation.streams import PROTOCOLS


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", choices=list(LOADERS), nargs="*", default=list(LOADERS))
    parser.add_argument("--protocol", choices=PROTOCOLS, nargs="*", default=list(PROTOCOLS))
    parser.add_argument("--share", type=float, nargs="*", default=[0.10, 0.25])
    parser.add_argument("--policies", nargs="*", default=[], help="parts of names; all by default")
    parser.add_argument("--half", choices=["all", "tune", "report"], default="report")
    parser.add_argument("--cost-error", choices=["none", "low", "high", "mixed"], default="none")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-plots", action="store_true")
    chosen = parser.parse_args()
    plan = campaign.Plan(
        data=chosen.data,
        ladders=tuple(chosen.only),
        protocols=tuple(chosen.protocol),
        shares=tuple(chosen.share),
        seeds=chosen.seeds,
        half=chosen.half,
        policies=tuple(chosen.policies),
        cost_error=chosen.cost_error,
    )
    try:
        cells = campaign.run(plan, chosen.jobs)
    except (BadData, OSError) as error:
        sys.exit(f"the data cannot be read: {error}")
    print(table.summary(cells))
    if chosen.out is not None:
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / "summary.md").write_text(table.summary(cells), encoding="utf-8")
        (chosen.out / "details.md").write_text(table.details(cells), encoding="utf-8")
        table.write_csv(cells, chosen.out / "replays.csv")
        table.write_means(cells, chosen.out / "means.csv")
        if not chosen.no_plots:
            for path in plots.draw(cells, chosen.out):
                print(path)


if __name__ == "__main__":
    main()
