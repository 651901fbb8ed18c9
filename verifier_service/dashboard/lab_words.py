"""What to do about a wrong row, in words, by the code of its error (``docs/lab-results.md`` lists them)."""

from __future__ import annotations

from collections.abc import Mapping

_CELL = "Correct the cell."
_UNIT = "Write a unit that converts to the one of the worklist."
_TARGET = "Take review, run and trajectory from the worklist; leave the others empty."
WORDS: Mapping[str, str] = {
    "missing_target": "Name the review, the run and trajectory, the candidate, or plate and well.",
    "unknown_check": "Compare it with the worklist: nothing that waits is called that.",
    "target_mismatch": "The names in this row mean different checks: was a column sorted alone?",
    "ambiguous_candidate": _TARGET,
    "ambiguous_check": _TARGET,
    "check_not_waiting": "Leave the row out: the check is decided, or has ended.",
    "check_claimed": "A reviewer holds it. Wait, or ask a lead to reassign it.",
    "needs_approvals": "Several people decide it at the desk. Leave the row out.",
    "own_submission": "Somebody else must send what is about your own submissions.",
    "may_not_judge": "Leave verdict and grades empty: they are given at the desk.",
    "may_not_settle": "Somebody with the scope operate must send what became of events.",
    "not_a_number": "Write a plain number, without words or units.",
    "not_finite": "Write a finite number, or leave the cell empty.",
    "ambiguous_number": "Say above which decimal mark the file has.",
    "mixed_decimals": "Use one decimal mark in the whole file.",
    "formula": "Put the value there, not the formula.",
    "negative_sigma": "Write one standard deviation, 0 or more.",
    "missing_value": "Fill in a value or a verdict, or empty the row.",
    "missing_field": "Fill in the cell that is named.",
    "unknown_unit": _UNIT,
    "unit_not_convertible": _UNIT,
    "two_units": "Keep one unit: that of the column or that of the row.",
    "implausible": "Check value and unit.",
    "duplicate_row": "Keep one of the rows, or number them as replicates.",
    "conflicting_verdict": "Rows of one check need one verdict.",
    "older_than_stored": "A later measurement is stored already. Leave the row out.",
    "too_many_checks": "Split the file.",
    "unknown_plate": "Import the map of the plate first, over the API.",
    "bad_well": "Write a well as A1, on the plate.",
    "unknown_well": "The plate's map has nothing in this well.",
}


def what_to_do(code: str) -> str:
    """Advice for a code; the same for all that concern one cell."""
    return WORDS.get(code, _CELL)
