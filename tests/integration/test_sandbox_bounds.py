"""What a program may take of the machine, however it goes about it, and what it leaves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from tiers.sandbox import gauge, namespaces, probe
from tiers.sandbox.box import Limits
from tiers.sandbox.languages import PYTHON
from tiers.sandbox.workshop import LocalWorkshop, Program

LIMITS = Limits(5.0, 512)


@pytest.fixture(scope="module")
def sandbox() -> probe.Sandbox:
    return probe.find("auto")


def said(sandbox: probe.Sandbox, source: str) -> Any:
    with LocalWorkshop(sandbox, Program(source, PYTHON), LIMITS.memory_mb) as workshop:
        ended = workshop.run(b"", LIMITS)
    assert (ended.ending, ended.exit) == ("ended", 0), ended.err.decode()
    return json.loads(ended.out)


FORKS = "import os, time\nfor _ in range({count}):\n    if os.fork() == 0: break\n"


@pytest.mark.parametrize(
    "source",
    [
        # Only the first thread of a process has ended; the others go on and grow.
        FORKS.format(count=3) + "import ctypes, threading\n"
        "def grow():\n    time.sleep(0.1)\n    held = [b'x' * (1 << 24) for _ in range(5)]\n"
        "    time.sleep(9)\n"
        "threading.Thread(target=grow).start()\nctypes.CDLL(None).syscall(EXIT, 0)",
        # What a socket holds unread is nobody's resident memory.
        FORKS.format(count=3) + "import socket\nheld = []\ntry:\n    while True:\n"
        "        held.append(socket.socketpair())\nexcept OSError: time.sleep(9)",
        # Neither are files without contents.
        "import os\nn = 0\nwhile True:\n    os.close(os.open(f'/tmp/{n}', os.O_CREAT))\n    n += 1",
        "import time\nwith open('/tmp/x', 'wb') as file:\n"
        "    while file.tell() < 62 << 20: file.write(bytes(1 << 20))\n    time.sleep(9)",
    ],
)
def test_memory_is_counted_wherever_it_is(sandbox: probe.Sandbox, source: str) -> None:
    number = "60" if os.uname().machine == "x86_64" else "93"
    limits = Limits(4.0, 64 if "/tmp" in source else 150)
    with LocalWorkshop(sandbox, Program(source.replace("EXIT", number), PYTHON), 512) as workshop:
        assert workshop.run(b"", limits).ending == "memory_limit"


def test_shared_memory_that_nobody_maps_in_cannot_be_had(sandbox: probe.Sandbox) -> None:
    source = """
import ctypes, json, mmap, os
found = []
for name, get in {
    "anonymous": lambda: mmap.mmap(-1, 1 << 20),
    "zero": lambda: mmap.mmap(os.open("/dev/zero", os.O_RDWR), 1 << 20),
    "pages in pipes": lambda: 1 / (1 + ctypes.CDLL(None).vmsplice(os.pipe()[1], None, 0, 0)),
    "attributes": lambda: os.setxattr("/tmp", "user.x", b"x" * 1000),
}.items():
    try:
        get()
        found.append(name)
    except (OSError, ZeroDivisionError):
        pass
mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE)
print(json.dumps(found))
"""
    assert said(sandbox, source) == []


def test_who_keeps_himself_waiting_gets_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Helpers that give way to the program have no processor, and that is nobody's fault but its own."""
    clocks = {1: gauge.Clock(0.1, 0.0), 2: gauge.Clock(0.0, 0.0)}
    monkeypatch.setattr(gauge, "_clock", lambda pid: clocks[pid])
    monkeypatch.setattr(gauge.Gauge, "processes", lambda self: list(clocks))
    meter = gauge.Gauge(psutil.Process(), enclosed=False)
    meter.start()
    clocks[1] = gauge.Clock(0.5, 0.6)
    assert meter.starved(1.0, 0.0) == pytest.approx(0.6)
    clocks[2] = gauge.Clock(0.4, 0.9)
    assert meter.starved(1.0, 0.2) == pytest.approx(0.4)
    clocks[1] = gauge.Clock(1.1, 0.0)
    assert meter.starved(1.0, 0.0) < 0.0


def test_no_depth_of_folders_outlives_a_run(sandbox: probe.Sandbox) -> None:
    source = """
import os
print(len(os.listdir("/tmp")))
os.makedirs("/tmp/1/2")
for name in ["n" * 250] * 40 + ["q"] * 2000:
    os.mkdir(name)
    os.chdir(name)
open("file", "w").write("x")
os.chmod(".", 0)
"""
    with LocalWorkshop(sandbox, Program(source, PYTHON), 512) as workshop:
        runs = [workshop.run(b"", LIMITS) for _ in range(3)]
    assert [(each.ending, each.out) for each in runs] == [("ended", b"0\n")] * 3


def test_packages_and_the_service_itself_are_not_there(
    sandbox: probe.Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, prefix = namespaces.interpreter()
    places = [str(path) for path in namespaces.hidden(prefix)]
    assert str(next(prefix.glob("lib/python3*")) / "site-packages") in places
    source = f"import os, json\nprint(json.dumps([os.listdir(place) for place in {places}]))"
    assert said(sandbox, source) == [[] for _ in places]
    monkeypatch.chdir("/usr/share")
    assert Path("/usr/share") in namespaces.hidden(prefix)
    for needed in ("/usr/bin", "/usr", "/"):
        monkeypatch.chdir(needed)
        assert Path(needed) not in namespaces.hidden(prefix)


def test_copies_of_a_process_start_boxes_at_once(sandbox: probe.Sandbox) -> None:
    """They share every open file with its place, and each box wants its whole filter."""
    copies = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for _ in range(12):
                    sandbox.open().close()
                code = 0
            finally:
                os._exit(code)
        copies.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in copies] == [0] * 4
