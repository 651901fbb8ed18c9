"""The sandbox as it is on this machine: real processes, from outside and from inside."""

from __future__ import annotations

import json
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tiers.sandbox import namespaces, probe
from tiers.sandbox.box import Limits
from tiers.sandbox.languages import declared
from tiers.sandbox.probe import NoSandbox
from tiers.sandbox.workshop import CompileFault, LocalWorkshop, Program, Run
from verifier_service.domain.errors import Transient

PYTHON = declared("[]")["python"]
LIMITS = Limits(5.0, 512)


@pytest.fixture(scope="module")
def sandbox() -> probe.Sandbox:
    return probe.find("auto")


@pytest.fixture(autouse=True)
def nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, sandbox: probe.Sandbox, tmp_path: Path
) -> Iterator[None]:
    """No process, descriptor or file outlives a test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    uids: list[int] = []
    monkeypatch.setattr(probe, "own_uid", lambda: uids.append(namespaces.own_uid()) or uids[-1])
    descriptors, others = _descriptors(), set(psutil.Process().children(recursive=True))
    yield
    assert set(psutil.Process().children(recursive=True)) - others == set()
    assert [each for each in psutil.process_iter(["uids", "status"]) if _alive(each, uids)] == []
    assert _descriptors() - descriptors == set()
    assert list(tmp_path.iterdir()) == []


def _alive(process: psutil.Process, uids: list[int]) -> bool:
    """Whether it runs as one of these users; a zombie has ended, and waits for the system's init."""
    owner, status = process.info["uids"], process.info["status"]
    return owner is not None and owner.real in uids and owner.real >= 0 and status != psutil.STATUS_ZOMBIE


def _descriptors() -> set[str]:
    """What is open, by what it is; the listing's own descriptor is gone by the time it is looked at."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(f"{each.name} {each.readlink()}")
    return found


def run(sandbox: probe.Sandbox, source: str, stdin: str = "", limits: Limits = LIMITS) -> Run:
    with LocalWorkshop(sandbox, Program(source, PYTHON), limits.memory_mb) as workshop:
        return workshop.run(stdin.encode(), limits)


def said(sandbox: probe.Sandbox, source: str) -> Any:
    ended = run(sandbox, source)
    assert (ended.ending, ended.exit) == ("ended", 0), ended.err.decode()
    return json.loads(ended.out)


def test_a_program_reads_and_prints(sandbox: probe.Sandbox) -> None:
    ended = run(
        sandbox, "import sys\nprint(input()[::-1])\nprint('!', file=sys.stderr)\nsys.exit(3)", "abc\n"
    )
    assert (ended.out, ended.err, ended.exit, ended.ending) == (b"cba\n", b"!\n", 3, "ended")
    assert 0.0 < ended.cpu_s < 5.0
    assert 1.0 < ended.peak_mb < 100.0


def test_inside_there_is_nothing_of_the_machine(sandbox: probe.Sandbox) -> None:
    secret = secrets.token_hex(16)
    os.environ["SANDBOX_TEST_SECRET"] = secret
    source = """
import os, json, sys
seen = {"environment": dict(os.environ), "root": sorted(os.listdir("/")), "home": os.path.expanduser("~")}
seen["pid"], seen["parent"], seen["uid"] = os.getpid(), os.getppid(), os.getuid()
seen["argv"] = sys.argv
seen["path"] = [each for each in sys.path if "site-packages" in each]
print(json.dumps(seen))
"""
    try:
        seen = said(sandbox, source)
    finally:
        del os.environ["SANDBOX_TEST_SECRET"]
    assert secret not in json.dumps(seen)
    assert "proc" not in seen["root"]
    assert "work" not in seen["root"]
    assert seen["pid"] < 50
    assert seen["argv"] == ["solution.py"]
    assert seen["path"] == []
    if os.geteuid() == 0:
        assert seen["uid"] >= namespaces.UID_BASE


@pytest.mark.parametrize(
    "attempt",
    [
        "open('/etc/passwd').read()",
        "open('/proc/self/status').read()",
        "os.listdir('/root')[1:][0]",
        f"open({__file__!r}).read()",
        "open('/usr/x', 'w')",
        "os.mkdir('/x')",
        "os.chmod('/usr', 0o777)",
        "os.mknod('/tmp/sda', 0o60666, os.makedev(8, 0))",
        "os.symlink('/usr/bin', '/usr/y')",
        "os.setuid(0)",
        "os.kill(1, 9)",
        "os.memfd_create('x')",
        "os.chroot('/tmp')",
        "socket.socket(socket.AF_INET)",
        "socket.socket(socket.AF_INET6)",
        "socket.socket(socket.AF_NETLINK)",
        "socket.socket(40)",
        "socket.create_connection(('127.0.0.1', PORT), 1)",
        "assert ctypes.CDLL(None).unshare(0x10000000) == 0",
        "assert ctypes.CDLL(None).syscall(425, 8, 0) >= 0",
        "assert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0",
        "assert ctypes.CDLL(None).shmget(0, 1 << 20, 0o1666) >= 0",
        "assert ctypes.CDLL(None).personality(0x0040000) >= 0",
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))",
        "resource.setrlimit(resource.RLIMIT_NPROC, (1 << 20, 1 << 20))",
        "open('big', 'wb').truncate(10**13)",
        "open('/dev/shm/x', 'w')",
        "open('/dev/mem', 'rb')",
    ],
)
def test_ways_out_are_closed(sandbox: probe.Sandbox, attempt: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        head = "import os, socket, ctypes, resource, json\n"
        tail = "    print(json.dumps('out'))\nexcept BaseException as e: print(json.dumps('closed'))"
        source = f"{head}PORT = {port}\ntry:\n    {attempt}\n{tail}"
        assert said(sandbox, source) == "closed"


def test_processes_are_bounded_and_end_with_the_run(sandbox: probe.Sandbox) -> None:
    source = """
import os, time, json
started = 0
try:
    while started < 500:
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
        started += 1
except OSError:
    pass
print(json.dumps(started))
"""
    started = time.monotonic()
    assert 0 < said(sandbox, source) < 64
    assert time.monotonic() - started < 30.0


def test_an_orphan_does_not_hold_the_answer(sandbox: probe.Sandbox) -> None:
    source = "import os, time\nif os.fork() == 0:\n    time.sleep(50)\nprint(1)"
    started = time.monotonic()
    assert run(sandbox, source).out == b"1\n"
    assert time.monotonic() - started < 25.0


def test_nothing_passes_from_one_run_to_the_next(sandbox: probe.Sandbox) -> None:
    source = """
import os
os.makedirs("deep/er")
open("deep/er/file", "w").write("x")
os.chmod("deep/er", 0)
if os.fork() == 0:
    os.setsid()
    while True:
        pass
print(len(os.listdir("/tmp")))
"""
    with LocalWorkshop(sandbox, Program(source, PYTHON), 512) as workshop:
        assert [workshop.run(b"", LIMITS).out for _ in range(3)] == [b"1\n"] * 3


@pytest.mark.parametrize(
    ("source", "ending"),
    [
        ("while True: pass", "time_limit"),
        ("import time\ntime.sleep(60)", "time_limit"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", "time_limit"),
        ("import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\nwhile True: pass", "time_limit"),
        (
            "import signal\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n"
            "    except OSError: pass\nwhile True:\n    try:\n        while True: pass\n"
            "    except BaseException: pass",
            "time_limit",
        ),
        ("print('x' * (1 << 30))", "memory_limit"),
        ("while True: print('x' * 1000)", "output_limit"),
        ("import os, mmap\nm = [mmap.mmap(-1, 1 << 26) for _ in range(99)]", "memory_limit"),
    ],
)
def test_limits_are_kept(sandbox: probe.Sandbox, source: str, ending: str) -> None:
    limits = Limits(0.5, 256)
    started = time.monotonic()
    with LocalWorkshop(sandbox, Program(source, PYTHON), 256) as workshop:
        ended = workshop.run(b"", limits)
    found = "memory_limit" if b"MemoryError" in ended.note or b"OSError" in ended.note else ended.ending
    assert found == ending
    assert time.monotonic() - started < 20.0


def test_a_box_goes_on_after_a_time_limit_and_after_it_was_broken(sandbox: probe.Sandbox) -> None:
    source = """
import os, sys
what = input()
if what == "loop":
    while True: pass
if what == "kill":
    os.kill(os.getppid(), 9)
print(what)
"""
    with LocalWorkshop(sandbox, Program(source, PYTHON), 512) as workshop:
        asked = ("a", "loop", "b", "kill", "c")
        runs = [workshop.run(word.encode(), Limits(1.0, 512)) for word in asked]
    assert [each.ending for each in runs] == ["ended", "time_limit", "ended", "lost", "ended"]
    assert [runs[place].out for place in (0, 2, 4)] == [b"a\n", b"b\n", b"c\n"]


def test_a_call_comes_back_as_data(sandbox: probe.Sandbox) -> None:
    source = "def f(a, b=2):\n    print('noise')\n    return {'sum': a + b, 'pair': (a, b)}"
    with LocalWorkshop(sandbox, Program(source, PYTHON), 512) as workshop:
        note = workshop.call("f", [1], {"b": 5}, LIMITS).note
        missing = workshop.call("g", [], {}, LIMITS).note
        failed = workshop.call("f", [], {}, LIMITS)
    assert note == b'V{"d":[["sum",6],["pair",{"t":[1,5]}]]}'
    assert missing == b"N"
    assert failed.note == b"ETypeError|0"


@pytest.mark.parametrize(
    "source", ["def f(:", "x = '\ud800'", "(" * 100_000, "a\0b", "\tx\n  y", "1" * 5000]
)
def test_what_is_no_program_does_not_compile(sandbox: probe.Sandbox, source: str) -> None:
    with pytest.raises((CompileFault, UnicodeEncodeError)):
        LocalWorkshop(sandbox, Program(source, PYTHON), 512)


def test_a_sandbox_that_leaks_is_refused(sandbox: probe.Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    line = probe.command

    def leaky(*args: Any, **kwargs: Any) -> list[str]:
        tight = line(*args, **kwargs)
        place = tight.index("--remount-ro")
        return [
            *tight[:place],
            "--perms",
            "0755",
            "--dir",
            "/var",
            "--ro-bind",
            "/var/tmp",
            "/var/tmp",
            *tight[place:],
        ]

    monkeypatch.setattr(probe, "command", leaky)
    monkeypatch.setattr(probe.tempfile, "tempdir", "/var/tmp")
    leaking = probe._namespaces()
    with pytest.raises(NoSandbox, match="other files can be read"):
        probe._proved(leaking)


@pytest.mark.parametrize(
    ("source", "out"),
    [
        ("def f(a: unknown): pass", b"NameError 1"),  # annotations are evaluated, as in any script
        ("from __future__ import annotations\ndef f(a: unknown): pass", b"fine"),
        ("x = '\\d'\nif x is 'y': pass", b"fine"),  # a warning of the compiler
        ("\n\n1 / 0", b"ZeroDivisionError 3"),
        ("import sys\nassert sys.gettrace() is None", b"fine"),
        ("import gc\nassert gc.isenabled()", b"fine"),
    ],
)
def test_a_program_is_compiled_as_the_interpreter_does(
    sandbox: probe.Sandbox, source: str, out: bytes
) -> None:
    with LocalWorkshop(sandbox, Program(source, PYTHON), 512) as workshop:
        runs = [workshop.run(b"", LIMITS) for _ in range(2)]
    wanted = b"" if out == b"fine" else b"E" + out.replace(b" ", b"|")
    assert [each.note for each in runs] == [wanted] * 2
    assert all((b'File "solution.py", line' in each.err) == (out != b"fine") for each in runs)


def test_a_failing_sandbox_is_the_machine_s_fault(
    sandbox: probe.Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in ("/bin/false", "/bin/no-such-program"):
        monkeypatch.setattr(probe, "command", lambda *_args, program=program, **_kwargs: [program])
        with pytest.raises(Transient):
            sandbox.open()
