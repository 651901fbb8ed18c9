"""A service in trouble for the tests with trainers: one per test file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.trouble import Trouble, troubled


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trouble]:
    with troubled(tmp_path_factory.mktemp("trouble")) as service:
        yield service
