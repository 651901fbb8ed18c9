"""Tables of a campaign: means over paired seeds, and how far each stands from the best baseline."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.escalation.campaign import Cell, names_of
from scheduler.worth import Floats

Key = tuple[str, str, float]  # ladder, protocol, share
COLUMNS = ("advantage_r", "recall", "rmse", "regret", "coverage", "overshoot")
HEADS = ("advantage r", "recall", "RMSE", "regret", "coverage", "overshoot")
# What each of our objectives is for, and whether more of it is better.
AIMS = (
    ("ours (advantage)", "advantage_r", 1.0, "oracle (advantage)"),
    ("ours (discovery)", "recall", 1.0, "oracle (discovery)"),
    ("ours (value)", "rmse", -1.0, "oracle (advantage)"),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours against the best baseline of a cell, on the same seeds. ``difference`` is in favour of ours
    where it is positive; ``error`` is its standard error over the seeds."""

    key: Key
    metric: str
    ours: float
    ours_error: float
    baseline: str
    theirs: float
    difference: float
    error: float
    oracle: float

    @property
    def verdict(self) -> str:
        """In words; two standard errors count as equal."""
        if abs(self.difference) <= 2.0 * self.error:
            return "level"
        return "ours" if self.difference > 0 else "baseline"


def groups(cells: Iterable[Cell]) -> dict[Key, list[Cell]]:
    """Cells by ladder, protocol and budget."""
    found: dict[Key, list[Cell]] = {}
    for cell in cells:
        task = cell.task
        found.setdefault((task.ladder, task.protocol, task.share), []).append(cell)
    return found


def values(cells: Iterable[Cell], policy: str, metric: str) -> Floats:
    """One entry per seed."""
    return np.array([cell.figures[metric] for cell in cells if cell.policy == policy])


def compare(key: Key, cells: Sequence[Cell]) -> list[Comparison]:
    """Each objective on its own metric."""
    names = names_of(cells)
    baselines = list(dict.fromkeys(cell.policy for cell in cells if cell.kind == "baseline"))
    found: list[Comparison] = []
    for ours, metric, sign, oracle in AIMS:
        if ours not in names or not baselines:
            continue
        mine = values(cells, ours, metric)
        best = max(baselines, key=lambda name: sign * float(_mean(values(cells, name, metric))))
        theirs = values(cells, best, metric)
        difference = sign * (mine - theirs)
        top = values(cells, oracle, metric) if oracle in names else np.array([np.nan])
        found.append(
            Comparison(
                *(key, metric, _mean(mine), _error(mine), best, _mean(theirs)),
                *(_mean(difference), _error(difference), _mean(top)),
            )
        )
    return found


def summary(cells: Sequence[Cell]) -> str:
    """Markdown: every cell's objectives against their best baselines."""
    lines = [
        "| ladder | protocol | budget | metric | ours | best baseline | difference | | oracle |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for key, part in groups(cells).items():
        for row in compare(key, part):
            columns = (
                *(key[0], key[1], f"{key[2]:.0%}", row.metric, f"{row.ours:.3f} ± {row.ours_error:.3f}"),
                *(f"{row.baseline} {row.theirs:.3f}", f"{row.difference:+.3f} ± {row.error:.3f}"),
                *(row.verdict, f"{row.oracle:.3f}"),
            )
            lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"


def details(cells: Sequence[Cell]) -> str:
    """Markdown: every policy on every metric, a table per cell."""
    lines: list[str] = []
    for (ladder, protocol, share), part in groups(cells).items():
        lines += [f"**{ladder}, {protocol}, {share:.0%}**", "", "| policy | " + " | ".join(HEADS) + " |"]
        lines.append("|---" * (len(HEADS) + 1) + "|")
        for name in names_of(part):
            figures = [_mean(values(part, name, metric)) for metric in COLUMNS]
            cells_of = " | ".join("" if np.isnan(figure) else f"{figure:.3f}" for figure in figures)
            lines.append(f"| {name} | {cells_of} |")
        lines.append("")
    return "\n".join(lines)


def write_csv(cells: Sequence[Cell], path: Path) -> None:
    """One line per replay."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        metrics = list(cells[0].figures)
        writer.writerow(["ladder", "protocol", "share", "seed", "policy", *metrics])
        for cell in cells:
            task = cell.task
            figures = [f"{cell.figures[name]:.6g}" for name in metrics]
            writer.writerow([task.ladder, task.protocol, task.share, task.seed, cell.policy, *figures])


def write_means(cells: Sequence[Cell], path: Path) -> None:
    """One line per policy and cell: means and standard errors over the seeds."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        metrics = list(cells[0].figures)
        heads = [part for name in metrics for part in (name, f"{name}_se")]
        writer.writerow(["ladder", "protocol", "share", "policy", "seeds", *heads])
        for (ladder, protocol, share), part in groups(cells).items():
            for name in names_of(part):
                columns = [values(part, name, metric) for metric in metrics]
                figures = [f"{of(column):.4f}" for column in columns for of in (_mean, _error)]
                writer.writerow([ladder, protocol, share, name, columns[0].size, *figures])


def _mean(column: Floats) -> float:
    there = column[~np.isnan(column)]
    return float(there.mean()) if there.size else float("nan")


def _error(column: Floats) -> float:
    there = column[~np.isnan(column)]
    return float(there.std(ddof=1) / np.sqrt(there.size)) if there.size > 1 else float("nan")
