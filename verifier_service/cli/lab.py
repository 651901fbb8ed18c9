"""``verifier lab``: results of a laboratory from files, and the worklist that asks for them."""

from __future__ import annotations

import csv
import io
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from verifier_service.cli.boundary import USAGE, Failed
from verifier_service.cli.connection import connect
from verifier_service.cli.screen import AsJson, dump, note, number, say, table
from verifier_service.domain.lab_results import ImportState, LabImport

app = typer.Typer(help="The laboratory: what waits for it, and the results that it sends back.")

MOST_ERRORS = 50
MOST_BYTES = 64 * 1024 * 1024


class Mark(StrEnum):
    """A decimal mark."""

    POINT = "point"
    COMMA = "comma"


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="CSV, JSON or XLSX, by its ending.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check every row and store nothing.")] = False,
    row_by_row: Annotated[bool, typer.Option("--row-by-row", help="Store the right rows.")] = False,
    plates: Annotated[Path | None, typer.Option("--plates", help="JSON list of maps of plates.")] = None,
    decimal: Annotated[Mark | None, typer.Option("--decimal", help="The file's decimal mark.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who measured.")] = None,
    id: Annotated[str | None, typer.Option("--id", help="A name for this import.")] = None,
    as_json: AsJson = False,
) -> None:
    """Send measurements to the checks that wait for them. Exit code 1 when a fault kept all out."""
    content = _read(file)
    maps = _plates(plates)
    with connect() as client:
        done = client.import_lab_results(
            content,
            name=file.name,
            plates=maps,
            decimal=None if decimal is None else decimal.value,
            by=by,
            dry_run=dry_run,
            all_or_nothing=not row_by_row,
            id=id,
        )
    if as_json:
        dump(done)
    else:
        _print(done)
    if done.state is ImportState.REFUSED:
        raise Failed("a row is wrong: nothing was stored", "correct the file, or use --row-by-row")


def _read(file: Path) -> bytes:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise Failed(f"{file} is too large", code=USAGE)
        return file.read_bytes()
    except OSError as error:
        raise Failed(f"{file} cannot be read: {error.strerror}", code=USAGE) from error


def _plates(file: Path | None) -> list[dict[str, Any]]:
    if file is None:
        return []
    try:
        found = json.loads(_read(file))
    except ValueError as error:
        raise Failed(f"{file} is not JSON", code=USAGE) from error
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise Failed(f"{file} is no list of maps", code=USAGE)
    return found


def _print(done: LabImport) -> None:
    errors = [(row.line, error) for row in done.rows for error in row.errors]
    if errors:
        table(
            "",
            ("line", "column", "error", "what is wrong"),
            ((line, error.column, error.code, error.message) for line, error in errors[:MOST_ERRORS]),
        )
        if len(errors) > MOST_ERRORS:
            note(f"and {len(errors) - MOST_ERRORS} more: see --json")
    if done.values:
        table(
            "",
            ("review", "quantity", "value", "sigma", "unit", "n", "verdict", "version"),
            (
                (
                    one.review,
                    m.quantity,
                    number(m.value, 6),
                    number(m.sigma),
                    m.unit,
                    n,
                    one.verdict,
                    one.version,
                )
                for one in done.values
                for m, n in zip(one.measurements, one.replicates, strict=True)
            ),
        )
    if done.ignored_columns:
        note(f"columns that mean nothing here: {', '.join(map(repr, done.ignored_columns))}")
    counted = ", ".join(f"{count} {status}" for status, count in sorted(done.counts.items())) or "no rows"
    was = " (it was there already)" if done.state is ImportState.IMPORTED and not done.created else ""
    say(f"{done.state}{f' as {done.id}' if done.id else ''}: {counted}{was}")


@app.command()
def worklist(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file; else it is printed.")
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=2_000)] = 1_000,
    as_json: AsJson = False,
) -> None:
    """What waits for the laboratory, as CSV to fill in and import."""
    with connect() as client:
        text = client.lab_requests(queue=queue, limit=limit)
    if as_json:
        for row in csv.DictReader(io.StringIO(text, newline="")):
            dump(dict(row))
    elif output is None:
        typer.echo(text.replace("\r\n", "\n"), nl=False)
    else:
        output.write_bytes(text.encode("utf-8-sig"))  # with which spreadsheets know that it is UTF-8
        note(f"written to {output}; fill in `value`, then: verifier lab import {output}")
