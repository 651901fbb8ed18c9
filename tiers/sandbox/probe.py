"""Which sandbox this machine can give: tried, and proved by a program that tries to get out."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from tiers.sandbox import seccomp
from tiers.sandbox.box import ENDED, Box, Limits, Plan, Stopped
from tiers.sandbox.delivery import Role, boot_arguments
from tiers.sandbox.inside.confine import landlock_version
from tiers.sandbox.namespaces import ENVIRONMENT, bubblewrap, command, interpreter, own_uid
from verifier_service.domain.errors import Transient

Kind = Literal["namespaces", "landlock"]
CHOICES = ("auto", "namespaces", "landlock", "remote", "off")
PROCESSES = 64
FILE_MB = 64
LANDLOCK_ABI = 6


class NoSandbox(Exception):
    """No program can be run here; the message says why and what would help."""


class Sandbox(NamedTuple):
    """A way to start boxes that has been tried. ``languages`` says whether other programs can be run."""

    kind: Kind
    filter: bytes
    child_filter: bytes

    def open(
        self, role: Role = "plain", *, proc: bool = False, first: Mapping[str, object] | None = None
    ) -> Box:
        """Start a box, with its first order if there is one. Raises ``Transient``."""
        return Box(self._plan(proc=proc), role, first)

    @property
    def processes(self) -> bool:
        """Whether a program inside may start others; if not, only Python can be run."""
        return self.kind == "namespaces"

    def _plan(self, *, proc: bool) -> Plan:
        python, _ = interpreter()
        if self.kind == "landlock":
            wanted = (-1, PROCESSES, FILE_MB, readable(), seccomp.build())
            return Plan(boot_arguments(python), ENVIRONMENT, (), {"confinement": wanted, "tidy": False})
        # One of its own for each box: copies of this process would share the place where it is read.
        file = os.memfd_create("sandbox-filter", os.MFD_CLOEXEC)
        os.write(file, self.filter)
        os.lseek(file, 0, os.SEEK_SET)
        line = [*command(_found_bubblewrap(), file, proc=proc), *boot_arguments(python)]
        wanted = (own_uid(), PROCESSES, FILE_MB, (), b"")
        return Plan(line, {}, (file,), {"confinement": wanted, "tidy": True})


def readable() -> tuple[str, ...]:
    """What a program behind Landlock may read: the interpreter and the system's libraries."""
    places = (
        str(interpreter()[1]),
        "/usr",
        "/lib",
        "/lib64",
        "/etc/ld.so.cache",
        "/dev/null",
        "/dev/urandom",
    )
    return tuple(place for place in places if Path(place).exists())


@lru_cache(maxsize=4)
def find(choice: str = "auto") -> Sandbox:
    """The best sandbox of this machine. Raises ``NoSandbox`` when none can be proved tight."""
    if choice not in CHOICES:
        raise NoSandbox(f"VERIFIER_SANDBOX is {choice!r}; choose one of {', '.join(CHOICES)}")
    if choice == "off":
        raise NoSandbox("running programs is switched off (VERIFIER_SANDBOX=off)")
    if sys.platform != "linux":
        raise NoSandbox(
            f"no sandbox for {sys.platform}: run this worker on Linux, or set VERIFIER_SANDBOX_URL"
        )
    reasons = []
    for kind, make in (("namespaces", _namespaces), ("landlock", _landlock)):
        if choice in ("auto", kind):
            try:
                return _proved(make())
            except (NoSandbox, Transient, Stopped, seccomp.NoFilter, OSError) as error:
                reasons.append(f"{kind}: {error}")
    raise NoSandbox("; ".join(reasons))


def chosen() -> Sandbox:
    """The sandbox that the server's settings ask for. Raises ``NoSandbox``."""
    return find(os.environ.get("VERIFIER_SANDBOX", "auto"))


@lru_cache(maxsize=1)
def _found_bubblewrap() -> str:
    found = bubblewrap()
    if found is None:
        raise NoSandbox(
            "bwrap is not installed: pip install 'verifier-service[code]' or install bubblewrap"
        )
    return found


def _namespaces() -> Sandbox:
    _found_bubblewrap()
    return Sandbox("namespaces", seccomp.build(), b"")


def _landlock() -> Sandbox:
    if os.geteuid() == 0:
        raise NoSandbox("a worker that runs as root needs namespaces: run it as an ordinary user")
    version = landlock_version()
    if version < LANDLOCK_ABI:
        raise NoSandbox(
            f"Landlock ABI {LANDLOCK_ABI} (Linux 6.12) is needed, {platform.release()} has {version}"
        )
    return Sandbox("landlock", b"", seccomp.build(alone=True))


_ESCAPES = """
import os, json, sys
found = []
def tried(name, act):
    try:
        act()
    except BaseException:
        return
    found.append(name)
def connect():
    import _socket
    _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
tried("other files can be read", lambda: open(CANARY).read())
tried("other processes can be seen", lambda: open("/proc/1/environ").read())
tried("files can be written outside", lambda: open("/usr/escaped", "w"))
tried("the root can be written", lambda: open("/escaped", "w"))
tried("the interpreter can be changed", lambda: open(os.__file__, "a"))
tried("network sockets can be made", connect)
tried("memory outside the limits can be had", lambda: os.memfd_create("x"))
tried("users can be changed", lambda: os.setuid(0) if os.getuid() else 1 / 0)
if set(os.environ) - set(KNOWN):
    found.append("environment variables got in: " + ", ".join(set(os.environ) - set(KNOWN)))
for descriptor in range(4, 256):
    try:
        os.fstat(descriptor)
    except OSError:
        continue
    found.append("descriptor %d is open" % descriptor)
sys.stdout.write(json.dumps(found))
"""


def _proved(sandbox: Sandbox) -> Sandbox:
    """Raises ``NoSandbox`` when a program inside reaches anything that it must not."""
    with tempfile.NamedTemporaryFile(prefix="sandbox-canary-") as canary:
        Path(canary.name).chmod(0o644)
        head = f"CANARY = {canary.name!r}\nKNOWN = {[*ENVIRONMENT, 'PWD', 'LC_CTYPE']!r}\n"
        order = {"verb": "compile", "sources": [head + _ESCAPES], "memory_mb": 512}
        with sandbox.open() as box:
            box.ask(order, Limits(10.0, 512))
            answer = box.ask(run_order(sandbox, {"verb": "script"}), Limits(10.0, 512))
    report = answer.body.partition(b"\n")
    fields = dict(each.split("=", 1) for each in report[0].decode().split())
    if answer.kind != ENDED or fields["exit"] != "0":
        raise NoSandbox(f"a trial program did not run: {answer.body[-400:]!r}")
    found = json.loads(report[2][: int(fields["out"])])
    if found:
        raise NoSandbox("the sandbox is not tight: " + "; ".join(found))
    return sandbox


def run_order(sandbox: Sandbox, order: Mapping[str, object]) -> dict[str, object]:
    """An order with what every run needs: limits of output and memory, the filter for programs."""
    return {"output": 1 << 20, "memory_mb": 512, "filter": sandbox.child_filter, **order}
