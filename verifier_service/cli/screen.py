"""What commands show: tables and sentences for people, or JSON and nothing else on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, TypeAlias

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from verifier_service.domain.records import JsonObject

PIPE_WIDTH = 180

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="JSON on standard output, nothing else.")]


def console(*, stderr: bool = False) -> Console:
    """A console on the current stream; a pipe gets wide lines instead of the 80 columns of rich."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr, width=None if stream.isatty() else PIPE_WIDTH, highlight=False, soft_wrap=False
    )


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Progress]:
    """A progress bar on standard error, for those who watch."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console(stderr=True),
        disable=quiet or not sys.stderr.isatty(),
    ) as progress:
        yield progress


def plain(value: object) -> str:
    """Text that cannot steer the terminal: candidates are written by models."""
    text = "" if value is None else str(value)
    return "".join(char if char.isprintable() else " " for char in text)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; cells are plain text, never markup (SMILES has brackets)."""
    grid = Table(title=title or None, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        grid.add_column(column, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(plain(cell)) for cell in row))
    console().print(grid)


def say(message: str) -> None:
    """A sentence on standard output."""
    console().print(message, markup=False, soft_wrap=True)


def note(message: str) -> None:
    """A sentence on standard error: progress and remarks that are not the result."""
    console(stderr=True).print(message, markup=False, soft_wrap=True)


def complain(message: str, next_step: str | None) -> None:
    """An error on standard error, with what to do next."""
    screen = console(stderr=True)
    screen.print(Text("error: ", style="bold red") + Text(plain(message)), soft_wrap=True)
    if next_step:
        screen.print(Text("next:  ", style="bold") + Text(plain(next_step)), soft_wrap=True)


def dump(record: BaseModel | JsonObject) -> None:
    """One JSON document on one line."""
    text = record.model_dump_json(by_alias=True) if isinstance(record, BaseModel) else json.dumps(record)
    typer.echo(text)


def dump_all(records: Iterable[BaseModel]) -> None:
    """JSON lines."""
    for record in records:
        dump(record)


def number(value: float | None, digits: int = 3) -> str:
    """A number, or a dash for null."""
    return "–" if value is None else f"{value:.{digits}g}"


def money(value: float | None) -> str:
    """Credits; small amounts keep two significant digits."""
    if value is None:
        return "–"
    return f"{value:.2f}" if value >= 1 or value == 0 else f"{value:.2g}"
