"""Tests of webhooks that run: few at a time, because each holds a connection to where others say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from verifier_service.api.problems import Overloaded

AT_ONCE = 4
OF_A_PROJECT = 2
COME_BACK_S = 2


class Trials:
    """At most one test of an endpoint, ``OF_A_PROJECT`` of a project and ``AT_ONCE`` in this process. For
    one event loop."""

    def __init__(self) -> None:
        self._running: set[tuple[str, str]] = set()

    @contextmanager
    def one(self, project: str, webhook: str) -> Iterator[None]:
        """Room for one test. Raises ``Overloaded``."""
        if (project, webhook) in self._running:
            raise _busy("test_running", f"a test of {webhook!r} runs", 1)
        if sum(other == project for other, _ in self._running) >= OF_A_PROJECT:
            raise _busy("tests_running", f"{OF_A_PROJECT} tests of this project run", OF_A_PROJECT)
        if len(self._running) >= AT_ONCE:
            raise _busy("tests_running", f"{AT_ONCE} tests run on this server", AT_ONCE)
        self._running.add((project, webhook))
        try:
            yield
        finally:
            self._running.discard((project, webhook))


def _busy(code: str, message: str, limit: int) -> Overloaded:
    return Overloaded(code, message + "; try again when it is over", limit=limit, retry_after_s=COME_BACK_S)
