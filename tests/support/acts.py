"""What a hostile verifier may be asked to do: end, hang, grow, fork, lie."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from verifier_service.domain.errors import Permanent
from verifier_service.domain.evidence import Finding, Measurement, Reason, Verdict


def accept(**fields: Any) -> Finding:
    """An accepting finding."""
    return Finding(verdict=Verdict.ACCEPT, **fields)


def _ok(item: dict[str, Any]) -> Finding:
    return accept(score=1.0, labels={"pid": str(os.getpid()), "n": str(item.get("n", ""))})


def _sleep(item: dict[str, Any]) -> Finding:
    time.sleep(item.get("s", 0.05))
    return _ok(item)


def _burn(item: dict[str, Any]) -> Finding:
    until = time.process_time() + item["s"]
    while time.process_time() < until:
        pass
    return _ok(item)


def _spin(_: dict[str, Any]) -> Finding:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass


def _sleep_in_c(_: dict[str, Any]) -> Finding:
    # PyDLL keeps the interpreter's lock: no Python code runs in this process meanwhile.
    ctypes.PyDLL(None).sleep(600)
    return accept()


def _exit(_: dict[str, Any]) -> Finding:
    os._exit(3)


def _segfault(_: dict[str, Any]) -> Finding:
    ctypes.string_at(0)
    return accept()


def _killed(_: dict[str, Any]) -> Finding:
    os.kill(os.getpid(), signal.SIGKILL)
    return accept()


def _eat(_: dict[str, Any]) -> Finding:
    hoard = []
    while True:
        hoard.append(b"x" * (16 << 20))
        time.sleep(0.005)


_HOARD: list[bytes] = []


def _leak(item: dict[str, Any]) -> Finding:
    _HOARD.append(b"x" * (64 << 20))
    return _ok(item)


def _fork_eater(item: dict[str, Any]) -> Finding:
    if os.fork() == 0:
        _eat(item)
    time.sleep(600)
    return accept()


def _fork_and_leave(item: dict[str, Any]) -> Finding:
    """A grandchild that holds every descriptor it got and outlives its item."""
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
        os._exit(0)
    Path(item["pidfile"]).write_text(str(pid))
    return _ok(item)


def _fork_and_exit(item: dict[str, Any]) -> Finding:
    _fork_and_leave(item)
    os._exit(4)


def _fork_and_spin(item: dict[str, Any]) -> Finding:
    os.fork()
    return _spin(item)


def _fork_and_hang(item: dict[str, Any]) -> Finding:
    _fork_and_leave(item)
    time.sleep(600)
    return accept()


def _escape_and_hang(item: dict[str, Any]) -> Finding:
    """A grandchild in a session of its own."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        time.sleep(600)
        os._exit(0)
    Path(item["pidfile"]).write_text(str(pid))
    time.sleep(600)
    return accept()


def _clone(item: dict[str, Any]) -> Finding:
    """Both processes return from here."""
    os.fork()
    return _ok(item)


def _chatter(item: dict[str, Any]) -> Finding:
    sys.stdout.write("junk " * 10_000)
    sys.stderr.write("junk")
    sys.stdout.flush()
    os.write(1, b"junk\n" * 1000)
    os.write(2, b"junk\n" * 1000)
    return _ok(item)


def _scribble(item: dict[str, Any]) -> Finding:
    """Write into every descriptor, the channel of results among them."""
    for descriptor in range(64):
        try:
            os.write(descriptor, item.get("junk", "{}\n").encode())
        except OSError:
            continue
    return _ok(item)


def _close_everything(item: dict[str, Any]) -> Finding:
    os.closerange(3, 64)
    return _ok(item)


def _huge(_: dict[str, Any]) -> Finding:
    return accept(labels={"text": "x" * (9 << 20)})


def _not_finite(_: dict[str, Any]) -> Finding:
    return accept(measurements=(Measurement(quantity="gap", value=float("nan"), unit="eV"),))


def _not_finite_unvalidated(_: dict[str, Any]) -> Finding:
    return Finding.model_construct(verdict=Verdict.ACCEPT, score=float("nan"))


def _not_finite_inside(_: dict[str, Any]) -> Finding:
    inner = Measurement.model_construct(quantity="gap", value=float("inf"), unit="eV", sigma=None)
    return Finding.model_construct(verdict=Verdict.ACCEPT, measurements=(inner,))


def _nothing(_: dict[str, Any]) -> Finding:
    return None  # type: ignore[return-value]


def _surrogate(_: dict[str, Any]) -> Finding:
    return accept(labels={"text": "\ud800"})


def _raise(_: dict[str, Any]) -> Finding:
    raise ZeroDivisionError("by hand")


def _raise_permanent(_: dict[str, Any]) -> Finding:
    raise Permanent("not_converged", "by hand")


def _system_exit(_: dict[str, Any]) -> Finding:
    sys.exit("by hand")


def _hang(item: dict[str, Any]) -> Finding:
    """Tell who hangs."""
    Path(item["pidfile"]).write_text(str(os.getpid()))
    time.sleep(600)
    return accept()


def _eat_when(item: dict[str, Any]) -> Finding:
    while not Path(item["sign"]).exists():
        time.sleep(0.005)
    return _eat(item)


def _mark(item: dict[str, Any]) -> Finding:
    """Leave a trace of every execution."""
    descriptor = os.open(item["file"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{item['n']}\n".encode())
    os.close(descriptor)
    return _sleep(item)


def _meet(item: dict[str, Any]) -> Finding:
    """End only when all others are there, too."""
    place = Path(item["place"])
    (place / str(item["n"])).touch()
    while len(list(place.iterdir())) < item["count"]:
        time.sleep(0.005)
    return _ok(item)


def _environment(_: dict[str, Any]) -> Finding:
    where = {"cwd": str(Path.cwd()), "files": ",".join(str(path) for path in Path.cwd().iterdir())}
    variables = {f"env:{name}": value for name, value in os.environ.items()}
    descriptors = {}
    for link in Path("/proc/self/fd").iterdir():
        try:
            descriptors[f"fd:{link.name}"] = str(link.readlink())
        except FileNotFoundError:  # the descriptor of this very listing
            continue
    return accept(labels={**variables, **descriptors, **where})


def _say(item: dict[str, Any]) -> Finding:
    """Refuse, in words that the candidate wrote."""
    reason = Reason(code="said", message=str(item["text"]))
    return Finding(verdict=Verdict.REJECT, score=0.0, reason=reason)


def _mended(item: dict[str, Any]) -> Finding:
    """Broken until the file is there."""
    if not Path(item["file"]).exists():
        raise Permanent("not_mended", "the file is not there yet")
    return _ok(item)


ACTS: dict[str, Callable[[dict[str, Any]], Finding]] = {
    name.removeprefix("_"): act
    for name, act in list(globals().items())
    if name.startswith("_") and callable(act) and not name.startswith("__")
}
