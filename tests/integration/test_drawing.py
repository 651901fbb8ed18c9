"""Pictures of molecules: drawn, refused in words, and nothing of a text runs in them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.support import slow_drawings
from tiers import drawing
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
    ("text", "formula", "heavy", "mass"),
    [
        ("c1ccccc1O", "C6H6O", 7, 94.113),
        ("[2H]C([2H])([2H])O", "CH[2H]3O", 2, 35.06),
        ("CC(=O)[O-].[Na+]", "C2H3NaO2", 5, 82.034),
        ("[NH4+]", "H4N+", 1, 18.039),
    ],
)
def test_a_drawing_comes_with_facts(
    drawer: RdkitDrawer, text: str, formula: str, heavy: int, mass: float
) -> None:
    facts = drawer.draw(text).facts
    assert facts is not None
    assert (facts.formula, facts.heavy_atoms) == (formula, heavy)
    assert facts.molar_mass == pytest.approx(mass, abs=0.01)


def alive(module: str) -> list[psutil.Process]:
    return [
        one
        for one in psutil.Process().children(recursive=True)
        if module in one.cmdline() and one.status() != psutil.STATUS_ZOMBIE
    ]


def test_a_drawing_that_does_not_end_is_killed_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "CHILD", slow_drawings.CHILD)
    monkeypatch.setattr(drawing, "DEADLINE_S", 1.0)
    made = RdkitDrawer()
    try:
        for text in ("C", "N"):
            assert made.draw(text).svg is not None
        with ThreadPoolExecutor(3) as several:
            asked = [several.submit(made.draw, slow_drawings.ENDLESS) for _ in range(3)]
            assert made.draw("CCO").svg is not None
            assert not any(one.done() for one in asked), "one process draws for all three"
            [drawn] = {one.result() for one in asked}
        assert (drawn.svg, drawn.code) == (None, "too_slow")
        assert len(alive(slow_drawings.CHILD)) <= 1, "the one that drew for ever is gone"
        greedy = made.draw(slow_drawings.GREEDY)
        assert (greedy.svg, greedy.code) == (None, "too_large")
        assert "memory" in (greedy.message or "")
        assert made.draw("CCN").svg is not None
    finally:
        made.close()
    assert alive(slow_drawings.CHILD) == []


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
