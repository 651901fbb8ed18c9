"""A service in trouble for the tests with trainers: one per test file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.trouble import Trouble, troubled

DEVELOPERS = Path(__file__).resolve().parents[2] / ".venv" / "bin" / "python"
os.environ.setdefault("VERIFIER_SERVER_PYTHON", str(DEVELOPERS))


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trouble]:
    with troubled(tmp_path_factory.mktemp("trouble")) as service:
        yield service
