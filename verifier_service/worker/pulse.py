"""Whether the worker of this data folder is at work: ``python -m verifier_service.worker.pulse``.

Every draining thread touches a file of its own after it has asked the database for work, and after it has
renewed its leases while a verifier runs. A worker whose threads hang, or that cannot reach its database,
stops touching them; the broker has no part in it. For the health checks of containers: exits with 0 when
every thread is at work, else with 1 and the reason on standard error.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from verifier_service.settings import Settings

log = logging.getLogger(__name__)

FOLDER = "pulse"
PATIENCE_S = 30.0


class Pulse:
    """The signs of life of one draining thread."""

    def __init__(self, data: Path, name: str) -> None:
        self._file = data / FOLDER / name.replace("/", ".")

    def beat(self) -> None:
        """Say that the thread is at work. A full disk makes the worker look ill and costs it no work."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.touch()
        except OSError as error:
            log.warning("the health check of this worker will fail: %s", error)


def forget(data: Path) -> None:
    """Remove what a predecessor left in the data folder."""
    for file in (data / FOLDER).glob("*"):
        file.unlink(missing_ok=True)


def trouble(data: Path, patience_s: float) -> str | None:
    """Why the worker of a data folder is not at work, or ``None``.

    Judged by this machine's clock: nothing but these files is compared with it.
    """
    ages = {file.name: time.time() - file.stat().st_mtime for file in (data / FOLDER).glob("*")}
    if not ages:
        return f"no worker has begun in {data}"
    name = max(ages, key=lambda one: ages[one])
    return f"{name} was last at work {ages[name]:.0f} s ago" if ages[name] > patience_s else None


def main() -> int:
    """Look at the data folder of the settings; leases are renewed three times within their length."""
    settings = Settings()
    found = trouble(settings.data, max(PATIENCE_S, settings.lease_s))
    if found is not None:
        sys.stderr.write(f"{found}\n")
    return 0 if found is None else 1


if __name__ == "__main__":
    sys.exit(main())
