"""``verifier submit``: hand in trajectories from a file of JSON lines."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.progress import Progress

from verifier_service.cli.boundary import FAILED
from verifier_service.cli.connection import connect
from verifier_service.cli.lines import Line, opened, read_lines
from verifier_service.cli.screen import AsJson, dump, note, number, progress_bar, table
from verifier_service.client import Client, Wait
from verifier_service.domain.records import Record
from verifier_service.domain.wire import ItemError, SubmitResult, SubmitStatus, Until

LINES_AT_ONCE = 256
LOOK_EVERY_S = 2.0
GOOD = (SubmitStatus.ACCEPTED, SubmitStatus.DUPLICATE)


class LineResult(Record):
    """One line of the file and what became of it."""

    line: int
    result: SubmitResult


@dataclass(slots=True)
class Handed:
    """Everything handed in so far. ``complete`` as the last wait found it."""

    results: list[LineResult] = field(default_factory=list)
    complete: bool = True

    def ids(self) -> list[str]:
        """Ids that the server holds, each once."""
        return list(
            dict.fromkeys(r.result.id for r in self.results if r.result.id and r.result.status in GOOD)
        )

    def bad(self) -> list[LineResult]:
        """Lines that were not taken."""
        return [line for line in self.results if line.result.status not in GOOD]


def submit(
    file: Annotated[Path, typer.Argument(help="JSON lines, one trajectory each; - reads standard input.")],
    run: Annotated[str, typer.Option("--run", help="The run; it is made if it is new.")] = "default",
    wait: Annotated[
        str | None,
        typer.Option(
            "--wait", help="Wait for this tier: fast, simulation, high_fidelity, lab, or final for all."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="Longest wait in all.")] = 600.0,
    as_json: AsJson = False,
) -> None:
    """Submit trajectories. A bad line costs only itself; submitting a file again is harmless."""
    until = _until(wait)
    with connect() as client, opened(file) as (stream, total), progress_bar(quiet=as_json) as progress:
        handed = _hand_in(client, run, stream, total, progress)
        if until is not None:
            _wait(client, run, handed, Wait(until, seconds), progress)
    if as_json:
        for line in handed.results:
            dump({"line": line.line, **line.result.model_dump(mode="json")})
    else:
        _report(run, handed, until)
    if handed.bad():
        raise typer.Exit(FAILED)


def _until(wait: str | None) -> Until | None:
    names: dict[str, Until] = {
        "fast": "fast",
        "simulation": "simulation",
        "high_fidelity": "high_fidelity",
        "lab": "lab",
        "final": "final",
    }
    if wait is not None and wait not in names:
        raise typer.BadParameter(f"one of {', '.join(names)}", param_hint="--wait")
    return names[wait] if wait is not None else None


def _hand_in(client: Client, run: str, stream: BinaryIO, total: int | None, progress: Progress) -> Handed:
    handed = Handed()
    task = progress.add_task("submitting", total=total)
    lines = read_lines(stream)
    while piece := list(islice(lines, LINES_AT_ONCE)):
        handed.results += _send(client, run, piece)
        progress.advance(task, len(piece))
    return handed


def _send(client: Client, run: str, piece: list[Line]) -> list[LineResult]:
    good = [line for line in piece if line.item is not None]
    response = client.submit(run, [line.item for line in good if line.item is not None])
    found = {line.number: result for line, result in zip(good, response.results, strict=True)}
    for line in piece:
        if line.problem is not None:
            error = ItemError(code="bad_line", message=line.problem)
            found[line.number] = SubmitResult(id=None, status=SubmitStatus.INVALID, error=error)
    return [LineResult(line=line.number, result=found[line.number]) for line in piece]


def _wait(client: Client, run: str, handed: Handed, wait: Wait, progress: Progress) -> None:
    ids = handed.ids()
    task = progress.add_task(f"waiting for {wait.until}", total=len(ids))
    ends = time.monotonic() + wait.seconds
    while ids:
        left = max(0.0, ends - time.monotonic())
        answer = client.query(run, ids, wait=Wait(wait.until, min(LOOK_EVERY_S, left)))
        latest = {record.trajectory: record for record in answer.records}
        scored = sum(record.reward is not None for record in latest.values())
        progress.update(task, completed=len(ids) if answer.complete else min(scored, len(ids) - 1))
        if answer.complete or left <= 0:
            handed.complete = answer.complete
            handed.results = [
                line.model_copy(
                    update={
                        "result": line.result.model_copy(
                            update={"reward": latest.get(line.result.id or "")}
                        )
                    }
                )
                for line in handed.results
            ]
            return


def _report(run: str, handed: Handed, until: Until | None) -> None:
    for line in handed.bad():
        error = line.result.error
        text = f"{error.code}: {error.message}" if error is not None else "no reason given"
        note(f"line {line.line}: {line.result.status}: {text}")
    if until is not None:
        rows = [
            (r.trajectory, r.status, number(r.reward), r.tier or "–", r.reason.code if r.reason else "")
            for line in handed.results
            if (r := line.result.reward) is not None
        ]
        table("", ("trajectory", "status", "reward", "tier", "reason"), rows)
        if not handed.complete:
            note(f"the wait for {until} ended early; ask again: verifier rewards --run {run}")
    counts = [
        f"{sum(line.result.status is status for line in handed.results)} {status}"
        for status in SubmitStatus
        if any(line.result.status is status for line in handed.results)
    ]
    note(f"run {run}: {', '.join(counts) or 'the file has no trajectories'}")
