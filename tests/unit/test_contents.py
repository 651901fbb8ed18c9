"""Names and digests of submissions."""

from __future__ import annotations

import pytest

from tests.support.cases import ladder
from verifier_service.domain.contents import new_trajectory
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.trajectories import TrajectorySubmission, Turn


def named(secret: str = "s", **fields: object) -> str:
    item = TrajectorySubmission(ladder="gap", **fields)  # type: ignore[arg-type]
    return new_trajectory(item, ladder(), secret).id


@pytest.mark.parametrize(
    "fields", [{"answer": "a\x00b"}, {"metadata": {"k": "\x00"}}, {"metadata": {"\x00": 1}}]
)
def test_nul_is_refused_wherever_it_is(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        named(**fields)
    with pytest.raises(InvalidInput, match="NUL"):
        named(turns=(Turn(message="\\\x00"),))


def test_text_that_only_spells_the_escape_is_fine() -> None:
    assert named(answer="\\u0000")
    assert named(answer="\\\\u0000")


def test_content_names_what_has_no_id() -> None:
    assert named(answer="CCO") == named(answer="CCO")
    assert named(answer="CCO") != named(answer="OCC")
    assert named(answer="CCO", group="a") != named(answer="CCO", group="b")
    assert named(answer="CCO", metadata={"a": 1, "b": 2}) == named(answer="CCO", metadata={"b": 2, "a": 1})
    assert named(id="x", answer="CCO") == "x"
    assert named("s", answer="CCO") != named("another secret", answer="CCO")
