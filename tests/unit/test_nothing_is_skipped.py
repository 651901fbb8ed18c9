"""A test that skips where something is missing hides that it is: here it fails."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
SKIPS = {"importorskip", "skip", "skipif", "xfail", "SkipTest", "skipTest", "skipUnless"}
OF_PYTEST = {"pytest", "mark", "unittest", "self"}


def skips(source: str) -> list[int]:
    """Lines that may skip a test."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and node.attr in SKIPS
        and (getattr(node.value, "id", None) in OF_PYTEST or getattr(node.value, "attr", None) in OF_PYTEST)
    ]


def test_no_test_skips_itself() -> None:
    files = sorted(TESTS.rglob("*.py"))
    assert len(files) > 200
    found = {str(path.relative_to(TESTS)): lines for path in files if (lines := skips(path.read_text()))}
    assert found == {}


def test_what_skips_is_found() -> None:
    assert skips("import pytest\npytest.importorskip('x')\n@pytest.mark.skipif(True)\ndef f(): ...\n") == [
        2,
        3,
    ]
    assert skips("client.skip(1)\n") == []
