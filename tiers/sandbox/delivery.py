"""What is sent into every sandbox: the code of ``tiers.sandbox.inside``, compiled here, once."""

from __future__ import annotations

import ast
import marshal
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType
from typing import Literal

Role = Literal["plain", "session", "tester"]

_INSIDE = "tiers.sandbox.inside"
_MODULES: Mapping[Role, tuple[str, ...]] = {
    "plain": ("compiling", "confine", "programs", "zygote"),
    "session": ("values", "compiling", "confine", "programs", "peer", "session", "zygote"),
    "tester": (
        *("values", "compiling", "confine", "programs", "peer", "session"),
        *("proxy", "guard", "reading", "tester", "zygote"),
    ),
}
_LATER: Mapping[Role, tuple[str, ...]] = {"plain": ("values",), "session": (), "tester": ()}
# Short, because it is compiled anew in every sandbox; all else arrives compiled.
_BOOT = """
import gc, marshal, posix
gc.disable()
size, code = int.from_bytes(posix.read(0, 4), "big"), b""
while len(code) < size:
    code += posix.read(0, size - len(code)) or posix._exit(0)
arrival, sent, later = marshal.loads(code)
exec(arrival)
job = arrive(sent, later)
del arrival, arrive, code, later, sent, size
job() if job else posix._exit(0)
"""


@lru_cache(maxsize=8)
def modules(role: Role) -> bytes:
    """The code for a role, marshalled: what runs first, the modules, and those for later. The interpreter
    that will run it is the one that compiles it."""
    sent = [(name, _code(name)) for name in _MODULES[role]]
    later = {name: marshal.dumps(_code(name)) for name in _LATER[role]}
    return marshal.dumps((_code("arrival"), sent, later))


def _code(name: str) -> CodeType:
    """Of a module inside. What it wants of ``__future__`` is done here, and not looked for there."""
    spec = find_spec(f"{_INSIDE}.{name}")
    if spec is None or spec.origin is None:
        raise ImportError(f"{_INSIDE}.{name}")
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    rest = [each for each in tree.body if getattr(each, "module", "") != "__future__"]
    flags = annotations.compiler_flag if len(rest) < len(tree.body) else 0
    tree.body = rest
    code: CodeType = compile(tree, f"<{name}>", "exec", flags, dont_inherit=True, optimize=2)
    return code


def boot_arguments(interpreter: str) -> list[str]:
    """The command that becomes the zygote: no site, no user folder, no working folder on the path."""
    return [interpreter, "-s", "-S", "-P", "-X", "utf8", "-c", _BOOT]
