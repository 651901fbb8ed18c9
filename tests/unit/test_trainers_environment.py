"""How adapters that are called without arguments learn what to ask, and read labels."""

from __future__ import annotations

from typing import Any

import pytest

from verifier_service.trainers.environment import scoring_of
from verifier_service.trainers.labels import object_of
from verifier_service.trainers.scoring import Misconfigured, Scoring

NEEDED = {"VERIFIER_RUN": "r", "VERIFIER_LADDER": "l"}


def test_what_is_set_is_used() -> None:
    assert scoring_of(NEEDED.get) == Scoring(run="r", ladder="l")
    chosen = {**NEEDED, "VERIFIER_UNTIL": "fast", "VERIFIER_SECONDS": "7.5"}
    assert scoring_of(chosen.get) == Scoring(run="r", ladder="l", until="fast", seconds=7.5)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"VERIFIER_RUN": None}, "VERIFIER_RUN"),
        ({"VERIFIER_LADDER": ""}, "VERIFIER_LADDER"),
        ({"VERIFIER_UNTIL": "soon"}, "VERIFIER_UNTIL"),
        ({"VERIFIER_SECONDS": "a while"}, "VERIFIER_SECONDS"),
        ({"VERIFIER_SECONDS": "nan"}, "VERIFIER_SECONDS"),
        ({"VERIFIER_SECONDS": "-1"}, "VERIFIER_SECONDS"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(Misconfigured, match=named):
        scoring_of({**NEEDED, **changes}.get)


@pytest.mark.parametrize(
    ("label", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        (' {"a": 1}\n', {"a": 1}),
        ("{1, 2}", "{1, 2}"),
        ('{"a": NaN}', '{"a": NaN}'),
        ("{" * 200_000, "{" * 200_000),
        ("[1]", "[1]"),
        ("42", "42"),
        ("", None),
        (None, None),
        (7, 7),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_labels_that_are_objects_are_read(label: Any, found: Any) -> None:
    assert object_of(label) == found
