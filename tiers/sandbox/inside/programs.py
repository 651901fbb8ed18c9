"""A forked process becomes the program that it is to run."""

from __future__ import annotations

import builtins
import gc
import posix
import resource
import sys

from tiers.sandbox.inside.compiling import code_of
from tiers.sandbox.inside.confine import limit_memory, seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType
    from typing import Any

    Order = Mapping[str, Any]

FILE = "solution.py"
PRELUDE = "prelude.py"
NOTE = 3


def compiled(order: Order) -> list[Any]:
    """The code objects of an order's sources, in order. Raises what ``compile`` raises."""
    for name, body in order.get("write") or ():
        with open(f"/tmp/{name}", "wb") as file:
            file.write(body)
    limit_memory(order["memory_mb"])
    sources = order["sources"]
    names = [*[PRELUDE] * (len(sources) - 1), FILE]
    return [code_of(each, name) for each, name in zip(sources, names, strict=False)]


def syntax_fault(error: BaseException) -> str:
    """What is wrong with a source, in the compiler's words."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} (line {error.lineno})"
    if isinstance(error, MemoryError | RecursionError):
        return f"{type(error).__name__}: the source is nested too deeply"
    return f"{type(error).__name__}: {error}"


def enter(order: Order, standard: Sequence[int], kept: Sequence[int]) -> None:
    """Take the new standard streams and the note (as 3), close all but ``kept``, accept the limits."""
    for number, descriptor in enumerate(standard):
        posix.dup2(descriptor, number)
    low = NOTE + 1
    for descriptor in sorted(kept):
        posix.closerange(low, descriptor)
        low = descriptor + 1
    posix.closerange(low, 1024)
    gc.enable()  # nothing before needs it
    sys.set_int_max_str_digits(0)
    vars(builtins).update(exit=sys.exit, quit=sys.exit)  # what the module site would have given
    sys.argv = [FILE]
    if order.get("filter"):
        seccomp(order["filter"])
    if order["memory_mb"]:
        limit_memory(order["memory_mb"])
    else:
        resource.setrlimit(resource.RLIMIT_AS, resource.getrlimit(resource.RLIMIT_AS))


def job(order: Order, program: list[CodeType] | None, channel: Any) -> Callable[[], None]:
    """What the forked process runs, after all frames of the zygote are gone."""
    verb = order["verb"]
    if verb == "exec":
        return lambda: posix.execve(order["argv"][0], order["argv"], order["environment"])
    assert program is not None  # noqa: S101 - for mypy: the judge compiles first
    if verb == "script":
        return lambda: _ended(lambda: _guarded(lambda: execute(program, "__main__")))
    if verb == "series":
        return lambda: _guarded(lambda: _series(order, program, channel))
    if order["role"] == "tester":
        from tiers.sandbox.inside import tester

        return lambda: tester.serve(order, channel)
    from tiers.sandbox.inside import session

    return lambda: _guarded(lambda: session.serve(program, channel))


def execute(program: Sequence[CodeType], name: str) -> dict[str, Any]:
    """Run sources as the module ``name``; returns its namespace."""
    module = type(sys)(name)
    sys.modules[name] = module
    for code in program:
        exec(code, module.__dict__)
    return module.__dict__


def _ended(run: Callable[[], object]) -> None:
    """Run to the end and leave as the interpreter does, but for taking its modules apart."""
    code: object = 0
    try:
        run()
    except SystemExit as error:
        code = error.code
    except BaseException:  # noqa: BLE001 - whatever a program raises
        code = 1
        sys.excepthook(*sys.exc_info())
    for act in (_threads_joined, _exits_run, sys.stdout.flush, sys.stderr.flush):
        try:
            act()
        except BaseException:  # noqa: BLE001 - as at any interpreter's end: told, and gone on
            code = code or 120
            sys.excepthook(*sys.exc_info())
    if code is not None and not isinstance(code, int):
        posix.write(2, str(code).encode("utf-8", "backslashreplace") + b"\n")
    posix._exit(0 if code is None else code & 0xFF if isinstance(code, int) else 1)


def _threads_joined() -> None:
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()


def _exits_run() -> None:
    atexit = sys.modules.get("atexit")
    if atexit is not None:
        atexit._run_exitfuncs()


def _guarded(run: Callable[[], object]) -> None:
    """Run to the end; leave a note of what was raised: its class and its line in the program."""
    try:
        run()
    except SystemExit:
        raise
    except BaseException as error:
        posix.write(NOTE, b"E" + fault(error).encode("utf-8", "replace"))
        raise


def fault(error: BaseException) -> str:
    """Class and line of an error, never its text: that may quote the tests."""
    kind = "MemoryError" if isinstance(error, MemoryError) else type(error).__name__
    line, step = 0, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == FILE:
            line = step.tb_lineno
        step = step.tb_next
    return f"{kind[:60]}|{line}"


def _series(order: Order, program: Sequence[CodeType], channel: Any) -> None:
    """Run the module once, then every call that is ordered, in this one process, as data sets do."""
    namespace = execute(program, "solution")
    while (call := channel.receive()) is not None:
        channel.send(*_called(namespace, call, order["output"]))


def _called(namespace: Mapping[str, Any], call: Order, room: int) -> tuple[bytes, bytes]:
    """One call: a value, or what was raised, or that there is nothing of that name."""
    from tiers.sandbox.inside import values

    try:
        target = resolve(namespace, call["target"])
        if target is None:
            return b"N", b""
        value = target(*call["args"], **call["kwargs"])
        return b"V", values.Writer(room=room).write(value).encode()
    except values.TooBig as error:
        return b"B", str(error).encode()
    except BaseException as error:  # noqa: BLE001 - even SystemExit is only this call's failure
        return b"E", fault(error).encode("utf-8", "replace")


def resolve(namespace: Mapping[str, Any], target: str) -> Any:
    """The thing that ``name``, ``Class().method`` or ``Class.method`` names; ``None`` if there is none.

    A bare name that is not there is also looked for as a method of ``Solution``.
    """
    found: Any = None
    for position, part in enumerate(target.split(".")):
        name, made = part.removesuffix("()"), part.endswith("()")
        if position == 0:
            found = namespace.get(name)
            if found is None and "Solution" in namespace and "." not in target:
                found = getattr(namespace["Solution"](), name, None)
        else:
            found = getattr(found, name, None)
        if found is None:
            return None
        found = found() if made else found
    return found
