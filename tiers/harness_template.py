"""The harness's side of a template: a process whose copies are children that are warm at once."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from tiers.child_wire import Ready
from tiers.harness_nest import Nest
from tiers.harness_options import HarnessOptions, Lane
from tiers.harness_spawner import Pipes, let_die, make_pipes, spawn_template

_FORK_S = 5.0
_MAX_ANSWER = 1 << 20
_END_S = 10.0
_LOOK_S = 0.001
_EXIT_CODE = 52
_FIRST_AFTER_NAME = 3
_KILLED = -9


class Template:
    """One thread uses it; only ``reap`` and ``discard`` may come from others.

    ``loaded`` are the verifiers that its copies begin with, ``refused`` those it could not load.
    """

    def __init__(self, lane: Lane, options: HarnessOptions) -> None:
        """Start it, without waiting for it. Raises ``OSError``."""
        self.loaded: dict[str, Ready] = {}
        self.refused: set[str] = set()
        self.loading: str | None = None
        self._load_s = options.start_s
        self._load_until = 0.0
        nest = Nest(options.folder, options.environment)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            process, life = spawn_template(nest, lane, options.plugins, theirs.fileno())
        except BaseException:
            ours.close()
            nest.remove()
            raise
        finally:
            theirs.close()
        self._control = ours
        self._end = weakref.finalize(self, _destroy, process, life, ours, nest)

    def load(self, verifier: str) -> None:
        """Ask for one more verifier. Raises ``OSError``."""
        self.loading = verifier
        self._load_until = time.monotonic() + self._load_s
        self._send({"do": "load", "verifier": verifier})

    def settle(self) -> bool:
        """Look, without waiting, whether it is ready for orders. Raises ``OSError`` when it has died."""
        if self.loading is None:
            return True
        self._control.settimeout(0.0)
        try:
            answer = self._receive()
        except BlockingIOError:
            if time.monotonic() > self._load_until:
                raise TimeoutError(f"{self.loading} was not ready after {self._load_s:g} s") from None
            return False
        if "ready" in answer:
            self.loaded[self.loading] = Ready.model_validate(answer["ready"])
        else:
            self.refused.add(self.loading)
        self.loading = None
        return True

    def fork(self, nest: Nest) -> tuple[Copy, Pipes]:
        """Make a copy that lives in ``nest``. Raises ``OSError``, ``Unforkable`` among them."""
        theirs, ours = make_pipes()
        log = os.open(nest.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            order = json.dumps({"do": "fork", "nest": str(nest.path)}).encode()
            self._control.settimeout(_FORK_S)
            socket.send_fds(self._control, [order], [*theirs, nest.page, log])
            answer = self._receive()
            if "refused" in answer:
                raise Unforkable(str(answer["refused"]))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(log)
        return Copy(self, int(answer["pid"])), ours

    def reap(self, pid: int) -> None:
        """Let it forget a dead copy."""
        with suppress(OSError):
            self._send({"do": "reap", "pid": pid})

    def discard(self) -> None:
        """Kill it; its copies live on. Idempotent."""
        self._end()

    def _send(self, order: dict[str, Any]) -> None:
        self._control.send(json.dumps(order).encode())

    def _receive(self) -> dict[str, Any]:
        body = self._control.recv(_MAX_ANSWER)
        if not body:
            raise ConnectionResetError("the template has ended")
        answer: dict[str, Any] = json.loads(body)
        return answer


class Unforkable(OSError):
    """Copies of this template would not work; the message says why."""


class Copy:
    """A leader whose parent is a template: it stays a zombie until its end has been seen here."""

    def __init__(self, template: Template, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._template = template

    def wait(self) -> int:
        """Wait for its end; return the exit code. One thread at a time."""
        if self.returncode is not None:
            return self.returncode
        until = time.monotonic() + _END_S
        while (code := _exit_code(self.pid)) is None:
            if time.monotonic() > until:
                raise TimeoutError(f"process {self.pid} does not end")
            time.sleep(_LOOK_S)
        self.returncode = code
        # Once only: the number may be another copy's as soon as this one is reaped.
        self._template.reap(self.pid)
        return code


def _exit_code(pid: int) -> int | None:
    """How a zombie ended, ``None`` while it lives. Whoever is gone without a trace was killed."""
    try:
        _, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
    except OSError:
        return _KILLED
    values = fields.split()
    if values[0] not in "ZX":
        return None
    return os.waitstatus_to_exitcode(int(values[_EXIT_CODE - _FIRST_AFTER_NAME]))


def _destroy(process: subprocess.Popen[bytes], life: int, control: socket.socket, nest: Nest) -> None:
    process.kill()
    process.wait()
    let_die(life)
    control.close()
    nest.remove()
