"""What a replay is judged by. A value that was bought counts as known."""

from __future__ import annotations

import numpy as np

from benchmarks.escalation.replay import Replay
from scheduler.chain import Belief
from scheduler.pool import Ints
from scheduler.worth import Floats

BEST_SHARE = 0.1
COVERED_AFTER = 100
NAMES = ("advantage_r", "recall", "rmse", "regret", "coverage", "overshoot", "spent", "labels")


def metrics(replay: Replay) -> dict[str, float]:
    """The figures of one replay, under ``NAMES``, and those as of the last model under ``late_*``.

    * ``advantage_r``: Pearson correlation, over the stream, of estimated and true advantages; see
      ``advantage_correlation``. From the rewards as delivered at the end of each round.
    * ``recall``: share of the true best tenth of the stream among the tenth that is believed best at the
      end.
    * ``rmse``: of delivered rewards, in the ladder's unit.
    * ``regret``: mean truth of the true best tenth minus that of the tenth believed best, in standard
      deviations of the truth.
    * ``coverage``: how many truths, of candidates that ended their round without one, lie in the nominal
      90 % interval that was reported then; after the first 100 candidates. nan if there are none.
    * ``overshoot``: spending beyond the budget, as a share of it. ``spent``: share of the budget spent.
    * ``labels``: truths bought, as a share of the stream.
    """
    truth = replay.truth[:, -1]
    group = replay.stream.group
    known = ~np.isnan(replay.y[:, -1])
    delivered, final = replay.delivered, replay.final
    best, believed = _best(truth), _best(final.mean)
    limit = replay.ledger.limit
    return {
        "advantage_r": advantage_correlation(delivered, truth, group),
        "recall": float(np.isin(best, believed).mean()),
        "rmse": float(np.sqrt(np.mean((delivered.mean - truth) ** 2))),
        "regret": float((truth[best].mean() - truth[believed].mean()) / max(truth.std(), 1e-12)),
        "coverage": _coverage(delivered, truth, known),
        "overshoot": replay.ledger.overshoot if np.isfinite(limit) else 0.0,
        "spent": replay.ledger.spent / limit if 0 < limit < np.inf else float("nan"),
        "labels": float(known.mean()),
        "late_advantage_r": advantage_correlation(final, truth, group),
        "late_rmse": float(np.sqrt(np.mean((final.mean - truth) ** 2))),
    }


def advantage_correlation(belief: Belief, truth: Floats, group: Ints) -> float:
    """Pearson correlation of (m - mean m) / sqrt(Var m + mean v) with (y - mean y) / sd y, moments over
    each group; groups without any spread of the truth are left out."""
    estimated, true = [], []
    for number in np.unique(group):
        rows = group == number
        y, m, v = truth[rows], belief.mean[rows], belief.variance[rows]
        if y.std() <= 0:
            continue
        scale = np.sqrt(m.var() + v.mean())
        estimated.append((m - m.mean()) / scale if scale > 0 else np.zeros_like(m))
        true.append((y - y.mean()) / y.std())
    if not true:
        return float("nan")
    a, b = np.concatenate(estimated), np.concatenate(true)
    return float(np.corrcoef(a, b)[0, 1]) if a.std() > 0 else 0.0


def _best(values: Floats) -> Ints:
    count = int(np.ceil(BEST_SHARE * values.size))
    return np.argsort(-values, kind="stable")[:count].astype(np.int64)


def _coverage(belief: Belief, truth: Floats, known: Floats) -> float:
    low, high = belief.interval()
    rows = ~known & (np.arange(truth.size) >= COVERED_AFTER)
    inside = (low <= truth) & (truth <= high)
    return float(inside[rows].mean()) if rows.any() else float("nan")
