"""``verifier try``: hold trajectories against a ladder here and now, and explain every verdict."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verifier_service.cli.boundary import FAILED, USAGE, Failed
from verifier_service.cli.lines import opened
from verifier_service.cli.screen import AsJson, dump, note, progress_bar
from verifier_service.cli.server import require_server
from verifier_service.domain.evidence import TIERS, Tier

if TYPE_CHECKING:
    from verifier_service.cli.trial_records import Tried
    from verifier_service.cli.trial_run import Trial

LINES_AT_ONCE = 64


def try_(
    ladder: Annotated[
        str, typer.Argument(help="A shipped ladder's name, or a file with a ladder as JSON.")
    ],
    file: Annotated[Path, typer.Argument(help="JSON lines, one trajectory each; - reads standard input.")],
    tier: Annotated[
        str, typer.Option("--tier", help="Go no higher: fast, simulation, high_fidelity.")
    ] = "fast",
    show_reference: Annotated[
        bool, typer.Option("--show-reference", help="Show the references, which no answer should see.")
    ] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option("--plugin", help="A module with verifiers of yours; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try a ladder offline: no server, and nothing is kept. A bad line costs only itself."""
    highest = _tier(tier)
    require_server()
    from verifier_service.cli.trial_run import trial
    from verifier_service.cli.trial_view import ending, summary

    began = time.monotonic()
    endings: Counter[str] = Counter()
    refused = False
    with (
        opened(file) as (stream, total),
        trial(ladder, highest, tuple(plugin or ())) as run,
        progress_bar(quiet=as_json or (total or 0) <= LINES_AT_ONCE) as progress,
    ):
        task = progress.add_task("trying", total=total)
        for each in _all(run, stream, show_reference=show_reference):
            endings[ending(each)] += 1
            refused |= each.error is not None
            progress.advance(task)
            _tell(each, as_json=as_json)
    if not as_json:
        summary(endings, time.monotonic() - began)
    if refused:
        raise typer.Exit(FAILED)


def _tell(tried: Tried, *, as_json: bool) -> None:
    from verifier_service.cli.trial_view import show

    if not as_json:
        show(tried)
        return
    dump(tried)
    if tried.error is not None:
        note(f"line {tried.line}: {tried.error.code}: {tried.error.message}")


def _all(run: Trial, lines: Iterator[bytes], *, show_reference: bool) -> Iterator[Tried]:
    numbered = ((number, raw) for number, raw in enumerate(lines, start=1) if raw.strip())
    while piece := list(islice(numbered, LINES_AT_ONCE)):
        yield from run.tried(piece, show_reference=show_reference)


def _tier(name: str) -> Tier:
    allowed = [tier.value for tier in TIERS if tier is not Tier.LAB]
    if name not in allowed:
        raise typer.BadParameter(
            f"one of {', '.join(allowed)}; people cannot be tried", param_hint="--tier"
        )
    return Tier(name)


def read_ladder(name: str, shipped: dict[str, dict[str, object]]) -> str:
    """The JSON text of a ladder: the file of that name, or the shipped one."""
    path = Path(name)
    if name in shipped and not path.is_file():
        return json.dumps(shipped[name])
    if not path.is_file():
        raise Failed(
            f"no ladder is called {name!r}, and no file either",
            f"name a file, or one of: {', '.join(sorted(shipped))}",
            code=USAGE,
        )
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{name}: {error}") from error
