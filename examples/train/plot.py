"""Draw true quality against credits: ``python -m examples.train.plot``, and print the table of the docs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt

HERE = Path(__file__).resolve().parent
PICTURE = HERE.parents[1] / "docs" / "images" / "training.png"
COLOURS = {"fast-only": "#c4631b", "all-at-top": "#555555", "ladder": "#1b6ca8"}
GOOD = 0.8
Curve = list[tuple[float, float, int]]


def main(arguments: list[str] | None = None) -> None:
    """Read the results, draw, print."""
    parser = argparse.ArgumentParser(prog="python -m examples.train.plot", description=__doc__)
    parser.add_argument("--algorithm", default="grpo")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args(arguments)
    found = curves(options.results, options.algorithm)
    level = plateau(found["fast-only"])
    for line in table(found, level):
        print(line)
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    draw(found, level, options.picture)


def curves(results: Path, algorithm: str) -> dict[str, list[Curve]]:
    """(credits, quality, step) of every run, by condition and seed. Raises ``FileNotFoundError``."""
    kept: dict[str, list[Curve]] = {}
    for path in sorted(results.glob(f"{algorithm}-*.json")):
        run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        points = [(point["credits"], point["quality"], point["step"]) for point in run["points"]]
        kept.setdefault(run["plan"]["condition"], []).append(points)
    if set(kept) != set(COLOURS):
        raise FileNotFoundError(f"{results} has runs of {sorted(kept)}, and {sorted(COLOURS)} are needed")
    return kept


def plateau(runs: Sequence[Curve]) -> float:
    """The best that the seeds' mean ever is: as if fast-only had been stopped at its best moment."""
    return max(float(np.mean([point[1] for point in points])) for points in zip(*runs, strict=True))


def passes(curve: Curve, level: float) -> float | None:
    """Credits at which the curve first lies above ``level``, between two points on a straight line;
    ``None`` if it never does."""
    for (before, low, _), (after, high, _) in pairwise(curve):
        if low <= level < high:
            return before + (after - before) * (level - low) / (high - low)
    return None


def table(found: dict[str, list[Curve]], level: float) -> list[str]:
    """Rows of Markdown: one a condition."""
    lines = [
        f"fast-only at its best: {level:.2f}",
        "",
        "| condition | quality: start | end | best | credits in all | to pass fast-only | to pass 0.8 |",
        "|---|---|---|---|---|---|---|",
    ]
    for condition in COLOURS:
        runs = found[condition]
        starts, ends = ([run[at][1] for run in runs] for at in (0, -1))
        best = [max(point[1] for point in run) for run in runs]
        spent = [run[-1][0] for run in runs]
        cells = [_range(starts), _range(ends), _range(best), _range(spent, 1)]
        for wanted in (level, GOOD):
            crossed = [passes(run, wanted) for run in runs]
            cells.append("" if condition == "fast-only" else _crossings(crossed))
        lines.append(f"| {condition} | " + " | ".join(cells) + " |")
    return lines


def _range(values: Sequence[float], digits: int = 2) -> str:
    mean = sum(values) / len(values)
    return f"{mean:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def _crossings(crossed: Sequence[float | None]) -> str:
    there = [value for value in crossed if value is not None]
    if not there:
        return f"never in {len(crossed)} seeds"
    missed = len(crossed) - len(there)
    return _range(there, 1) + (f", never in {missed}" if missed else "")


def draw(found: dict[str, list[Curve]], level: float, path: Path) -> None:
    """Quality against credits and against steps: thin lines are seeds, thick ones their mean."""
    figure, (by_credits, by_step) = plt.subplots(
        1, 2, figsize=(10.5, 4.2), sharey=True, layout="constrained"
    )
    for condition, runs in found.items():
        colour = COLOURS[condition]
        array = np.array(runs)
        for run in array:
            by_credits.plot(run[:, 0], run[:, 1], color=colour, alpha=0.3, linewidth=0.8)
        mean = array.mean(axis=0)
        by_credits.plot(
            mean[:, 0], mean[:, 1], color=colour, linewidth=2.2, label=condition, marker="o", ms=3
        )
        by_step.plot(mean[:, 2], mean[:, 1], color=colour, linewidth=2.2, marker="o", ms=3)
        by_step.fill_between(
            mean[:, 2], array[:, :, 1].min(axis=0), array[:, :, 1].max(axis=0), color=colour, alpha=0.15
        )
    for axis in (by_credits, by_step):
        axis.axhline(level, color=COLOURS["fast-only"], linestyle=":", linewidth=1)
        axis.set_ylim(0, 1.02)
        axis.grid(alpha=0.2)
    by_credits.set_xlabel("credits spent (1 credit = 1 CPU second)")
    by_credits.set_ylabel("true quality: mean utility under GFN2-xTB")
    by_credits.legend(frameon=False, loc="lower right")
    by_step.set_xlabel("updates of the policy")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
