"""The first process inside a sandbox: takes orders, forks one process for each program run, reports.

Orders are a length (4 bytes, big endian) and marshalled data from the judge, answers a kind (1 byte), a
length and bytes. The judge never unmarshals.
"""

from __future__ import annotations

import gc
import marshal
import posix
import select
import sys
import time

from tiers.sandbox.inside import programs
from tiers.sandbox.inside.confine import confine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

READY, COMPILED, FAULT, ENDED, MESSAGE = b"R", b"C", b"F", b"T", b"M"
HEADER = "exit={} signal={} wall={!r} cpu={!r} peak={} over={} out={} err={} note={}\n"
_CHUNK = 1 << 16
_CONVERSATIONS = ("session", "series")
_ORDERS, _RESULTS = 100, 101  # far from what a program opens


class Channel:
    """Both pipes to the judge."""

    def __init__(self, orders: int, results: int) -> None:
        self.orders = orders
        self.results = results

    def receive(self) -> Any:
        """The next order, or ``None`` when the judge has gone."""
        body = self.receive_bytes()
        return None if body is None else marshal.loads(body)  # noqa: S302 - the judge's own words

    def receive_bytes(self) -> bytes | None:
        """The next order's bytes."""
        header = self._exactly(4)
        return None if header is None else self._exactly(int.from_bytes(header, "big"))

    def send(self, kind: bytes, body: bytes) -> None:
        """Write one answer. Raises ``OSError`` when the judge has gone."""
        rest = memoryview(kind + len(body).to_bytes(4, "big") + body)
        while rest:
            rest = rest[posix.write(self.results, rest) :]

    def close(self) -> None:
        """Close both ends."""
        posix.close(self.orders)
        posix.close(self.results)

    def _exactly(self, count: int) -> bytes | None:
        parts = []
        while count:
            part = posix.read(self.orders, min(count, 1 << 20))
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


class Pipes:
    """Of one run: (reader, writer) for input, output, errors and the note that a program leaves."""

    def __init__(self) -> None:
        self.stdin, self.out, self.err, self.note = (posix.pipe() for _ in range(4))


def main() -> Callable[[], None] | None:
    """Serve orders. In a forked child, returns what it has to run once all frames here are gone."""
    channel = Channel(posix.dup2(0, _ORDERS, False), posix.dup2(1, _RESULTS, False))
    nowhere = posix.open("/dev/null", posix.O_RDWR)
    for standard in (0, 1, 2):
        posix.dup2(nowhere, standard)
    posix.close(nowhere)
    setup = channel.receive()
    try:
        confine(*setup["confinement"])
    except OSError as error:
        channel.send(FAULT, str(error).encode())
        return None
    channel.send(READY, b"")
    program: Any = None
    runs = 0
    gc.freeze()
    while (order := channel.receive()) is not None:
        if order["verb"] == "compile":
            program = _compile(channel, order)
        elif order["verb"] != "kill":  # that one came too late
            runs += 1
            if runs > 1:
                _between(order, tidy=setup["tidy"])
            job = _run(channel, order, program, tidy=setup["tidy"])
            if job is not None:
                return job
    return None


def _compile(channel: Channel, order: dict[str, Any]) -> Any:
    try:
        program = programs.compiled(order)
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError, SystemError) as error:
        channel.send(FAULT, programs.syntax_fault(error).encode("utf-8", "replace"))
        return None
    channel.send(COMPILED, b"")
    return program


def _run(channel: Channel, order: dict[str, Any], program: Any, *, tidy: bool) -> Callable[[], None] | None:
    if tidy and order.get("stdin"):
        # Where /dev/stdin leads: there is no /proc that could lead to the pipe.
        with open("/tmp/.stdin", "wb") as copy:
            copy.write(order["stdin"])
        posix.chmod("/tmp/.stdin", 0o444)
    pipes = Pipes()
    started = time.monotonic()
    child = posix.fork()
    if child == 0:
        session = order["verb"] in _CONVERSATIONS
        kept = (channel.orders, channel.results) if session else ()
        programs.enter(order, (pipes.stdin[0], pipes.out[1], pipes.err[1], pipes.note[1]), kept)
        return programs.job(order, program, channel if session else None)
    for descriptor in (pipes.stdin[0], pipes.out[1], pipes.err[1], pipes.note[1]):
        posix.close(descriptor)
    watch = _Watch(child, pipes, order, None if order["verb"] in _CONVERSATIONS else channel)
    watch.follow()
    status, usage = watch.reap()
    if tidy:
        _sweep()
    signal = posix.WTERMSIG(status) if posix.WIFSIGNALED(status) else 0
    out, err, note = (bytes(watch.kept[each[0]]) for each in (pipes.out, pipes.err, pipes.note))
    header = HEADER.format(
        posix.WEXITSTATUS(status) if posix.WIFEXITED(status) else -1,
        signal,
        time.monotonic() - started,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss,
        watch.over,
        len(out),
        len(err),
        len(note),
    )
    channel.send(ENDED, header.encode() + out + err + note)
    return None


class _Watch:
    """Feeds a running program, keeps what it writes up to its limits, and notices its end."""

    def __init__(self, child: int, pipes: Pipes, order: dict[str, Any], channel: Channel | None) -> None:
        self.over = ""
        self.kept = {each[0]: bytearray() for each in (pipes.out, pipes.err, pipes.note)}
        self._err = pipes.err[0]
        self._child = child
        self._feed = pipes.stdin[1]
        self._rest = memoryview(order.get("stdin") or b"")
        self._room = order["output"]
        self._channel = channel
        self._end = posix.pidfd_open(child)
        self._poll = select.poll()
        for descriptor in (*self.kept, self._end):
            self._poll.register(descriptor, select.POLLIN)
        if channel is not None:
            self._poll.register(channel.orders, select.POLLIN)
        posix.set_blocking(self._feed, False)
        self._feeding = bool(self._rest)
        if self._feeding:
            self._poll.register(self._feed, select.POLLOUT)
        else:
            self._stop_feeding()
        for descriptor in self.kept:
            posix.set_blocking(descriptor, False)

    def follow(self) -> None:
        """Return when the program has ended, or was ended for its output or by order."""
        while True:
            ready = dict(self._poll.poll())
            if self._feed in ready and self._rest:
                self._write()
            for descriptor in self.kept:
                if descriptor in ready and not self._take(descriptor):
                    self.over = "output"
            if self._channel is not None and self._channel.orders in ready:
                self._channel.receive_bytes()
                self.over = "order"
            if self.over:
                posix.kill(self._child, 9)
                return
            if self._end in ready:
                for descriptor in self.kept:
                    while self._take(descriptor, drain=True):
                        pass
                return

    def reap(self) -> tuple[int, Any]:
        """The exit status and the resources used."""
        _, status, usage = posix.wait4(self._child, 0)
        for descriptor in (*self.kept, self._end):
            posix.close(descriptor)
        self._stop_feeding()
        return status, usage

    def _write(self) -> None:
        try:
            self._rest = self._rest[posix.write(self._feed, self._rest[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            # The program reads no further: its right.
            self._rest = memoryview(b"")
        if not self._rest:
            self._stop_feeding()

    def _stop_feeding(self) -> None:
        if self._feed < 0:
            return
        self._rest = memoryview(b"")
        if self._feeding:
            self._poll.unregister(self._feed)
        posix.close(self._feed)
        self._feed = -1

    def _take(self, descriptor: int, *, drain: bool = False) -> bool:
        """Keep what is there. When draining: whether more may come; else: whether limits still hold."""
        try:
            part = posix.read(descriptor, _CHUNK)
        except BlockingIOError:
            return not drain
        kept = self.kept[descriptor]
        if not part:
            if not drain:
                self._poll.unregister(descriptor)
            return not drain
        room = self._room - len(kept)
        kept += part[:room]
        if len(part) > room and descriptor != self._err:
            self.over = "output"
            return False
        return True


def _between(order: dict[str, Any], *, tidy: bool) -> None:
    """Before a run that is not the first: the files of the last one go, and what many programs import
    stays in memory for all that come."""
    if tidy:
        _empty("/tmp", order.get("files") or ())
    import os  # noqa: F401


def _sweep() -> None:
    """End whatever a run left behind in this process namespace."""
    if posix.getppid() != 1:
        raise RuntimeError("not alone in a process namespace")
    try:
        posix.kill(-1, 9)
    except ProcessLookupError:
        pass
    while True:
        try:
            if posix.waitpid(-1, posix.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            break


def _empty(folder: str, keep: tuple[str, ...]) -> None:
    """Folders within folders are lifted to the top first: no depth and no length of a path is too much."""
    lifted = 0
    while folders := _clear(folder, lambda name: name not in keep):
        before = lifted
        for inner in folders:
            for deeper in _clear(inner, lambda _: True):
                lifted += 1
                while _there(f"{folder}/{lifted}"):
                    lifted += 1
                _tried(posix.chmod, deeper, 0o700)
                _tried(posix.rename, deeper, f"{folder}/{lifted}")
            _tried(posix.rmdir, inner)
        if before == lifted:
            return


def _clear(folder: str, meant: Callable[[str], bool]) -> list[str]:
    """Remove the files of a folder, and return the folders in it."""
    folders = []
    _tried(posix.chmod, folder, 0o1777 if folder == "/tmp" else 0o700)
    try:
        with posix.scandir(folder) as entries:
            for entry in entries:
                if meant(entry.name):
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        _tried(posix.unlink, entry.path)
    except OSError:
        pass
    return folders


def _there(path: str) -> bool:
    try:
        posix.lstat(path)
    except OSError:
        return False
    return True


def _tried(act: Callable[..., object], *args: Any) -> None:
    try:
        act(*args)
    except OSError:
        pass


if sys.platform != "linux":
    raise ImportError("there is no sandbox on this system")
