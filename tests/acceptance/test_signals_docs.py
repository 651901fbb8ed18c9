"""The examples of ``docs/signals.md`` run as they stand, and print what stands under them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import server
from tests.support.teacher import Bigram, serving

PAGE = Path(__file__).resolve().parents[2] / "docs" / "signals.md"
EXAMPLE = re.compile(r"```python\n(.*?)```\n```text\n(.*?)```\n", re.DOTALL)
FOUND = EXAMPLE.findall(PAGE.read_text())


def test_every_example_is_followed_by_what_it_prints() -> None:
    assert len(FOUND) == PAGE.read_text().count("```python") == 4


@pytest.mark.parametrize(("code", "printed"), FOUND, ids=["grpo", "ppo", "distillation", "hindsight"])
def test_the_example_prints_what_stands_under_it(code: str, printed: str, tmp_path: Path) -> None:
    running = server.shared()
    script = tmp_path / "example.py"
    script.write_text(code)
    with serving(Bigram.random(1)) as teacher:
        known = {"VERIFIER_URL": running.url, "VERIFIER_API_KEY": running.key, "TEACHER_URL": teacher.url}
        done = subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, **known, "PYTHONPATH": str(PAGE.parents[1])},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
