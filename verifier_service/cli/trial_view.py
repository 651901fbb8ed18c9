"""A trial on the screen: one block per line of the file, readable at 80 columns."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from verifier_service.cli.screen import plain
from verifier_service.cli.trial_records import Tried, TriedCheck
from verifier_service.domain.evidence import Verdict
from verifier_service.domain.records import JsonObject, JsonValue
from verifier_service.domain.states import CheckState

WIDEST = 100
NARROWEST = 40
TEXT_LINES = 12
TEXT_CHARS = 800
TABLE_ROWS = 40
TABLE_COLUMNS = 8
CELL_CHARS = 60
LABEL_WIDTH = 12
COLOURS = {Verdict.ACCEPT: "green", Verdict.REJECT: "red"}


def show(tried: Tried) -> None:
    """Print one line's block."""
    screen = _screen()
    screen.print(Rule(_title(tried), align="left", style="dim"))
    if tried.error is not None:
        where = f"{tried.error.field}: " if tried.error.field else ""
        _field(screen, "not taken", f"{tried.error.code}: {where}{tried.error.message}", "red")
        return
    _field(screen, "taken from", tried.source)
    _field(screen, "candidate", _text(tried.candidate))
    if tried.canonical is not None:
        _field(screen, "canonical", tried.canonical)
    hidden = "" if tried.reference is not None else " (values hidden, see --show-reference)"
    seen = ", ".join(tried.compared_with)
    if seen:
        _field(screen, "held against", f"{seen}{hidden if 'reference.' in seen else ''}")
    if tried.reference is not None:
        _field(screen, "reference", _text(tried.reference))
    for check in tried.checks:
        _show_check(screen, check)
    _field(screen, "reward", tried.formula, "bold")
    reason = tried.record.reason if tried.record is not None else None
    if reason is not None and reason.detail not in _told(tried):
        detail = f" / {reason.detail}" if reason.detail else ""
        _field(screen, "because", f"{reason.code}{detail}: {reason.message}")
    if tried.note is not None:
        _field(screen, "note", tried.note)


def _told(tried: Tried) -> set[str]:
    """Codes that a check has already explained."""
    told = (each for check in tried.checks for each in (check.reason, check.failure) if each is not None)
    return {each.code for each in told}


def summary(endings: Counter[str], seconds: float) -> None:
    """Print how many lines ended how."""
    screen = _screen()
    screen.print(Rule(style="dim"))
    count = endings.total()
    screen.print(Text(f"{count} lines in {seconds:.1f} s" + (":" if count else ", nothing to try")))
    for words, times in endings.most_common():
        screen.print(Text(f"{times:>6}  {words}"))


def ending(tried: Tried) -> str:
    """How a line ended, in a few words."""
    record = tried.record
    if tried.error is not None or record is None:
        return "not taken"
    reason = record.reason
    why = f", {reason.detail or reason.code}" if reason is not None else ""
    if record.reward is None:
        return f"no reward{f', {reason.code}' if reason is not None and reason.detail else ''}{why}"
    return f"reward {record.reward:.3g}{why}"


def _screen() -> Console:
    columns = shutil.get_terminal_size((80, 24)).columns
    return Console(width=max(NARROWEST, min(columns, WIDEST)), highlight=False)


def _title(tried: Tried) -> Text:
    record = tried.record
    title = Text(f"line {tried.line}", style="bold")
    title.append(f"  {plain(tried.id or '')[:50]}  ", style="default")
    if record is not None:
        number = "null" if record.reward is None else f"{record.reward:.4g}"
        title.append(f"{number} {record.status}", style="bold")
    return title


def _field(screen: Console, label: str, text: str, style: str = "default") -> None:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=LABEL_WIDTH, no_wrap=True)
    grid.add_column(overflow="fold")
    lines = Text("\n").join(Text(plain(line), style=style) for line in text.split("\n"))
    grid.add_row(Text(label, style="dim"), lines)
    screen.print(grid)


def _show_check(screen: Console, check: TriedCheck) -> None:
    head = Text(f"{check.verifier}", style="bold")
    head.append(f" {check.version}" if check.version else "")
    head.append(f"  {check.path}, {check.role.replace('_', ' ')}  ", style="dim")
    head.append(*_verdict(check))
    if check.cost.cpu_s > 0:
        head.append(f"  {_duration(check.cost.cpu_s)} CPU", style="dim")
    screen.print(head)
    for label, text in _details(check):
        _field(screen, f"  {label}", text)
    for artifact in check.artifacts:
        _show_artifact(screen, artifact)


def _verdict(check: TriedCheck) -> tuple[str, str]:
    if check.verdict is None:
        return (str(check.check_state or check.state), "yellow")
    score = "" if check.score is None else f", score {check.score:.4g}"
    return f"{check.verdict}{score}", COLOURS.get(check.verdict, "yellow")


def _details(check: TriedCheck) -> Iterator[tuple[str, str]]:
    if check.failure is not None:
        yield "failure", f"{check.failure.kind} / {check.failure.code}: {check.failure.message}"
        yield "attempts", str(check.attempts)
    if check.reason is not None:
        yield "reason", f"{check.reason.code}: {check.reason.message}"
    for hint in check.hints:
        yield "hint", (f"turn {hint.turn}: " if hint.turn is not None else "") + hint.text
    for measured in check.measurements:
        sigma = "" if measured.sigma is None else f" ± {measured.sigma:.3g}"
        yield "measured", f"{measured.quantity} = {measured.value:.6g}{sigma} {measured.unit}"
    if check.per_turn is not None:
        yield "per turn", ", ".join("–" if value is None else f"{value:.3g}" for value in check.per_turn)
    if check.assumptions:
        yield "assumed", "; ".join(check.assumptions)
    if check.labels:
        yield "labels", ", ".join(f"{name}={value}" for name, value in sorted(check.labels.items()))
    method = [f"{name}={json.dumps(value)}" for name, value in sorted(check.params.items())]
    method += [f"{name} {version}" for name, version in sorted(check.libraries.items())]
    if method:
        yield "method", ", ".join(method)
    if check.verdict is None and check.failure is None and check.check_state is not CheckState.RUNNING:
        yield "note", check.note


def _show_artifact(screen: Console, artifact: JsonObject) -> None:
    """Lists of equal objects (the tests of a program, say) as a table, the rest as JSON."""
    rest = {}
    for name, value in artifact.items():
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            _show_rows(screen, name, [row for row in value if isinstance(row, dict)])
        else:
            rest[name] = value
    if rest.keys() - {"kind"}:
        _field(screen, "  artifact", ", ".join(f"{name}: {_cell(value)}" for name, value in rest.items()))


def _show_rows(screen: Console, title: str, rows: Sequence[JsonObject]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))[:TABLE_COLUMNS]
    grid = Table(title=plain(title), title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        grid.add_column(plain(column), overflow="fold")
    for row in rows[:TABLE_ROWS]:
        grid.add_row(*(Text(plain(_cell(row.get(column)))) for column in columns))
    screen.print(Padding(grid, (0, 0, 0, LABEL_WIDTH + 1)))
    if len(rows) > TABLE_ROWS:
        _field(screen, "", f"and {len(rows) - TABLE_ROWS} more (see --json)")


def _cell(value: JsonValue) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…"


def _text(value: JsonValue) -> str:
    """A candidate as it is, shortened where it is long."""
    if value is None:
        return "nothing was found there"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if text == "":
        return "an empty text"
    lines = text[:TEXT_CHARS].rstrip("\n").split("\n")
    kept = "\n".join(lines[:TEXT_LINES])
    left = len(text.rstrip("\n")) - len(kept)
    return kept if left <= 0 else f"{kept}\n… {left:,} characters more (see --json)"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
