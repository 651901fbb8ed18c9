"""Train through the service and keep what became of it: ``python -m examples.train.run --help``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.train import service as services
from examples.train.loop import Plan, as_json, train
from examples.train.policy import Policy, molecules, pretrained
from examples.train.quality import Judge
from examples.train.service import Service

HERE = Path(__file__).resolve().parent
CONDITIONS = ("fast-only", "all-at-top", "ladder")
ALGORITHMS = ("grpo", "ppo", "distill", "hindsight")
EPOCHS = 25


def main(arguments: list[str] | None = None) -> int:
    """Run the plans that were asked for; each result is written as soon as it is there."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    conditions = CONDITIONS if options.condition == "all" else (options.condition,)
    options.results.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with _service(options) as apart, Progress(*columns, disable=options.quiet) as progress:
        judge = Judge(apart)
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            start = pretrained(molecules(HERE / "molecules.smi"), seed=seed, epochs=EPOCHS)
            for condition in conditions:
                plan = _plan(options, condition, seed)
                with _service(options) as service:
                    _one(plan, start, service, judge, options.results, progress)
    return 0


def _one(
    plan: Plan, start: Policy, service: Service, judge: Judge, results: Path, progress: Progress
) -> None:
    bar = progress.add_task(plan.run, total=plan.steps)
    points = []
    with _teaching(plan, start, service) as teach:
        for point in train(plan, start, service, judge, teach):
            points.append(point)
            progress.update(
                bar, completed=point.step, description=f"{plan.run} {point.quality:.2f} {point.credits:.1f}"
            )
    text = json.dumps(as_json(plan, points), indent=1)
    (results / f"{plan.run}.json").write_text(text + "\n", encoding="utf-8")


def _plan(options: argparse.Namespace, condition: str, seed: int) -> Plan:
    return Plan(
        condition=condition,
        algorithm=options.algorithm,
        seed=seed,
        steps=options.steps,
        samples=options.samples,
        late=options.late,
    )


@contextmanager
def _service(options: argparse.Namespace) -> Iterator[Service]:
    """The one at ``--url``, or a fresh one."""
    if options.url is None:
        with services.running(options.server_python) as service:
            yield service
        return
    service = Service(options.url, options.key)
    services.put_ladders(service)
    yield service


def _teaching(plan: Plan, start: Policy, service: Service):  # noqa: ANN202
    return nullcontext(None)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.train", description=__doc__)
    parser.add_argument("--condition", choices=("all", *CONDITIONS), default="ladder")
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="grpo")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds [1]")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--samples", type=int, default=32, help="molecules a step [32]")
    parser.add_argument("--late", action="store_true", help="do not wait for simulations; learn when they come")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--server-python", default=sys.executable, help="interpreter with verifier-service[all]")
    parser.add_argument("--url", help="a service that runs with the plugin; evidence is then shared between runs")
    parser.add_argument("--key", help="its key")
    parser.add_argument("--quiet", action="store_true")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
