"""Runs one program on many inputs: the sandbox's boxes, opened anew where a run broke one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

from tiers.sandbox.box import COMPILED, ENDED, FAULT, LIMIT, Answer, Box, Limits, Stopped
from tiers.sandbox.languages import Toolchain
from tiers.sandbox.probe import Sandbox, run_order
from verifier_service.domain.errors import Transient

Ending = Literal["ended", "time_limit", "memory_limit", "output_limit", "lost"]
COMPILE_S = 30.0
MAX_OUTPUT = 1 << 24
_LONG_S = 0.02


class Program(NamedTuple):
    """A source, what is put before it, and its language."""

    source: str
    toolchain: Toolchain
    prelude: str = ""


class Run(NamedTuple):
    """How one run ended. Times are seconds, ``peak_mb`` MiB; all but ``wall_s`` as told from inside.

    ``note`` is what the program left for the judge: a value, or what was raised. ``starved_s`` are seconds
    of ``wall_s`` in which the machine had no processor for it, as far as is known afterwards.
    """

    ending: Ending
    exit: int
    signal: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    out: bytes
    err: bytes
    note: bytes
    starved_s: float = 0.0


class CompileFault(Exception):
    """The source is no program; the message is the compiler's."""


class Workshop(Protocol):
    """Where a program was made ready to run. A context: leaving it ends everything."""

    def __enter__(self) -> Workshop:
        """Itself."""

    def __exit__(self, *raised: object) -> None:
        """End everything that runs."""

    def run(self, stdin: bytes, limits: Limits) -> Run:
        """Run the program as a script on an input."""

    def call(self, target: str, args: list[Any], kwargs: Mapping[str, Any], limits: Limits) -> Run:
        """Run the program as a module and call something in it."""

    def rest(self) -> None:
        """Let nothing of the program run until it is asked for again."""


class LocalWorkshop:
    """Implements ``Workshop`` with a sandbox of this machine."""

    def __init__(self, sandbox: Sandbox, program: Program, memory_mb: int, output: int = 1 << 20) -> None:
        """Compile at once. Raises ``CompileFault``, or ``Transient`` when no box can be opened."""
        self._sandbox, self._program = sandbox, program
        self._memory_mb, self._output = memory_mb, min(output, MAX_OUTPUT)
        self._box: Box | None = None
        self._series = False
        self._ready()

    def __enter__(self) -> LocalWorkshop:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """End everything that runs."""
        if self._box is not None:
            self._box.close()
            self._forget()

    def run(self, stdin: bytes, limits: Limits) -> Run:
        """See the port."""
        toolchain = self._program.toolchain
        if toolchain.run is None:
            return self._ask({"verb": "script", "stdin": stdin}, limits)
        return self._ask({"verb": "exec", "stdin": stdin, **self._execution(toolchain.run)}, limits)

    def call(self, target: str, args: list[Any], kwargs: Mapping[str, Any], limits: Limits) -> Run:
        """See the port. Calls share one process until one of them ends or breaks it."""
        started = time.monotonic()
        box = self._ready()
        try:
            if not self._series:
                order = {"verb": "series", "output": self._output, "memory_mb": limits.memory_mb}
                box.order(run_order(self._sandbox, order))
                self._series = True
            order = {"target": target, "args": args, "kwargs": dict(kwargs)}
            box.room = _room(self._output)
            answer = box.ask(order, limits, recall=False)
        except Stopped as stopped:
            self._forget()
            return _stopped(stopped, box)
        if answer.kind == ENDED:
            # The box stands, but an order may have been left unread in it.
            self.close()
            run = _told(answer, box)
            return run._replace(ending="lost" if run.ending == "ended" else run.ending)
        wall_s = time.monotonic() - started
        ending: Ending = "ended" if len(answer.body) <= self._output else "output_limit"
        note = answer.kind + answer.body if ending == "ended" else b""
        starved_s = max(0.0, box.starved(limits, 0.0)) if wall_s > _LONG_S else 0.0
        return Run(ending, 0, 0, wall_s, 0.0, box.peak_mb, b"", b"", note, starved_s)

    def rest(self) -> None:
        """See the port."""
        if self._series:
            self.close()

    def _forget(self) -> None:
        self._box, self._series = None, False

    def _ask(self, order: dict[str, Any], limits: Limits) -> Run:
        self.rest()
        box = self._ready()
        memory = 0 if self._program.toolchain.reserves else limits.memory_mb
        box.room = _room(self._output)
        asked = {"output": self._output, "memory_mb": memory, "files": self._program.toolchain.files}
        try:
            answer = box.ask(run_order(self._sandbox, {**asked, **order}), limits)
        except Stopped as stopped:
            self._forget()
            return _stopped(stopped, box)
        return _told(answer, box)

    def _ready(self) -> Box:
        if self._box is None:
            first = self._compile_order()
            box = self._sandbox.open(proc=self._program.toolchain.proc, first=first)
            try:
                self._compile(box)
            except BaseException:
                box.close()
                raise
            self._box = box
        return self._box

    def _compile_order(self) -> dict[str, Any]:
        """What a box does first: compile a Python program, store any other."""
        program = self._program
        if program.toolchain.run is None:
            sources = [part for part in (program.prelude, program.source) if part]
            return {"verb": "compile", "memory_mb": self._memory_mb, "sources": sources}
        source = (program.prelude + program.source).encode("utf-8", "surrogatepass")
        stored = [(program.toolchain.source, source)]
        return {"verb": "compile", "memory_mb": 1 << 20, "sources": [], "write": stored}

    def _compile(self, box: Box) -> None:
        toolchain = self._program.toolchain
        limits = Limits(COMPILE_S, max(self._memory_mb, toolchain.compile_memory_mb))
        try:
            answer = box.reply(limits)
            if toolchain.run is not None:
                self._build(box, toolchain, limits, answer)
                return
        except Stopped as stopped:
            raise CompileFault(f"the source cannot be compiled ({stopped.trouble})") from None
        if answer.kind == FAULT:
            raise CompileFault(answer.body.decode("utf-8", "replace")[:500])
        if answer.kind != COMPILED:
            raise CompileFault("the source takes too long or too much memory to compile")

    def _build(self, box: Box, toolchain: Toolchain, limits: Limits, stored: Answer) -> None:
        if stored.kind != COMPILED:
            raise Transient("sandbox_failed", f"the source could not be stored: {stored.body[:200]!r}")
        if toolchain.compile is None:
            return
        build = {"verb": "exec", "output": self._output, "memory_mb": 0, "files": toolchain.files}
        answer = box.ask(run_order(self._sandbox, {**build, **self._execution(toolchain.compile)}), limits)
        run = _told(answer, box)
        if run.ending != "ended" or run.exit != 0:
            words = (run.err or run.out).decode("utf-8", "replace").replace("/tmp/", "")  # noqa: S108
            raise CompileFault(words[:500] or f"the compiler ended with {run.exit} ({run.ending})")

    def _execution(self, line: tuple[str, ...]) -> dict[str, Any]:
        from tiers.sandbox.namespaces import ENVIRONMENT

        return {"argv": list(line), "environment": dict(ENVIRONMENT)}


def _room(output: int) -> int:
    """The longest report of a run: printed text, errors, and a note."""
    return 3 * output + 4096


def _stopped(stopped: Stopped, box: Box) -> Run:
    ending: Ending = "lost" if stopped.trouble in ("gone", "garbled") else _limit(stopped.trouble)
    return Run(ending, -1, 9, 0.0, 0.0, box.peak_mb, b"", b"", b"")


def _limit(trouble: str) -> Ending:
    return "memory_limit" if trouble == "memory_limit" else "time_limit"


def _told(answer: Answer, box: Box) -> Run:
    """The report of a run. What does not read like one counts as a run that was lost."""
    ending: Ending = "ended"
    body = answer.body
    if answer.kind == LIMIT:
        trouble, _, body = body.partition(b"\n")
        ending = _limit(trouble.decode("ascii", "replace"))
    elif answer.kind != ENDED:
        return Run("lost", -1, 9, 0.0, 0.0, box.peak_mb, b"", b"", b"")
    try:
        head, _, rest = body.partition(b"\n")
        fields = dict(each.split("=", 1) for each in head.decode("ascii").split(" "))
        out, err, note = (int(fields[name]) for name in ("out", "err", "note"))
        if ending == "ended" and fields["over"] == "output":
            ending = "output_limit"
        return Run(
            ending,
            int(fields["exit"]),
            int(fields["signal"]),
            _measured(fields["wall"]),
            _measured(fields["cpu"]),
            max(box.peak_mb if ending == "memory_limit" else 0.0, _measured(fields["peak"]) / 1024),
            rest[:out],
            rest[out : out + err],
            rest[out + err : out + err + note],
        )
    except (KeyError, ValueError):
        return Run("lost", -1, 9, 0.0, 0.0, box.peak_mb, b"", b"", b"")


def _measured(text: str) -> float:
    """A number that a report tells. Raises ``ValueError`` for what nobody measures."""
    value = float(text)
    if not 0.0 <= value < 1e12:
        raise ValueError(text)
    return value
