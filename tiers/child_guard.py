"""What a child does to itself before it loads anything: limits, silence, and dying with its parent."""

from __future__ import annotations

import ctypes
import faulthandler
import fcntl
import os
import resource
import signal
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MIB = 1024 * 1024


def die_with_parent(parent: int, life: int, *, watch: bool = True) -> None:
    """Arrange that the whole process group is killed when the parent goes.

    ``life`` is the read end of a pipe that the parent holds open and never writes to. On Linux the kernel
    itself kills the group when the pipe closes, whatever the interpreter is doing. The parent-death
    signal is only the second choice: it reaches this process alone, and where it came first the pipe
    would have no reader left to act on, and grandchildren would survive. With ``watch`` a thread waits
    for the pipe to close as well. Exits at once when the parent is gone already.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        # Orphaned grandchildren come back to this process, where the parent can still find them.
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if _kernel_reports_closed_pipes():
            _signal_on_close(life, -os.getpgrp(), signal.SIGKILL)
        else:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    if watch:
        threading.Thread(target=_watch, args=(life,), name="life", daemon=True).start()


def _signal_on_close(reader: int, owner: int, number: signal.Signals) -> None:
    if sys.platform == "linux":
        fcntl.fcntl(reader, fcntl.F_SETOWN, owner)
        fcntl.fcntl(reader, fcntl.F_SETSIG, number)
        fcntl.fcntl(reader, fcntl.F_SETFL, fcntl.fcntl(reader, fcntl.F_GETFL) | os.O_ASYNC)


def _kernel_reports_closed_pipes() -> bool:
    """Try it with a harmless signal: some sandboxes accept the calls and never send anything."""
    reader, writer = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGURG})
    try:
        _signal_on_close(reader, os.getpid(), signal.SIGURG)
        os.close(writer)
        return signal.sigtimedwait({signal.SIGURG}, 0.01) is not None
    except OSError:
        return False
    finally:
        os.close(reader)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch(life: int) -> None:
    with suppress(OSError):
        os.read(life, 1)
    os.killpg(0, signal.SIGKILL)


def limit_resources(file_mb: int, open_files: int) -> None:
    """No core files, files of at most ``file_mb`` MiB, at most ``open_files`` descriptors.

    Memory is sampled from outside instead: limits on address space break numerical libraries.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_FSIZE, file_mb * _MIB)
    _lower(resource.RLIMIT_NOFILE, open_files)
    if sys.platform == "linux":
        # Under memory pressure the kernel must pick a child, never the service.
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")


def _lower(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (bound, bound))


def silence(log: int) -> None:
    """Send standard error to nowhere from here on; the trace of what ends the process goes to ``log``."""
    faulthandler.enable(log, all_threads=False)
    words = os.fdopen(log, "w", errors="backslashreplace")
    sys.excepthook = lambda *raised: traceback.print_exception(*raised, file=words)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
