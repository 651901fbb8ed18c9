"""A worker that kills itself at a point of the story, once, as its machine might.

    python -m tests.support.crashing POINT SIGN worker --tier fast

Points: ``claimed`` (work was leased), ``worked`` (it is done, nothing is committed), ``committed`` (before
anybody is woken). The file SIGN says that it has happened: a worker that finds it lives.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from verifier_service.bootstrap import Service
from verifier_service.cli import main
from verifier_service.dispatch.celery import CeleryDispatcher

POINTS = ("claimed", "worked", "committed")


def install(point: str, sign: Path) -> None:
    """Put the crash where it belongs."""
    take, report = Service.take, Service.report
    reporting: list[bool] = []

    def die() -> None:
        try:
            os.close(os.open(sign, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    def claimed(self: Service, *args: Any, **kwargs: Any) -> Any:
        taken = take(self, *args, **kwargs)
        if taken.jobs:
            die()
        return taken

    def worked(self: Service, *args: Any, **kwargs: Any) -> None:
        if point == "worked":
            die()
        reporting.append(True)
        report(self, *args, **kwargs)
        reporting.clear()

    def told(*_: Any) -> None:
        """In place of wakes and announcements, which follow the commit."""
        if reporting:
            die()

    if point == "claimed":
        Service.take = claimed  # type: ignore[method-assign]
        return
    Service.report = worked  # type: ignore[method-assign]
    if point == "committed" and not sign.exists():
        CeleryDispatcher.wake = told  # type: ignore[method-assign]
        CeleryDispatcher.announce = told  # type: ignore[method-assign]


if __name__ == "__main__":
    assert sys.argv[1] in POINTS
    install(sys.argv[1], Path(sys.argv[2]))
    sys.argv[1:] = sys.argv[3:]
    main()
