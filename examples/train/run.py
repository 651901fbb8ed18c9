"""Train through the service and keep what became of it: ``python -m examples.train.run --help``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.train import service as services
from examples.train.lessons import distilling, learning_from_mistakes
from examples.train.loop import Plan, Point, Teaching, as_json, train
from examples.train.objectives import Tuning
from examples.train.policy import Policy, molecules, pretrained
from examples.train.quality import Judge
from examples.train.service import Service
from examples.train.teacher import MODEL, serving

HERE = Path(__file__).resolve().parent
CONDITIONS = ("fast-only", "all-at-top", "ladder")
ALGORITHMS = ("grpo", "ppo", "distill", "hindsight")


def main(arguments: list[str] | None = None) -> int:
    """Run the plans that were asked for; each result is written as soon as it is there."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.late and options.algorithm != "grpo":
        parser.error("--late works with --algorithm grpo")
    torch.set_num_threads(1)
    conditions = CONDITIONS if options.condition == "all" else (options.condition,)
    options.results.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with _service(options) as apart, Progress(*columns, disable=options.quiet) as progress:
        judge = Judge(apart)
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            start = pretrained(molecules(HERE / "molecules.smi"), seed=seed, epochs=options.epochs)
            for condition in conditions:
                plan = _plan(options, condition, seed)
                with _teaching(plan, start, judge, options) as teach, _service(options) as service:
                    points = _followed(train(plan, start, service, judge, teach), plan, progress)
                text = json.dumps(as_json(plan, points), indent=1)
                (options.results / f"{plan.name}.json").write_text(text + "\n", encoding="utf-8")
    return 0


def _followed(points: Iterator[Point], plan: Plan, progress: Progress) -> list[Point]:
    bar = progress.add_task(plan.name, total=plan.steps)
    kept = []
    for point in points:
        kept.append(point)
        shown = f"{plan.name} {point.quality:.2f} {point.credits:.1f}"
        progress.update(bar, completed=point.step, description=shown)
    return kept


def _plan(options: argparse.Namespace, condition: str, seed: int) -> Plan:
    return Plan(
        condition=condition,
        algorithm=options.algorithm,
        seed=seed,
        steps=options.steps,
        samples=options.samples,
        judged=options.judged,
        late=options.late,
        budget=options.budget,
        tuning=Tuning(learning_rate=options.learning_rate, kl=options.kl),
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


@contextmanager
def _teaching(
    plan: Plan, start: Policy, judge: Judge, options: argparse.Namespace
) -> Iterator[Teaching | None]:
    """The algorithm's own step, where it needs more than the records."""
    if plan.algorithm == "hindsight":
        yield lambda learner, client, _: learning_from_mistakes(learner, client, plan.run, plan.seed)
    elif plan.algorithm == "distill":
        with _teacher(plan, start, judge, options) as url:
            yield lambda learner, _, __: distilling(learner, url, MODEL)
    else:
        yield None


@contextmanager
def _teacher(plan: Plan, start: Policy, judge: Judge, options: argparse.Namespace) -> Iterator[str]:
    """The teacher at ``--teacher-url``, or one that GRPO has trained on the same ladder for longer."""
    if options.teacher_url is not None:
        yield options.teacher_url
        return
    longer = replace(plan, algorithm="grpo", steps=options.teacher_steps, every=options.teacher_steps)
    kept: list[Policy] = []
    with _service(options) as service:
        for _ in train(longer, start, service, judge, finished=kept.append):
            pass
    with serving(kept[-1]) as url:
        yield url


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.train", description=__doc__)
    parser.add_argument("--condition", choices=("all", *CONDITIONS), default="ladder")
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="grpo")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds [1]")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--samples", type=int, default=32, help="molecules a step [32]")
    parser.add_argument("--judged", type=int, default=48, help="samples a measurement of quality [48]")
    parser.add_argument("--epochs", type=int, default=25, help="of pretraining [25]")
    parser.add_argument("--learning-rate", type=float, default=Tuning().learning_rate)
    parser.add_argument("--kl", type=float, default=Tuning().kl, help="hold to the pretrained policy")
    parser.add_argument(
        "--late", action="store_true", help="do not wait for simulations; learn when they come"
    )
    parser.add_argument("--budget", type=float, help="credits for the whole run [no limit]")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument(
        "--server-python", default=sys.executable, help="interpreter with verifier-service[all]"
    )
    parser.add_argument(
        "--teacher-url", help="distill: an OpenAI-compatible teacher of the same vocabulary"
    )
    parser.add_argument(
        "--teacher-steps", type=int, default=40, help="distill: else train one so long [40]"
    )
    parser.add_argument(
        "--url", help="a service that runs with the plugin; evidence is then shared between runs"
    )
    parser.add_argument("--key", help="its key")
    parser.add_argument("--quiet", action="store_true")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
