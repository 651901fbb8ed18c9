"""An import that its process does not survive: ``python -m tests.support.lab_killed DATA URL FILE AFTER``.

It kills itself, as a machine might, right before the commit (``AFTER`` is ``settled``) or right behind it
(``committed``).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.support.lab import JUDGE, request
from tests.support.story import PLUGINS
from verifier_service import bootstrap
from verifier_service.bootstrap import Service
from verifier_service.bootstrap import lab_results as event
from verifier_service.lab_files.sheets import sheet_of
from verifier_service.settings import Settings


def die(*_: Any, **__: Any) -> None:
    """As without power."""
    os.kill(os.getpid(), signal.SIGKILL)


def main(data: str, url: str, file: str, after: str) -> None:
    """Import the file and die."""
    service = bootstrap.build(Settings(data=Path(data), database_url=url, plugins=PLUGINS))
    if after == "committed":
        Service.announce = die  # type: ignore[method-assign]
    else:
        settled = event.settle.settle

        def settle(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("closing"):  # the last of an import
                die()
            return settled(*args, **kwargs)

        event.settle.settle = settle
    wanted = request(Path(file).read_text())
    event.import_lab_results(service, wanted, sheet_of(wanted), JUDGE)


if __name__ == "__main__":
    main(*sys.argv[1:])
