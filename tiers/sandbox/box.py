"""One running sandbox, from the judge's side: orders in, answers out, limits kept from outside."""

from __future__ import annotations

import marshal
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from tiers.sandbox.delivery import Role, modules
from tiers.sandbox.gauge import Gauge
from verifier_service.domain.errors import Transient

Trouble = Literal["time_limit", "memory_limit", "gone", "garbled"]

SAMPLE_S = 0.02
FAREWELL_S = 0.25
_LET_GO = 2  # bubblewrap's own first process, and ours
START_S = 20.0
MAX_ANSWER = 1 << 25
READY, COMPILED, FAULT, ENDED, LIMIT, MESSAGE, RECORD = b"R", b"C", b"F", b"T", b"L", b"M", b"S"


class Answer(NamedTuple):
    """One frame from inside: nothing in it is to be trusted."""

    kind: bytes
    body: bytes


class Stopped(Exception):
    """The box was closed: a limit was reached, or what is inside broke or left the channel."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble)
        self.trouble: Trouble = trouble


class Plan(NamedTuple):
    """How to start a box, once: command line, environment, descriptors to pass, and the set-up order."""

    command: list[str]
    environment: dict[str, str]
    descriptors: tuple[int, ...]
    setup: dict[str, Any]


class Box:
    """A started sandbox. One thread uses it. Use as a context: everything inside ends with it."""

    def __init__(self, plan: Plan, role: Role = "plain", first: Mapping[str, Any] | None = None) -> None:
        """Start it and wait until it is confined. Raises ``Transient`` when it does not get there.

        What it is ordered ``first`` it begins with at once; ``reply`` has the answer.
        """
        self.peak_mb = 0.0
        self.room = MAX_ANSWER
        self._sampled = 0.0
        self._buffer = bytearray()
        self._enclosed = bool(plan.setup["tidy"])
        self._process = _started(plan)
        self._gauge = Gauge(self._process.pid, enclosed=self._enclosed)
        self._first: _Ends | None = None
        assert self._process.stdin is not None  # noqa: S101 - for mypy: they are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._orders, self._results = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._orders, False)
        os.set_blocking(self._results, False)
        self._poll = select.poll()
        self._poll.register(self._results, select.POLLIN)
        self._sending = False
        self._outbox = bytearray(_framed(modules(role)) + _framed(marshal.dumps(plan.setup)))
        if first is not None:
            self.order(first)
        self._begin()

    def _begin(self) -> None:
        try:
            answer = self.await_answer(time.monotonic() + START_S, None)
        except Stopped as stopped:
            code = self._process.wait()
            raise Transient(
                "sandbox_failed", f"the sandbox did not start ({stopped.trouble}, exit code {code})"
            ) from None
        if answer.kind != READY:
            self.close()
            raise Transient(
                "sandbox_failed", f"the sandbox refused: {answer.body.decode('utf-8', 'replace')}"
            )
        self.start()
        at_rest = self._gauge.started
        self._at_rest = len(at_rest)
        if self._enclosed:
            # While it lives for sure: who lets the box go may find it with another parent, or with none.
            self._first = _Ends(at_rest[:1])

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def results(self) -> int:
        """The descriptor that becomes readable when an answer has come."""
        return self._results

    def close(self) -> None:
        """End everything inside, and return when it is gone.

        The first process inside is let go: it ends what runs, collects what that used, and so it is
        counted. What is not gone soon after is killed.
        """
        with suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        if self._process.returncode is None:
            if self._first is None or not _ended_within(self._process.pid, SAMPLE_S):
                self._end_all()
            self._process.wait()
        if self._first is not None:
            # With the first process of a namespace all others have gone.
            with self._first as first:
                first.kill()
                first.wait()
            self._first = None
        with suppress(OSError):
            self._process.stdout.close()  # type: ignore[union-attr]

    def _end_all(self) -> None:
        with _Ends(self._gauge.processes()) as ends:
            ends.kill(after=_LET_GO if self._enclosed else 0)
            if not _ended_within(self._process.pid, FAREWELL_S):
                self._process.kill()
            self._process.wait()
            ends.kill()
            ends.wait()

    def order(self, order: Mapping[str, Any]) -> None:
        """Send an order; it leaves while an answer is awaited."""
        self._outbox += _framed(marshal.dumps(dict(order)))

    def message(self, body: bytes) -> None:
        """Send bytes as they are, for the conversation of a session."""
        self._outbox += _framed(body)

    def ask(self, order: Mapping[str, Any], limits: Limits, *, recall: bool = True) -> Answer:
        """Send an order and wait for its answer, as ``reply`` does."""
        self.order(order)
        self.start()
        return self.reply(limits, recall=recall)

    def reply(self, limits: Limits, *, recall: bool = True) -> Answer:
        """Wait under the limits for the answer to what was ordered.

        A program that reaches one is ended; with ``recall`` the box itself goes on where it still answers.
        Raises ``Stopped`` when it does not, and the box is closed then.
        """
        try:
            return self.await_answer(time.monotonic() + limits.time_s, limits)
        except Overdue as overdue:
            if recall:
                return self._called_back(overdue.trouble)
            self.close()
            raise Stopped(overdue.trouble) from None

    def _called_back(self, trouble: Trouble) -> Answer:
        self.order({"verb": "kill"})
        try:
            answer = self.await_answer(time.monotonic() + FAREWELL_S, None)
        except Stopped:
            raise Stopped(trouble) from None
        return Answer(LIMIT, trouble.encode() + b"\n" + answer.body)

    def await_answer(self, until: float, limits: Limits | None) -> Answer:
        """Wait for a frame. Raises ``Overdue`` for a limit, ``Stopped`` (box closed) for all else."""
        granted = 0.0
        while True:
            answer = self.next_answer()
            if answer is not None:
                return answer
            now = time.monotonic()
            if now >= until + granted:
                if limits is None:
                    self.close()
                    raise Stopped("time_limit")
                starved = self.starved(limits, granted)
                if starved <= granted + SAMPLE_S:
                    raise Overdue("time_limit")
                granted = starved
            else:
                left = until + granted - now
                self._poll.poll(1000 * (left if limits is None else min(SAMPLE_S, left)))
            if limits is not None:
                self.check_memory(limits)

    def check_memory(self, limits: Limits) -> None:
        """Raise ``Overdue`` when what is inside is larger than the limit. Measures only now and then, but
        whatever is being said meanwhile."""
        now = time.monotonic()
        if now - self._sampled >= SAMPLE_S:
            self._sampled = now
            if self.memory_mb() > limits.memory_mb:
                raise Overdue("memory_limit")

    def next_answer(self) -> Answer | None:
        """Send what waits to be sent and return a frame if a whole one is there.

        Raises ``Stopped`` (box closed) when the other end is closed or what came is no frame.
        """
        self.push()
        gone = not self._pull()
        if len(self._buffer) >= 5:
            length = int.from_bytes(self._buffer[1:5], "big")
            if length > self.room:
                self.close()
                raise Stopped("garbled")
            if len(self._buffer) >= 5 + length:
                answer = Answer(bytes(self._buffer[:1]), bytes(self._buffer[5 : 5 + length]))
                del self._buffer[: 5 + length]
                return answer
        if gone:
            killed = (
                self._enclosed and _ended_within(self._process.pid, SAMPLE_S) and self._process.wait() < 0
            )
            self.close()
            if killed:
                # Nothing inside can reach bubblewrap: whoever did this is not the program.
                raise Transient("sandbox_failed", "the sandbox was killed from outside")
            raise Stopped("gone")
        return None

    def memory_mb(self) -> float:
        """What everything inside holds, now."""
        now = self._gauge.memory_mb()
        self.peak_mb = max(self.peak_mb, now)
        return now

    def start(self) -> None:
        """A run begins: what was used before is not its own."""
        self._sampled = time.monotonic()
        self._gauge.start()

    def starved(self, limits: Limits, granted: float) -> float:
        """Seconds of the run that are the machine's fault, at most as many as the limit itself."""
        return min(self._gauge.starved(limits.time_s, granted), limits.time_s)

    def spent_s(self) -> float:
        """Processor seconds of everything inside since the run began."""
        return self._gauge.spent()

    def at_rest(self) -> bool:
        """Whether nothing runs inside but what takes orders, whatever was said."""
        return self._process.returncode is None and len(self._gauge.processes()) <= self._at_rest

    def push(self) -> None:
        """Send as much of what waits to be sent as the other end takes now."""
        with suppress(BlockingIOError):
            while self._outbox:
                try:
                    sent = os.write(self._orders, self._outbox[: 1 << 16])
                except BrokenPipeError:
                    self._outbox.clear()
                    break
                del self._outbox[:sent]
        if self._sending != bool(self._outbox):
            # While something waits, room for it is a reason to wake up.
            self._sending = not self._sending
            if self._sending:
                self._poll.register(self._orders, select.POLLOUT)
            else:
                self._poll.unregister(self._orders)

    def _pull(self) -> bool:
        """Read what is there; False at the end."""
        with suppress(BlockingIOError):
            while len(self._buffer) <= self.room + 5:
                part = os.read(self._results, 1 << 18)
                if not part:
                    return False
                self._buffer += part
        return True


def _started(plan: Plan) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            plan.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=plan.environment,
            pass_fds=plan.descriptors,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise Transient("sandbox_failed", f"the sandbox did not start ({error})") from None
    finally:
        for descriptor in plan.descriptors:
            os.close(descriptor)


class _Ends:
    """The ends of processes, held by descriptor: a number could be another process by now."""

    def __init__(self, processes: Iterable[int]) -> None:
        self._open: list[int] = []
        for process in processes:
            with suppress(OSError):
                self._open.append(os.pidfd_open(process))

    def __enter__(self) -> _Ends:
        return self

    def __exit__(self, *raised: object) -> None:
        for end in self._open:
            os.close(end)

    def kill(self, after: int = 0) -> None:
        """Kill them, but for the first ones."""
        for end in self._open[after:]:
            with suppress(OSError):
                signal.pidfd_send_signal(end, signal.SIGKILL)

    def wait(self) -> None:
        """Wait until the last one has gone, and reap those that came to this process."""
        until = time.monotonic() + START_S
        for end in self._open:
            poll = select.poll()
            poll.register(end, select.POLLIN)
            poll.poll(max(0.0, until - time.monotonic()) * 1000)
            with suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, end, os.WEXITED | os.WNOHANG)


def _ended_within(pid: int, seconds: float) -> bool:
    """Whether a child of this process, not reaped yet, has ended by then."""
    end = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(end)


class Limits(NamedTuple):
    """Of one run: seconds on the clock, MiB resident."""

    time_s: float
    memory_mb: int


class Overdue(Exception):
    """A limit was reached; the box still stands."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble)
        self.trouble: Trouble = trouble


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body
