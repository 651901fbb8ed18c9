"""What a browser test leaves behind: a picture always, a trace where it failed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.server import ROOT

TESTS = """
def test_good(page):
    page.goto("data:text/html,<title>x</title>hello")

def test_bad(page):
    page.goto("data:text/html,<title>x</title>hello")
    assert page.title() == "y"

def test_loud(page):
    page.goto("data:text/html,<title>x</title>hello")
    page.evaluate("console.error('heard')")
"""


def test_pictures_of_all_and_traces_of_those_that_failed(tmp_path: Path) -> None:
    (tmp_path / "test_small.py").write_text(TESTS)
    kept = tmp_path / "kept"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.browser.conftest", "-c", os.devnull, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "BROWSER_SCREENSHOTS": str(kept), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "1 failed" in ran.stdout, ran.stdout[-2_000:] + ran.stderr[-2_000:]
    assert "1 error" in ran.stdout, "what is written to the console is an error of its test"
    found = sorted(str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file())
    assert found == [
        "failed/test_small.test_bad.png",
        "failed/test_small.test_bad.zip",
        "failed/test_small.test_loud.png",
        "failed/test_small.test_loud.zip",
        "test_small.test_good.png",
    ]
    with zipfile.ZipFile(kept / "failed/test_small.test_bad.zip") as trace:
        assert any(name.endswith("trace.trace") for name in trace.namelist())
