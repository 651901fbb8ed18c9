"""Cost curves: what a policy reaches over the share of the budget it may spend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.escalation.campaign import Cell, names_of
from benchmarks.escalation.table import groups, values

CURVES = (("advantage_r", "advantage r"), ("recall", "recall of the best tenth"))
STRONG = {
    "ours (advantage)": "#b2182b",
    "ours (discovery)": "#2166ac",
    "oracle (advantage)": "#000000",
    "oracle (discovery)": "#000000",
}
SHOWN = ("ours (advantage)", "oracle (advantage)"), ("ours (discovery)", "oracle (discovery)")


def draw(cells: Sequence[Cell], folder: Path) -> list[Path]:
    """One SVG per ladder and protocol that has at least two budgets; returns what was written.

    Raises ``ImportError`` with advice where matplotlib is missing.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install matplotlib, or pass --no-plots") from error
    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "escalation", "svg.fonttype": "none"}
    from matplotlib import pyplot

    written: list[Path] = []
    by_stream: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        by_stream.setdefault((cell.task.ladder, cell.task.protocol), []).append(cell)
    for (ladder, protocol), part in by_stream.items():
        shares = sorted({cell.task.share for cell in part})
        if len(shares) < 2:
            continue
        figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), constrained_layout=True)
        for axis, (metric, label), aims in zip(axes, CURVES, SHOWN, strict=True):
            _curves(axis, part, shares, metric, aims)
            axis.set_xlabel("budget, share of the truth for all")
            axis.set_ylabel(label)
        axes[0].set_title(f"{ladder}, {protocol}", loc="left", fontsize=9)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=6)
        path = folder / f"{ladder}_{protocol}.svg"
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
        written.append(path)
    return written


def _curves(
    axis: Any, part: Sequence[Cell], shares: list[float], metric: str, aims: tuple[str, ...]
) -> None:
    found = {key[2]: cells for key, cells in groups(part).items()}
    kinds = {cell.policy: cell.kind for cell in part}
    for name in names_of(part):
        if kinds[name] == "ceiling" or (kinds[name] != "baseline" and name not in aims):
            continue
        heights = [float(values(found[share], name, metric).mean()) for share in shares]
        ours = kinds[name] == "ours"
        axis.plot(
            *(shares, heights),
            label={"ours": "ours", "oracle": "oracle"}.get(kinds[name], name),
            color=STRONG.get(name),
            linewidth=2.2 if ours else 0.9,
            linestyle="--" if kinds[name] == "oracle" else "-",
            marker="." if ours else None,
            zorder=3 if ours else 2,
        )
    axis.grid(alpha=0.25)
