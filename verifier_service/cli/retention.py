"""``verifier runs archive`` and ``verifier runs purge``: what happens to a run after its close."""

from __future__ import annotations

import json
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from verifier_service.cli.archive_files import JsonLines, Sheets, made_whole, seal
from verifier_service.cli.boundary import USAGE, Failed
from verifier_service.cli.connection import connect
from verifier_service.cli.screen import AsJson, dump, note, progress_bar, say
from verifier_service.client import Client
from verifier_service.domain.runs import RunState

LAYOUTS = ("jsonl", "parquet")
SHOW_EVERY = 500
PURGE_WAIT_S = 2.0


def archive(
    id: str,
    out: Annotated[Path, typer.Option("--out", help="A new or empty folder.")],
    layout: Annotated[str, typer.Option("--format", help="jsonl (gzip) or parquet.")] = "jsonl",
    without_references: Annotated[
        bool, typer.Option("--without-references", help="Leave out the gold of problems.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write everything that is stored of a closed run into a folder, with a manifest and checksums."""
    if layout not in LAYOUTS:
        raise Failed(f"--format {layout!r}", f"choose from {', '.join(LAYOUTS)}", code=USAGE)
    if layout == "parquet" and find_spec("pyarrow") is None:
        raise Failed("Parquet needs pyarrow", "pip install 'verifier-service[archive]', or --format jsonl")
    try:
        with connect() as client, made_whole(out) as folder, progress_bar(quiet=as_json) as progress:
            manifest = _write(
                client, id, folder, layout, references=not without_references, progress=progress
            )
    except FileExistsError as error:
        raise Failed(str(error), "choose another --out", code=USAGE) from error
    except OSError as error:
        raise Failed(f"{out}: {error.strerror or error}", "nothing was left there") from error
    if as_json:
        dump(manifest)
        return
    rows = ", ".join(f"{one['rows']} {one['name'].partition('.')[0]}" for one in manifest["files"])
    size = sum(one["bytes"] for one in manifest["files"])
    say(f"{id}: {rows}; {size / 1e6:.1f} MB in {out}")
    if not manifest["references"] and not without_references:
        note("references are not in it: that needs a key with the scope gold")


def _write(
    client: Client, id: str, folder: Path, layout: str, *, references: bool, progress: Progress
) -> dict[str, Any]:
    total = client.run(id).trajectories
    shown = progress.add_task(id, total=total)
    head: dict[str, Any] = {}
    rows: Counter[str] = Counter()
    sheets = _sheets(folder, layout)
    try:
        for row in client.archive(id, references=references):
            if row.kind == "head":
                head = json.loads(row.text)
                continue
            sheets.add(row.kind, row.text)
            rows[row.kind] += 1
            if row.kind == "trajectory" and rows[row.kind] % SHOW_EVERY == 0:
                progress.update(shown, completed=rows[row.kind])
    finally:
        names = sheets.close()
    progress.update(shown, completed=total)
    return seal(folder, head, layout, names, rows)


def _sheets(folder: Path, layout: str) -> Sheets:
    if layout == "jsonl":
        return JsonLines(folder)
    from verifier_service.cli.archive_parquet import ParquetSheets

    return ParquetSheets(folder)


def purge(
    id: str,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it: there is no way back.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove a closed run for good; evidence that other runs cite stays, and so do its totals."""
    with connect() as client:
        report = client.run(id)
        if not yes and report.run.state is not RunState.PURGED:
            raise Failed(
                f"{report.trajectories} trajectories of {id} would be removed for good",
                f"archive it first (verifier runs archive {id} --out DIR), then say --yes",
                code=USAGE,
            )
        total = report.trajectories
        with progress_bar(quiet=as_json) as progress:
            shown = progress.add_task(id, total=total)
            report = client.purge_run(id, wait_s=PURGE_WAIT_S)
            while report.run.state is RunState.PURGING:
                progress.update(shown, completed=total - report.trajectories)
                report = client.purge_run(id, wait_s=PURGE_WAIT_S)
            progress.update(shown, completed=total)
    if as_json:
        dump(report)
        return
    say(f"{id}: purged; {total} trajectories were removed, its id stays taken")
