"""The process that runs verifiers: ``python -m tiers.child``, started by the harness only.

It loads verifiers on request, runs batches, marks each item before it starts, and sends outcomes back
in small groups. It decides nothing about limits, retries or blame: the parent does.
"""

from __future__ import annotations

import argparse
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

from tiers.catalog_sources import Sources
from tiers.child_guard import die_with_parent, limit_resources, silence
from tiers.child_loading import Unusable, Warm, warmed
from tiers.child_template import Ends, Template
from tiers.child_wire import (
    HEADER,
    MAX_OUTCOME,
    BatchHead,
    Kind,
    SharedPage,
    frame,
    read_batch,
)
from verifier_service.domain.evidence import Failure, Finding, Outcome
from verifier_service.domain.verifiers import CheckInput, Params, Verifier, VerifierInfo, unexpected

HOLD_S = 0.002


class Channel:
    """The child's ends of the pipes: blocking, and closed in every forked grandchild."""

    def __init__(self, requests: int, results: int) -> None:
        self._requests = requests
        self._results = results

    def receive(self) -> tuple[Kind, bytes] | None:
        """Return the next request, or ``None`` when the parent has gone."""
        header = self._exactly(HEADER.size)
        if header is None:
            return None
        _, kind, length = HEADER.unpack(header)
        body = self._exactly(length)
        return None if body is None else (Kind(kind), body)

    def send(self, kind: Kind, body: bytes) -> None:
        """Write one frame. Raises ``OSError`` when the parent has gone."""
        rest = memoryview(frame(kind, body))
        while rest:
            rest = rest[os.write(self._results, rest) :]

    def _exactly(self, count: int) -> bytes | None:
        parts = []
        while count:
            part = os.read(self._requests, min(count, 1 << 20))
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


class Report:
    """Outcomes on their way out. They wait in the shared page, where the parent can see them, and are
    sent when the oldest is ``HOLD_S`` seconds old, so that a fast item costs no system call."""

    def __init__(self, channel: Channel, page: SharedPage) -> None:
        self._channel = channel
        self._page = page
        self._oldest: float | None = None
        self._wall = self._cpu = 0.0

    def begin(self, index: int) -> bool:
        """Mark an item as started; false when the rest of the batch has been given to others."""
        self._wall, self._cpu = time.monotonic(), _cpu_s()
        self._page.begin(index, self._wall, self._cpu)
        if self._page.may_run(index):
            return True
        self._page.rest()
        return False

    def end(self, index: int, outcome: object) -> None:
        """Keep or send what an item came to."""
        now = time.monotonic()
        entry = _entry(index, outcome, max(0.0, _cpu_s() - self._cpu), now - self._wall)
        if self._oldest is None:
            self._oldest = self._wall
        if not self._page.hold(entry):
            self.flush()
            if not self._page.hold(entry):
                self._channel.send(Kind.DONE, b"[" + entry + b"]")
        elif now - self._oldest > HOLD_S:
            self.flush()

    def flush(self) -> None:
        """Send everything kept. No item counts as executing while the pipe is full."""
        self._page.rest()
        self._oldest = None
        body = self._page.held()
        if body:
            self._channel.send(Kind.DONE, body)
            self._page.release()


def _cpu_s() -> float:
    own, waited_for = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + waited_for.ru_utime + waited_for.ru_stime


def _entry(index: int, outcome: object, cpu_s: float, wall_s: float) -> bytes:
    try:
        key, body = _encoded(outcome)
    except Exception as error:  # noqa: BLE001 - whatever a plugin returned must not end the batch
        key = "failure"
        body = _bad_output(f"{type(error).__name__}: {error}").model_dump_json()
    return f'{{"index":{index},"cpu_s":{cpu_s!r},"wall_s":{wall_s!r},"{key}":{body}}}'.encode()


def _encoded(outcome: object) -> tuple[str, str]:
    if isinstance(outcome, Failure):
        return "failure", outcome.model_dump_json()
    if not isinstance(outcome, Finding):
        return "failure", _bad_output(f"a {type(outcome).__name__} is no finding").model_dump_json()
    # A finding built without validation may hold NaN, which JSON would silently turn into null.
    body = Finding.model_validate(outcome.__dict__).model_dump_json()
    if len(body) > MAX_OUTCOME:
        return "failure", _bad_output(f"{len(body)} bytes are too many").model_dump_json()
    return "finding", body


def _bad_output(message: str) -> Failure:
    text = message.encode("ascii", "backslashreplace").decode()[:500]
    return Failure(kind="permanent", code="bad_output", message=f"the verifier's output: {text}")


class Bench:
    """The loaded verifiers and the loop that runs them."""

    def __init__(
        self, sources: Sources, warm: Mapping[str, Warm], channel: Channel, page: SharedPage
    ) -> None:
        self._sources = sources
        self._channel = channel
        self._report = Report(channel, page)
        self._verifiers: dict[str, Verifier] = {name: one.verifier for name, one in warm.items()}

    def serve(self) -> None:
        """Answer requests until the parent closes the pipe."""
        while (request := self._channel.receive()) is not None:
            kind, body = request
            if kind is Kind.LOAD:
                self._load(body.decode())
            else:
                head, items = read_batch(body)
                self._run(head, items)
                self._report.flush()
                self._channel.send(Kind.END, b"")

    def _load(self, name: str) -> None:
        try:
            warm = warmed(self._sources, name)
        except Unusable as error:
            self._channel.send(Kind.REFUSED, str(error).encode("utf-8", "backslashreplace")[:2000])
            return
        self._verifiers[name] = warm.verifier
        self._channel.send(Kind.READY, warm.ready.model_dump_json().encode())

    def _run(self, head: BatchHead, texts: Sequence[bytes]) -> None:
        verifier = self._verifiers[head.verifier]
        try:
            params = verifier.params_model.model_validate(head.params)
        except ValueError as error:
            self._refuse_all(len(texts), f"invalid parameters: {error}")
            return
        items: list[tuple[int, CheckInput]] = []
        for index, text in enumerate(texts):
            try:
                items.append((index, CheckInput.model_validate_json(text)))
            except ValueError as error:
                self._refuse(index, "bad_input", f"not a check input: {error}")
        size = verifier.info.limits.max_batch
        for start in range(0, len(items), size):
            self._run_slice(verifier, params, items[start : start + size])

    def _run_slice(self, verifier: Verifier, params: Params, items: list[tuple[int, CheckInput]]) -> None:
        position = 0
        while position < len(items):
            outcomes: Iterator[Outcome] | None = None
            for index, _ in items[position:]:
                if not self._report.begin(index):
                    return
                try:
                    if outcomes is None:
                        outcomes = iter(
                            verifier.verify_batch([item for _, item in items[position:]], params)
                        )
                    outcome: object = next(outcomes, None)
                    ended = outcome is None
                except BaseException as error:  # noqa: BLE001 - even SystemExit is only this item's failure
                    outcome, ended = _raised(error, verifier.info), True
                position += 1
                self._report.end(index, outcome)
                if ended:
                    break

    def _refuse_all(self, count: int, message: str) -> None:
        for index in range(count):
            self._refuse(index, "invalid_params", message)

    def _refuse(self, index: int, code: str, message: str) -> None:
        if not self._report.begin(index):
            return
        text = message.encode("ascii", "backslashreplace").decode()[:500]
        self._report.end(index, Failure(kind="permanent", code=code, message=text))


def _raised(error: BaseException, info: VerifierInfo) -> Failure:
    text = unexpected(error, info).encode("ascii", "backslashreplace").decode()
    return Failure(kind="permanent", code="verifier_error", message=text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A verifier process; started by the harness only.")
    for name in ("parent", "life", "file-mb", "open-files"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("requests", "results", "page", "control"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--plugin", action="append", default=[])
    return parser.parse_args()


def _serve(ends: Ends, sources: Sources, warm: Mapping[str, Warm]) -> None:
    page = SharedPage(ends.page)
    os.close(ends.page)

    def disown() -> None:
        # A forked grandchild must neither speak for this process nor keep its channel open.
        for descriptor in (ends.requests, ends.results):
            with suppress(OSError):
                os.close(descriptor)
        page.close()

    os.register_at_fork(after_in_child=disown)
    for descriptor in (ends.requests, ends.results, ends.life):
        os.set_inheritable(descriptor, False)
    Bench(sources, warm, Channel(ends.requests, ends.results), page).serve()


def _serve_copies(arguments: argparse.Namespace) -> None:
    """The template; every copy of it goes on as a child."""
    control = socket.socket(fileno=arguments.control)
    for descriptor in (arguments.control, arguments.life):
        os.set_inheritable(descriptor, False)
    sources = Sources(arguments.plugin)
    silence(os.dup(2))
    copy = Template(control, sources).copies()
    if copy is not None:
        os.close(arguments.life)
        # Before a thread is made, which would keep the template's log open.
        silence(copy.ends.log)
        die_with_parent(copy.parent, copy.ends.life)
        os.close(copy.settled)
        _serve(copy.ends, sources, copy.warm)


def main() -> None:
    """Prepare this process and serve until the parent goes."""
    arguments = _arguments()
    die_with_parent(arguments.parent, arguments.life, watch=arguments.control is None)
    limit_resources(arguments.file_mb, arguments.open_files)
    if arguments.control is not None:
        _serve_copies(arguments)
        return
    ends = Ends(arguments.requests, arguments.results, arguments.life, arguments.page, os.dup(2))
    sources = Sources(arguments.plugin)
    silence(ends.log)
    _serve(ends, sources, {})


if __name__ == "__main__":
    main()
