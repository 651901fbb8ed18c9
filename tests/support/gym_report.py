"""The tables of the documentation; ``python -W ignore -m tests.support.gym_report`` writes them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping

from tests.support.gym_comparison import Compared, compared
from tests.support.gym_disagreements import JUDGEMENTS
from tests.support.gym_table import JUDGED, LEFT_OUT

MAX_NAMES = 6


def counts_table(rows: Mapping[str, list[Compared]]) -> str:
    """Per data set how many answers were tried, and how the verdicts compare."""
    lines = [
        "| data set | verifier | own answers accepted | wrong answers | only we accept | only they accept "
        "| other styles | only we accept | only they accept |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    total: Counter[str] = Counter()
    for name, answers in rows.items():
        counts = Counter(key for row in answers for key in _counted(row))
        total += counts
        lines.append(_line(name, JUDGED[name].verifier, counts))
    lines.append(_line(f"**{len(rows)} data sets**", "", total))
    return "\n".join(lines) + "\n"


def _counted(row: Compared) -> Iterator[str]:
    yield row.meant
    if row.meant == "own" and row.ours and row.theirs:
        yield "own accepted"
    if row.ours != row.theirs:
        yield f"{row.meant} {'us' if row.ours else 'them'}"


def _line(name: str, verifier: str, counts: Counter[str]) -> str:
    cells: list[object] = [name, verifier, f"{counts['own accepted']} of {counts['own']}"]
    for meant in ("wrong", "restyled"):
        cells += [counts[meant], counts[f"{meant} us"] or "", counts[f"{meant} them"] or ""]
    return f"| {' | '.join(map(str, cells))} |"


def judgements_table() -> str:
    """The disagreements with their judgements."""
    lines = ["| change | data sets | accepted by | right | why |", "|---|---|---|---|---|"]
    for judgement in JUDGEMENTS:
        names = list(dict.fromkeys(name for cases in judgement.cases.values() for name in cases))
        shown = ", ".join(names)
        if len(names) > MAX_NAMES:
            shown = f"{', '.join(names[:3])} … ({len(names)} data sets)"
        cells = (", ".join(judgement.cases), shown, judgement.accepted_by, judgement.right, judgement.why)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def left_out_table() -> str:
    """The data sets that are not compared, and why."""
    lines = ["| data set | why |", "|---|---|", *(f"| {name} | {why} |" for name, why in LEFT_OUT.items())]
    return "\n".join(lines) + "\n"


def tables(rows: Mapping[str, list[Compared]]) -> tuple[str, str, str]:
    """Judgements, counts, and what is left out."""
    return judgements_table(), counts_table(rows), left_out_table()


def main() -> None:
    """Write the tables to standard output."""
    sys.stdout.write("\n".join(tables({name: compared(name) for name in JUDGED})))


if __name__ == "__main__":
    main()
