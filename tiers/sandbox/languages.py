"""Languages other than the worker's own Python, each declared by the operator and found on the machine.

``VERIFIER_LANGUAGES`` is a JSON list: names of the table below, or objects like ``Toolchain``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from pydantic import Field, ValidationError

from verifier_service.domain.records import Record

BINARY = "program"


class Toolchain(Record):
    """How a language is compiled and run inside a sandbox, where ``/usr`` is the machine's own.

    ``source`` is the file's name in ``/tmp``, ``compile`` and ``run`` are argument lists with absolute
    programs (``run`` empty for the Python that is already running inside). ``reserves`` says that it
    reserves far more address space than it uses, ``proc`` that it needs a ``/proc``.
    """

    name: str
    source: str = "solution"
    compile: tuple[str, ...] | None = None
    run: tuple[str, ...] | None = None
    files: tuple[str, ...] = ()
    reserves: bool = False
    proc: bool = False
    compile_memory_mb: int = Field(default=1024, ge=16, le=8192)


class BadLanguages(ValueError):
    """``VERIFIER_LANGUAGES`` cannot be used; the message says why."""


PYTHON = Toolchain(name="python")


def _table() -> dict[str, Toolchain]:
    place, binary = "/tmp/", f"/tmp/{BINARY}"  # noqa: S108 - inside a sandbox
    entries = (
        ("c", "solution.c", "gcc -O2 -std=c17 -o {binary} {source} -lm", "{binary}", False, False),
        ("cpp", "solution.cpp", "g++ -O2 -std=c++20 -o {binary} {source}", "{binary}", False, False),
        ("rust", "solution.rs", "rustc -O -o {binary} {source}", "{binary}", False, True),
        ("go", "solution.go", "go build -o {binary} {source}", "{binary}", True, True),
        ("javascript", "solution.js", "", "node {source}", True, True),
        ("perl", "solution.pl", "", "perl {source}", False, False),
        ("ruby", "solution.rb", "", "ruby {source}", False, False),
        ("bash", "solution.sh", "", "bash {source}", False, False),
        ("lua", "solution.lua", "", "lua {source}", False, False),
    )
    table = {}
    for name, file, build, run, reserves, proc in entries:
        names = {"source": place + file, "binary": binary}
        table[name] = Toolchain(
            name=name,
            source=file,
            compile=tuple(build.format(**names).split()) or None,
            run=tuple(run.format(**names).split()),
            files=(file, BINARY) if build else (file,),
            reserves=reserves,
            proc=proc,
        )
    return table


KNOWN: Mapping[str, Toolchain] = MappingProxyType(_table())


@lru_cache(maxsize=8)
def declared(text: str | None = None) -> Mapping[str, Toolchain]:
    """The languages of this worker by name, ``python`` always among them. Raises ``BadLanguages``."""
    text = os.environ.get("VERIFIER_LANGUAGES", "[]") if text is None else text
    try:
        entries = json.loads(text or "[]")
    except ValueError as error:
        raise BadLanguages(f"VERIFIER_LANGUAGES is not JSON: {error}") from error
    if not isinstance(entries, list):
        raise BadLanguages("VERIFIER_LANGUAGES must be a JSON list")
    found = {"python": PYTHON}
    for entry in entries:
        toolchain = _entry(entry)
        found[toolchain.name] = _located(toolchain)
    return MappingProxyType(found)


def _entry(entry: object) -> Toolchain:
    if isinstance(entry, str):
        if entry not in (*KNOWN, "python"):
            raise BadLanguages(f"VERIFIER_LANGUAGES: {entry!r} is not one of {', '.join(KNOWN)}")
        return PYTHON if entry == "python" else KNOWN[entry]
    try:
        return Toolchain.model_validate_json(json.dumps(entry))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadLanguages(f"VERIFIER_LANGUAGES: {first['loc']}: {first['msg']}") from error


def _located(toolchain: Toolchain) -> Toolchain:
    """The same with absolute programs. Raises ``BadLanguages`` for one that is not on this machine."""
    return toolchain.model_copy(update={"compile": _found(toolchain.compile), "run": _found(toolchain.run)})


def _found(line: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if not line or line[0].startswith("/tmp/"):  # noqa: S108 - inside a sandbox
        return line
    program = shutil.which(line[0], path="/usr/local/bin:/usr/bin:/bin")
    if program is None:
        raise BadLanguages(f"VERIFIER_LANGUAGES: {line[0]} is not in /usr/local/bin, /usr/bin or /bin")
    return (program, *line[1:])
