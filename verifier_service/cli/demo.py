"""``verifier demo``: prepared trajectories through a real service on this machine, and what it cost."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from verifier_service.cli import demo_report
from verifier_service.cli.boundary import Failed
from verifier_service.cli.demo_live import Show, progress
from verifier_service.cli.demo_server import DemoServer, running
from verifier_service.cli.demo_summary import DemoSummary, summarise
from verifier_service.cli.screen import AsJson, dump, note, say
from verifier_service.cli.server import require_server
from verifier_service.client import Client, Wait
from verifier_service.domain.evidence import Tier
from verifier_service.domain.runs import RunReport

RUN = "demo"
TRAJECTORIES = Path("organic_gap") / "trajectories.jsonl"
# Compute is ample here: what limits the demo is people's time, 15 credits a review.
BUDGETS = {"compute": 0.2, "human": 60.0}
NEEDED = ("molecule.validity", "xtb.gap", "pyscf.gap")
LOOK_EVERY_S = 1.0
CALM_LOOKS = 3
LONGEST_S = 3_600.0


def demo(
    data: Annotated[
        Path | None, typer.Option("--data", help="Use this folder, and keep it. [a temporary folder]")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary folder after Ctrl-C.")] = False,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65_535, help="[a free one]")] = None,
    groups: Annotated[
        int | None, typer.Option("--groups", min=1, help="Only the first prompts. [all]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run 98 prepared trajectories up a ladder on this machine, and show what it cost and saved.

    On a terminal the service stays up until Ctrl-C, so that the waiting reviews can be decided; else the
    demo ends and says how to start the service on its data again.
    """
    require_server()
    lines = recorded(groups)
    stays = sys.stdout.isatty() and not as_json
    with _folder(data, temporary=stays and not keep) as folder, running(folder, port) as server:
        with Client(server.url, server.key, retry_s=20.0) as client:
            summary = play(client, server, lines)
        if as_json:
            dump(summary)
        else:
            demo_report.show(summary)
        if stays:
            _stay(server, summary)
        else:
            note(f"The service has ended. To go on with its data: {summary.restart}")


def recorded(groups: int | None = None) -> list[dict[str, Any]]:
    """The trajectories that travel with the package, or lie in the checkout; those of some prompts only
    when ``groups`` says how many."""
    package = Path(__file__).resolve().parents[1]
    for examples in (package / "examples", package.parent / "examples"):
        file = examples / TRAJECTORIES
        if file.is_file():
            lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
            wanted = list(dict.fromkeys(line["group"] for line in lines))[:groups]
            return [line for line in lines if line["group"] in wanted]
    raise Failed(f"{TRAJECTORIES} is missing from this installation", "reinstall verifier-service")


@contextmanager
def _folder(data: Path | None, *, temporary: bool) -> Iterator[Path]:
    """The data folder; a temporary one goes at the end unless something was promised about it."""
    if data is not None:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        yield data.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="verifier-demo-"))
    try:
        yield folder
    except BaseException:
        note(f"the data and the log of the server are in {folder}")
        raise
    if temporary:
        shutil.rmtree(folder, ignore_errors=True)


def play(client: Client, server: DemoServer, lines: list[dict[str, Any]]) -> DemoSummary:
    """Submit everything, wait until only people have work left, and sum it up."""
    _require_tiers(client)
    began = time.monotonic()
    client.put_run(RUN, {"budgets": BUDGETS, "horizon": {"trajectories": len(lines)}})
    submitted: Counter[str] = Counter()
    with progress() as show:
        for _, members in groupby(lines, key=lambda line: line["group"]):
            response = client.submit(RUN, list(members))
            submitted.update(str(result.status) for result in response.results)
            show(client.run(RUN), "submitting")
        ids = list(dict.fromkeys(line["id"] for line in lines))
        report = _settle(client, server, ids, show)
    return summarise(
        report=report,
        cases=[client.trajectory(RUN, one) for one in ids],
        reviews=client.reviews(limit=1_000),
        submitted=submitted,
        seconds=time.monotonic() - began,
        url=server.url,
        data=str(server.data),
        restart=f"verifier serve --data {server.data} --port {server.url.rpartition(':')[2]}",
    )


def _require_tiers(client: Client) -> None:
    listed = {item.info.name: item.unavailable for item in client.verifiers()}
    for name in NEEDED:
        reason = listed.get(name, "not in the catalogue")
        if reason is not None:
            raise Failed(f"the demo needs {name}: {reason}", "pip install 'verifier-service[all]'")


def _settle(client: Client, server: DemoServer, ids: list[str], show: Show) -> RunReport:
    """Look until no tier below the people has work, several looks in a row: a refund may free money
    for something that was held."""
    ends = time.monotonic() + LONGEST_S
    calm = 0
    while True:
        answer = client.query(RUN, ids, wait=Wait("high_fidelity", LOOK_EVERY_S))
        report = client.run(RUN)
        show(report, "verifying")
        busy = any(tier.queued + tier.running for tier in report.tiers if tier.tier is not Tier.LAB)
        opened = all(tier.queued + tier.running == 0 for tier in report.tiers)
        calm = calm + 1 if answer.complete and not busy and opened else 0
        if calm >= CALM_LOOKS:
            return report
        if not server.alive():
            raise Failed("the server ended during the demo", f"read the log in {server.data}")
        if time.monotonic() > ends:
            raise Failed(f"the demo did not end within {LONGEST_S:.0f} s", f"read the log in {server.data}")
        if answer.complete:
            time.sleep(LOOK_EVERY_S)


def _stay(server: DemoServer, summary: DemoSummary) -> None:
    """Leave the service up for the reviews until Ctrl-C."""
    say(f"\nThe service runs at {server.url} until Ctrl-C.")
    try:
        while server.alive():
            threading.Event().wait(1.0)
    except KeyboardInterrupt:
        say(f"\nStopping. With --keep or --data the data stays: {summary.restart}")
        return
    raise Failed("the server ended by itself", f"read the log in {summary.data}")
