"""One file with every kind of wrong row: each error names its row, column and limit, on both databases."""

from __future__ import annotations

import csv
import io

import pytest

from tests.support.lab import GOOD, QUANTITY, codes, requested, sent, statuses, wait_at_lab
from tests.support.story import Story
from verifier_service.domain.evidence import Measurement
from verifier_service.domain.tabular import guarded, unguarded

Q = QUANTITY
WRONG = f"""run;trajectory;candidate;quantity;value;unit;sigma;replicate;verdict
r;t0;;{Q};4,25;1;0,1;;
r;nobody;;{Q};4,25;1;;;
r;t1;;{Q};n/a;1;;;
r;t1;;{Q};NaN;1;;;
r;t1;;{Q};1e999;1;;;
r;t1;;{Q};4,25;1;-0,1;;
r;t1;;{Q};4,25;eV;;;
r;t1;;{Q};4,25;furlong;;;
r;t0;;{Q};4,5;1;0,1;;
r;t1;;{Q};123456,5;1;;;
r;t1;;{Q};=1+1;1;;;
=cmd();t1;;{Q};4,25;1;;;
r;;;{Q};4,25;1;;;
;;;{Q};4,25;1;;;
;;CCCCCCCCN;{Q};4,25;1;;;
r;t1;{GOOD[0]};{Q};4,25;1;;;
r;t1;;;4,25;1;;;
r;t1;;{Q};4,25;;;;
r;t1;;{Q};1.234;1;;;
r;t1;;{Q};1e13;1;;;
r;t1;;{Q};;1;0,1;;
r;t1;;{Q};4,25;1;;;perhaps
r;t1;;yield;140,5;%;;;
r;t2;;{Q};;1;;;
;;{GOOD[3]};{Q};4,25;1;;1;
;;{GOOD[3]};{Q};4,75;1;;2;
"""


def test_every_wrong_row_is_named_with_its_column_and_limit(told: Story) -> None:
    wait_at_lab(told, 4)
    done = sent(told, WRONG, ranges={Q: {"low": 0.0, "high": 1000.0}}, all_or_nothing=False)
    assert codes(done) == {
        3: [("unknown_check", "trajectory", None)],
        4: [("not_a_number", "value", None)],
        5: [("not_finite", "value", None)],
        6: [("not_finite", "value", None)],
        7: [("negative_sigma", "sigma", 0.0)],
        8: [("unit_not_convertible", "value", None)],
        9: [("unknown_unit", "value", None)],
        10: [("duplicate_row", "replicate", None)],
        11: [("implausible", "value", 1000.0)],
        12: [("formula", "value", None)],
        13: [("formula", "run", None)],
        14: [("missing_field", "trajectory", None)],
        15: [("missing_target", None, None)],
        16: [("unknown_check", "candidate", None)],
        17: [("target_mismatch", "candidate", None)],
        18: [("missing_field", "quantity", None)],
        19: [("missing_field", "unit", None)],
        20: [("ambiguous_number", "value", None)],
        21: [("out_of_range", "value", 1e12)],
        22: [("missing_value", "value", None)],
        23: [("not_one_of", "verdict", None)],
        24: [("implausible", "value", 100.0)],
    }
    assert {line: was for line, was in statuses(done).items() if was != "refused"} == {
        2: "accepted",
        25: "empty",
        26: "accepted",
        27: "accepted",
    }
    assert done.counts == {"accepted": 3, "refused": 22, "empty": 1}
    one, pair = (value.measurements for value in done.values)
    assert one == (Measurement(quantity=Q, value=4.25, unit="1", sigma=0.1),)
    assert (pair[0].value, pair[0].sigma) == (4.5, pytest.approx(0.25))


def test_the_reported_file_is_read_as_the_report_says(told: Story) -> None:
    """Area 8, CSV dialects: byte order mark, semicolons, decimal commas, long notes, duplicates."""
    reviews = wait_at_lab(told, 3)
    a1, a2, a4 = GOOD[:3]
    lines = [
        "\ufeffcompound_id;yield_pct;note",
        f'{a1};12,5;"line1\nline2; still"',
        f"{a1};12,5;dup",
        f"{a2};1.234,50;x",
        "=cmd();3;",
        f"{a4};n/a;",
    ]
    raw = "\r\n".join(lines) + "\r\n"
    done = sent(told, raw, all_or_nothing=False, dry_run=True)
    assert codes(done) == {
        4: [("duplicate_row", "replicate", None)],
        5: [("implausible", "yield_pct", 100.0)],
        6: [("formula", "compound_id", None)],
        7: [("not_a_number", "yield_pct", None)],
    }
    assert done.ignored_columns == ("note",)
    [value] = done.values
    assert value.review == reviews["t0"]
    assert value.measurements == (Measurement(quantity="yield", value=12.5, unit="%", sigma=None),)


def test_more_checks_than_one_transaction_should_hold_are_left_to_another_file(
    told: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_at_lab(told, 3)
    monkeypatch.setattr("verifier_service.domain.lab_evaluation.MAX_CHECKS", 2)
    text = f"run,trajectory,{Q} [1]\n" + "".join(f"r,t{at},5\n" for at in range(3))
    assert codes(sent(told, text)) == {4: [("too_many_checks", None, 2.0)]}


def test_units_become_those_of_the_ladder(told: Story) -> None:
    wait_at_lab(told)
    done = sent(told, f"candidate,{Q} (%),sigma (%)\n{GOOD[0]},450,10\n", dry_run=True)
    [measured] = done.values[0].measurements
    assert (measured.value, measured.sigma, measured.unit) == (pytest.approx(4.5), pytest.approx(0.1), "1")


def test_a_quantity_that_a_later_file_does_not_name_stays(told: Story) -> None:
    wait_at_lab(told)
    header = "run,trajectory,quantity,value,unit\n"
    sent(told, f"{header}r,t0,{Q},4,1\nr,t0,logP,1.5,1\n")
    done = sent(told, f"{header}r,t0,{Q},5,1\n")
    assert [(one.quantity, one.value) for one in done.values[0].measurements] == [(Q, 5.0), ("logP", 1.5)]
    latest = told.latest("r", "t0").measurements
    assert [(one.quantity, one.value) for one in latest[-2:]] == [(Q, 5.0), ("logP", 1.5)]


def test_a_worklist_is_harmless_in_a_spreadsheet_and_comes_back_as_it_was(told: Story) -> None:
    told.submit("r", {"id": "-1+cmd", "answer": GOOD[0]}, {"id": "@SUM", "answer": GOOD[1]})
    told.rest()
    rows = list(csv.DictReader(io.StringIO(requested(told), newline="")))
    assert [row["trajectory"] for row in rows] == ["'-1+cmd", "'@SUM"]
    assert not any(
        cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for cell in row.values()
    )
    text = requested(told).replace(f'"{Q}",,1,', f"{Q},5,1,")
    assert statuses(sent(told, text)) == {2: "accepted", 3: "accepted"}


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd", "'+cmd"),
        ("-2+3", "'-2+3"),
        ("@x", "'@x"),
        ("\tx", "'\tx"),
        ("\rx", "'\rx"),
        ("-1.5", "-1.5"),
        ("+3e-5", "+3e-5"),
        ("CCO", "CCO"),
        ("", ""),
        ("CC;=cmd|' /C calc'!A0;x", "CC;'=cmd|' /C calc'!A0;x"),
        ("CC\n=1,+1\t@x", "CC\n'=1,'+1\t'@x"),
        ("＝1", "'＝1"),
        ("a;＋1;－1;＠x", "a;'＋1;'－1;'＠x"),
        ("\n=1", "'\n'=1"),
        (" =1", "' =1"),
        ("\ufeff=1", "'\ufeff=1"),
        ('a;"=1', "a;'\"=1"),
        ("'=1", "''=1"),
        ("'note", "'note"),
        ("C=C-C", "C=C-C"),
        ("a - b", "a - b"),
    ],
)
def test_only_what_a_spreadsheet_would_run_gets_an_apostrophe(cell: str, shown: str) -> None:
    assert guarded(cell) == shown
    assert unguarded(shown) == cell


def test_the_worklist_names_a_shared_check_once(told: Story) -> None:
    wait_at_lab(told, 2)
    told.submit("q", {"id": "same", "answer": GOOD[0]})
    told.rest()
    assert len(requested(told).split("\r\n")) == 4
    assert len(requested(told, limit=1).split("\r\n")) == 3
