"""An adapter to a service that runs programs over HTTP, in the manner of SandboxFusion.

The service is told a program and an input and answers with what was printed. Expected values stay here.
``POST {address}/run_code`` with ``code``, ``language``, ``stdin``, ``compile_timeout``, ``run_timeout``
and ``memory_limit_MB``; see https://bytedance.github.io/SandboxFusion/docs/docs/reference/sandbox-api/run-code/
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from tiers.sandbox.box import Limits
from tiers.sandbox.inside import values
from tiers.sandbox.workshop import COMPILE_S, CompileFault, Program, Run
from verifier_service.domain.errors import Permanent, Transient

PATIENCE_S = 10.0
MAX_ANSWER = 1 << 26
_NAMES = {"javascript": "nodejs", "c": "cpp"}
_MARK = "\x1eresult\x1e"
_CALLER = """
import json as _json_module, sys as _sys
_given = _json_module.loads({given!r})
_space = {{"__name__": "solution"}}
for _source in _given["sources"]:
    exec(compile(_source, "solution.py", "exec", dont_inherit=True), _space)
_found = _space
for _part in _given["target"].split("."):
    _name = _part.removesuffix("()")
    if _found is _space:
        _next = _space.get(_name)
        if _next is None and "Solution" in _space:
            _next = getattr(_space["Solution"](), _name)
    else:
        _next = getattr(_found, _name)
    _found = _next() if _part.endswith("()") else _next
_value = _found(*_given["args"], **_given["kwargs"])
_sys.stdout.flush()
_sys.stdout.write({mark!r} + Writer().write(_value) + {mark!r})
"""


class RemoteService(NamedTuple):
    """Where the service is, and the key it wants (sent as a bearer token)."""

    address: str
    key: str


class RemoteWorkshop:
    """Implements ``Workshop``. Every run is one request; the service's own failures are never a verdict."""

    def __init__(self, service: RemoteService, program: Program) -> None:
        self._service, self._program = service, program

    def __enter__(self) -> RemoteWorkshop:
        return self

    def __exit__(self, *raised: object) -> None:
        """Nothing is kept between requests."""

    def run(self, stdin: bytes, limits: Limits) -> Run:
        """See the port."""
        source = self._program.prelude + "\n" + self._program.source
        return self._post(source if self._program.prelude else self._program.source, stdin, limits)

    def call(self, target: str, args: list[Any], kwargs: Mapping[str, Any], limits: Limits) -> Run:
        """See the port. The arguments must be JSON."""
        sources = [part for part in (self._program.prelude, self._program.source) if part]
        try:
            given = json.dumps({"sources": sources, "target": target, "args": args, "kwargs": dict(kwargs)})
        except TypeError as error:
            raise Permanent("unsupported_tests", "the remote sandbox takes JSON arguments only") from error
        code = inspect.getsource(values) + _CALLER.format(given=given, mark=_MARK)
        run = self._post(code, b"", limits)
        out, _, rest = run.out.decode("utf-8", "replace").rpartition(_MARK)[0].rpartition(_MARK)
        return run._replace(
            note=b"V" + rest.encode() if run.exit == 0 and rest else run.note, out=out.encode()
        )

    def rest(self) -> None:
        """See the port: nothing runs between requests."""

    def _post(self, code: str, stdin: bytes, limits: Limits) -> Run:
        language = self._program.toolchain.name
        request = {
            "code": code,
            "language": _NAMES.get(language, language),
            "stdin": stdin.decode("utf-8", "replace"),
            "compile_timeout": COMPILE_S,
            "run_timeout": limits.time_s,
            "memory_limit_MB": limits.memory_mb,
        }
        started = time.monotonic()
        answer = self._answer(request, limits)
        status, ran, built = answer.get("status"), answer.get("run_result"), answer.get("compile_result")
        if status not in ("Success", "Failed"):
            raise Transient("sandbox_failed", f"the sandbox service says {str(status)[:100]}")
        if isinstance(built, dict):
            _require_compiled(built)
        if not isinstance(ran, dict):
            raise Transient("sandbox_failed", "the sandbox service says nothing of the run")
        return _told(ran, time.monotonic() - started)

    def _answer(self, request: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._service.key}"} if self._service.key else {}
        patience = limits.time_s + COMPILE_S + PATIENCE_S
        try:
            response = httpx.post(
                f"{self._service.address.rstrip('/')}/run_code",
                content=json.dumps(request),
                headers={**headers, "Content-Type": "application/json"},
                timeout=patience,
                follow_redirects=False,
            )
            answer = json.loads(_accepted(response))
        except (httpx.HTTPError, ValueError, RecursionError) as error:
            raise Transient(
                "sandbox_failed", f"no answer of the sandbox service: {type(error).__name__}"
            ) from error
        if not isinstance(answer, dict):
            raise Transient("sandbox_failed", "the sandbox service answered with no object")
        return answer


def _require_compiled(built: Mapping[str, Any]) -> None:
    """Raises ``CompileFault`` for what the compiler refused, ``Transient`` where it was not asked."""
    status = built.get("status")
    if status not in ("Finished", "TimeLimitExceeded"):
        raise Transient("sandbox_failed", f"the sandbox service says of the compiler: {str(status)[:100]}")
    if status != "Finished" or built.get("return_code"):
        raise CompileFault(str(built.get("stderr") or "the service could not compile it")[:500])


def _accepted(response: httpx.Response) -> bytes:
    if response.status_code != 200:
        raise Transient("sandbox_failed", f"the sandbox service answered {response.status_code}")
    if len(response.content) > MAX_ANSWER:
        raise Transient("sandbox_failed", "the sandbox service answered with too much")
    return response.content


def _told(ran: Mapping[str, Any], wall_s: float) -> Run:
    """What the service says of the run. Anything but an end or a limit did not happen."""
    status = ran.get("status")
    if status not in ("Finished", "TimeLimitExceeded"):
        raise Transient("sandbox_failed", f"the sandbox service says {str(status)[:100]}")
    out, err = (str(ran.get(name) or "").encode("utf-8", "replace") for name in ("stdout", "stderr"))
    code, seconds = ran.get("return_code"), ran.get("execution_time")
    note = b"EMemoryError|0" if b"MemoryError" in err[-200:] and code else b""
    return Run(
        "ended" if status == "Finished" else "time_limit",
        code if isinstance(code, int) else -1,
        0,
        float(seconds) if isinstance(seconds, int | float) else wall_s,
        0.0,
        0.0,
        out,
        err,
        note,
    )
