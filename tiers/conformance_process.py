"""A process that the conformance suite starts: it runs one verifier without the harness around it.

``python -m tiers.conformance_process ORDER REPORT``: both are files. The order says what to do, one act
after the other; every fact is appended to the report as one line as soon as it is known, so that what
was known before a crash is not lost. Standard output stays free, so that what a verifier prints is seen.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import psutil

from tiers.catalog_sources import load_path
from verifier_service.domain.errors import TaskError, Transient
from verifier_service.domain.evidence import Failure, Finding, Outcome, Reason
from verifier_service.domain.records import JsonObject, Record
from verifier_service.domain.verifiers import CheckInput, Params, Verifier

Act = Literal["forward", "again", "backward", "batch", "precheck", "raise", "die"]
DIES_AT = 1
DEATH = 86
_PR_SET_CHILD_SUBREAPER = 36
SETTLE_S = 2.0
_OWN = ("tiers", "verifier_service")


class Order(Record):
    """What the process is to do; ``items`` are ``CheckInput`` as JSON."""

    path: str
    params: JsonObject
    items: tuple[str, ...]
    acts: tuple[Act, ...]


class Fact(Record):
    """One outcome of an act, or what the act left (``index`` -1).

    ``raised`` is the name of an exception that came out of the verifier. ``modules`` are libraries that
    were imported meanwhile, ``files`` what lies in the process's own folders.
    """

    act: Act
    index: int = -1
    finding: Finding | None = None
    failure: Failure | None = None
    reason: Reason | None = None
    raised: str | None = None
    note: str = ""
    cpu_s: float = 0.0
    descriptors: int = 0
    processes: tuple[int, ...] = ()
    files: int = 0
    modules: tuple[str, ...] = ()

    def outcome(self) -> Outcome | None:
        """The finding or the failure."""
        return self.finding if self.finding is not None else self.failure


class Actor:
    """One verifier, and the acts it is put through."""

    def __init__(self, order: Order, report: Path) -> None:
        self._order = order
        self._verifier: Verifier = load_path(order.path)
        self._params = self._verifier.params_model.model_validate(order.params)
        self._items = [CheckInput.model_validate_json(text) for text in order.items]
        self._report = report.open("a", encoding="utf-8")

    def perform(self) -> None:
        """Every act of the order, each followed by what it left."""
        if "precheck" in self._order.acts:  # as the server does: nothing is warm
            self._precheck()
            return
        self._verifier.warm()
        plays: dict[Act, Callable[[Act], None]] = {
            "forward": self._one_by_one,
            "again": self._one_by_one,
            "backward": self._one_by_one,
            "batch": self._batch,
            "raise": self._raise,
            "die": self._die,
        }
        known = 0
        for act in self._order.acts:
            if act in plays:
                plays[act](act)
                _settle(known)
                left = _left()
                known = known or len(left["processes"])
                self._tell(Fact(act=act, **left))

    def _tell(self, fact: Fact) -> None:
        self._report.write(fact.model_dump_json() + "\n")
        self._report.flush()

    def _one_by_one(self, act: Act) -> None:
        order = range(len(self._items))
        for index in reversed(order) if act == "backward" else order:
            began = time.process_time()
            told = _told(next(_outcomes(self._verifier, [self._items[index]], self._params), None))
            self._tell(Fact(act=act, index=index, cpu_s=time.process_time() - began, **told))

    def _batch(self, act: Act) -> None:
        size = max(2, self._verifier.info.limits.max_batch)
        for start in range(0, len(self._items), size):
            piece = self._items[start : start + size]
            for place, outcome in enumerate(_outcomes(self._verifier, piece, self._params)):
                self._tell(Fact(act=act, index=start + place, **_told(outcome)))

    def _raise(self, act: Act) -> None:
        """What becomes of errors inside ``verify``: each must come out as a failure of its own kind."""
        errors: Sequence[BaseException] = (
            RuntimeError("by the suite"),
            MemoryError(),
            TaskError("by_the_suite", "by the suite"),
            Transient("by_the_suite", "by the suite"),
        )
        for index, error in enumerate(errors):
            calls: list[CheckInput] = []

            def broken(
                item: CheckInput,
                params: Params,  # noqa: ARG001 - the signature it stands for
                *,
                error: BaseException = error,
                calls: list[CheckInput] = calls,
            ) -> Finding:
                calls.append(item)
                raise error

            with _Replaced(self._verifier, broken):
                outcome = next(_outcomes(self._verifier, self._items[:1], self._params), None)
            note = type(error).__name__ if calls else ""
            self._tell(Fact(act=act, index=index, note=note, **_told(outcome)))

    def _die(self, act: Act) -> None:
        """End the process in the middle of a batch: whoever is lazy has reported the items before."""
        calls = 0
        verify = self._verifier.verify

        def dying(item: CheckInput, params: Params) -> Finding:
            nonlocal calls
            calls += 1
            if calls > DIES_AT:
                os._exit(DEATH)
            return verify(item, params)

        items = [self._items[0]] * (DIES_AT + 2)
        with _Replaced(self._verifier, dying):
            for index, outcome in enumerate(_outcomes(self._verifier, items, self._params)):
                self._tell(Fact(act=act, index=index, **_told(outcome)))

    def _precheck(self) -> None:
        before = set(sys.modules)
        for index, item in enumerate(self._items):
            began = time.process_time()
            told: dict[str, Any] = {}
            try:
                reason: object = self._verifier.precheck(item, self._params)
                if reason is None or isinstance(reason, Reason):
                    told["reason"] = reason
                else:
                    told["raised"] = f"returned a {type(reason).__name__}"
                size: object = self._verifier.size(item, self._params)
                if not (isinstance(size, float | int) and 0 < size < math.inf):
                    told["raised"] = f"its size is {size!r:.40}, not a number above 0"
            except Exception as error:  # noqa: BLE001 - a fact about the verifier
                told["raised"] = type(error).__name__
            self._tell(Fact(act="precheck", index=index, cpu_s=time.process_time() - began, **told))
        fresh = {name.partition(".")[0] for name in set(sys.modules) - before}
        foreign = fresh - sys.stdlib_module_names - set(_OWN)
        self._tell(Fact(act="precheck", modules=tuple(sorted(foreign))))


def _outcomes(verifier: Verifier, items: Sequence[CheckInput], params: Params) -> Iterator[object]:
    """What ``verify_batch`` yields, an exception out of it as its last."""
    try:
        yield from verifier.verify_batch(items, params)
    except Exception as error:  # noqa: BLE001 - a fact about the verifier
        yield error


def _told(outcome: object) -> dict[str, Any]:
    if isinstance(outcome, Finding):
        try:
            return {"finding": Finding.model_validate(outcome.__dict__)}
        except ValueError:
            return {"raised": "an invalid finding"}
    if isinstance(outcome, Failure):
        return {"failure": outcome}
    if isinstance(outcome, Exception):
        return {"raised": type(outcome).__name__}
    return {"raised": "no outcome" if outcome is None else f"a {type(outcome).__name__}"}


class _Replaced:
    """``verify`` of one instance, put back afterwards."""

    def __init__(self, verifier: Verifier, verify: Callable[[CheckInput, Params], Finding]) -> None:
        self._verifier, self._verify = verifier, verify

    def __enter__(self) -> None:
        vars(self._verifier)["verify"] = self._verify

    def __exit__(self, *_: object) -> None:
        vars(self._verifier).pop("verify", None)


def _settle(known: int) -> None:
    """Give processes that are about to end a moment, where there are more than there were."""
    until = time.monotonic() + SETTLE_S
    while len(_living()) > known and time.monotonic() < until:
        time.sleep(0.05)


def _living() -> tuple[int, ...]:
    """Descendants that can still do something: orphans that have ended are nobody's to wait for."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE:
                found.append(child.pid)
    return tuple(sorted(found))


def _left() -> dict[str, Any]:
    own = psutil.Process()
    return {
        "descriptors": own.num_fds(),
        "processes": _living(),
        "files": sum(len(files) + len(folders) for _, folders, files in os.walk(Path.cwd())),
    }


def main() -> None:
    """Read the order, perform it, and leave."""
    order, report = map(Path, sys.argv[1:3])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    Actor(Order.model_validate_json(order.read_bytes()), report).perform()


if __name__ == "__main__":
    main()
