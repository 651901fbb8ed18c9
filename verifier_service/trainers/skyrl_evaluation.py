"""SkyRL's evaluation scores over the rows that have a verified reward.

SkyRL takes them over all rows (``get_metrics_from_generator_output``, skyrl 0.3.0): one NaN makes a mean
NaN, and pass@n counts a NaN as a failure. So the rows are kept beside, and the scores made again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

UNVERIFIED = "unverified"
NONE = float("nan")
ALL = "all"
SCORE = re.compile(r"eval/(?P<source>.+)/(?P<name>avg_score|mean_positive_reward|pass_at_\d+)")


@dataclass(frozen=True, slots=True)
class Row:
    """A verified trajectory of an evaluation; ``rewards`` one per token, or one for all."""

    prompt: str
    source: str
    rewards: Sequence[float]


@dataclass(slots=True)
class Recorder:
    """A generator that keeps the verified rows of the evaluations it generates."""

    generator: Any
    rows: list[Row] = field(default_factory=list)

    async def generate(self, input_batch: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """As the generator."""
        output = await self.generator.generate(input_batch, *args, **kwargs)
        if is_evaluation(input_batch):
            self.rows += verified_rows(input_batch, output)
        return output

    def __getattr__(self, name: str) -> Any:
        return getattr(self.generator, name)


def is_evaluation(input_batch: Mapping[str, Any]) -> bool:
    """Whether a batch is one of an evaluation."""
    metadata = input_batch.get("batch_metadata")
    return metadata is not None and metadata.training_phase == "eval"


def verified_rows(input_batch: Mapping[str, Any], output: Mapping[str, Any]) -> list[Row]:
    """The trajectories with a verified reward; of several rows of one, the last."""
    owners = owners_of(output, len(input_batch["trajectory_ids"]))
    last = {owner: row for row, owner in enumerate(owners)}
    rows = []
    for owner, row in last.items():
        if output["stop_reasons"][row] == UNVERIFIED:
            continue
        given = output["rewards"][row]
        prompt = str(input_batch["trajectory_ids"][owner].instance_id)
        source = input_batch["env_extras"][owner].get("data_source") or "unknown"
        rows.append(Row(prompt, source.replace("/", "_"), given if isinstance(given, list) else [given]))
    return rows


def over_verified(metrics: Mapping[str, float], rows: Sequence[Row]) -> dict[str, float]:
    """Metrics with each score made again from the rows of its data source; NaN where there are none."""
    made = dict(metrics)
    for key in metrics:
        if found := SCORE.fullmatch(key):
            source = found["source"]
            made[key] = _score(
                found["name"], [row for row in rows if source == ALL or row.source == source]
            )
    return made


def owners_of(output: Mapping[str, Any], trajectories: int) -> list[int]:
    """Which trajectory each row belongs to. Raises ``ValueError`` where that cannot be told."""
    last = output.get("is_last_step")
    rows = len(output["loss_masks"])
    if last is None:
        if rows != trajectories:
            raise ValueError(f"{trajectories} trajectories came back as {rows} rows without is_last_step")
        return list(range(rows))
    owners = list(accumulate((int(ends) for ends in last[:-1]), initial=0)) if last else []
    if not owners or owners[-1] != trajectories - 1 or not last[-1]:
        raise ValueError(f"is_last_step does not tell {trajectories} trajectories apart")
    return owners


def _score(name: str, rows: Sequence[Row]) -> float:
    """SkyRL's definitions: sums of rewards, sums of positive ones, and the share of prompts with a sample
    whose last reward is positive."""
    if name == "avg_score":
        return _mean(sum(row.rewards) for row in rows)
    if name == "mean_positive_reward":
        return _mean(sum(max(one, 0.0) for one in row.rewards) for row in rows)
    passed: dict[str, bool] = {}
    for row in rows:
        passed[row.prompt] = passed.get(row.prompt, False) or row.rewards[-1] > 0
    return _mean(passed.values())


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else NONE
