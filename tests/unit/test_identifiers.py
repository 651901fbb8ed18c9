"""Ids: what they may hold, and that none of them names another place in a path."""

from __future__ import annotations

import re

import pytest
from pydantic import TypeAdapter, ValidationError

from verifier_service.domain.trajectories import ID_PATTERN, Identifier

READ = TypeAdapter[str](Identifier)
GOOD = (
    "a",
    "...",
    "....",
    ".a",
    "..a",
    "a.",
    "a..",
    ".a.",
    "a/../b",
    "./a",
    "../a",
    "/",
    "x" * 200,
    "." * 200,
)
BAD = (
    ".",
    "..",
    "",
    "a b",
    "é",
    "a\n",
    "..\n",
    "%2e",
    "x" * 201,
    "." * 201,
    ".." + "x" * 199,
    "." + "x" * 200,
)


@pytest.mark.parametrize("text", GOOD)
def test_what_is_no_other_place_is_an_id(text: str) -> None:
    assert READ.validate_python(text) == text


@pytest.mark.parametrize("text", BAD)
def test_what_leads_elsewhere_in_a_path_is_none(text: str) -> None:
    with pytest.raises(ValidationError) as refused:
        READ.validate_python(text)
    assert refused.value.errors()[0]["type"] == "string_pattern_mismatch"


def test_python_reads_the_pattern_as_the_door_does() -> None:
    assert all(re.fullmatch(ID_PATTERN, text) for text in GOOD)
    assert not any(re.fullmatch(ID_PATTERN, text) for text in BAD)


def test_every_engine_knows_the_pattern() -> None:
    """Those of Rust, Go and OpenAPI validators have no look-around and no back-references."""
    assert "(?" not in ID_PATTERN
    assert re.search(r"\\\d", ID_PATTERN) is None
