"""Pictures of molecules: drawn, refused in words, and nothing of a text runs in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tiers.drawing import RdkitDrawer


@pytest.fixture(scope="module")
def drawer() -> Iterator[RdkitDrawer]:
    made = RdkitDrawer()
    yield made
    made.close()


def test_a_molecule_is_drawn(drawer: RdkitDrawer) -> None:
    drawn = drawer.draw("c1ccccc1O")
    assert drawn.svg is not None
    assert drawn.svg.startswith("<svg")
    assert drawer.draw(" c1ccccc1O ") is drawn


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", 'C"onload="alert(1)', "C1CC", "", "C" * 1_999]
)
def test_what_is_no_molecule_is_said_in_words(drawer: RdkitDrawer, text: str) -> None:
    drawn = drawer.draw(text)
    assert (drawn.svg, drawn.code) == (None, "not_a_structure")
    assert drawn.message


def test_a_long_text_is_not_tried(drawer: RdkitDrawer) -> None:
    assert drawer.draw("C" * 2_001).code == "too_large"


def test_a_child_that_was_killed_is_replaced(drawer: RdkitDrawer) -> None:
    assert drawer.draw("CCO").svg is not None
    drawer.close()
    for _ in range(2):
        drawer._places.put(None)
    drawer._closed = False
    assert drawer.draw("CCCO").svg is not None
