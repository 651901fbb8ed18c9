"""A child's temporary folder: its home and working folder, its log, and the shared page."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tiers.child_wire import PAGE

PREFIX = "verifier-child-"
_SETTLED_S = 60.0
_LOG_TAIL = 2000


class Nest:
    """Made by the parent, locked while the parent lives, removed with the child.

    The lock lets another process tell a living child's folder from one whose parent was killed.
    """

    def __init__(self, folder: str | None, environment: Mapping[str, str] | None = None) -> None:
        self._added = dict(environment or {})
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
        self.work = self.path / "work"
        self.log = self.path / "log"
        for part in (self.work, self.path / "home", self.path / "tmp"):
            part.mkdir()
        self.page = os.open(self.path / "page", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(self.page, PAGE)
        fcntl.flock(self.page, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def environment(self) -> dict[str, str]:
        """The child's whole environment: of the service's own only what was added on purpose.

        What was added may not change how the child runs: the fixed names win.
        """
        single = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
        return {
            **self._added,
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.path / "home"),
            "TMPDIR": str(self.path / "tmp"),
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
            **dict.fromkeys(single, "1"),
        }

    def last_words(self) -> str:
        """The end of what the child wrote to its log: why it did not start, or where it crashed."""
        with suppress(OSError):
            return self.log.read_bytes()[-_LOG_TAIL:].decode("utf-8", "replace").strip()
        return ""

    def remove(self) -> None:
        """Give up the lock and delete everything."""
        os.close(self.page)
        shutil.rmtree(self.path, ignore_errors=True)


def remove_abandoned(folder: str | None) -> int:
    """Delete this user's nests whose parent was killed; return how many."""
    removed = 0
    for path in Path(folder or tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if _abandoned(path):
                shutil.rmtree(path)
                removed += 1
    return removed


def _abandoned(path: Path) -> bool:
    status = path.lstat()
    # A nest just made has not been locked yet.
    if status.st_uid != os.getuid() or time.time() - status.st_mtime < _SETTLED_S:
        return False
    try:
        page = os.open(path / "page", os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(page, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(page)
    return True
