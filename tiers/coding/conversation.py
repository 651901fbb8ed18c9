"""Tests written in Python ask a solution: two sandboxes, and the judge carries every word between them."""

from __future__ import annotations

import json
import re
import select
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tiers.coding.cases import Source, bare_name
from tiers.sandbox.box import (
    ENDED,
    MESSAGE,
    RECORD,
    SAMPLE_S,
    Answer,
    Box,
    Limits,
    Overdue,
    Stopped,
    Trouble,
)
from verifier_service.domain.errors import Transient

MAX_MESSAGES = 200_000
# The share of the time limit in which others may have kept the tests from a processor.
_BUSY = 0.1
_FAULT = re.compile(rb"E[A-Za-z_][A-Za-z0-9_]{0,59}\|[0-9]{1,7}\Z")
_CODES = frozenset(
    (
        "passed",
        "wrong_answer",
        "crashed",
        "not_data",
        "nothing_checked",
        "no_such_function",
        "bad_test",
        "skipped",
        "ready",
    )
)


class Told(NamedTuple):
    """What the tester says of one test."""

    name: str
    code: str
    text: str


class Heard(NamedTuple):
    """What one source of tests came to: records by test name, and what cut them short."""

    records: tuple[Told, ...]
    trouble: Trouble | None
    fault: str
    wall_s: float
    peak_mb: float


class Conversation:
    """One run of one source of tests. Both boxes must have their code compiled already."""

    def __init__(self, solution: Box, tester: Box, entry_point: str | None) -> None:
        self._solution, self._tester = solution, tester
        self._entry_point = entry_point
        self._records: list[Told] = []
        self._turn = tester
        self._alone = False
        self._ended: dict[Box, Answer] = {}
        self._messages = 0
        self._poll = select.poll()
        for box in (solution, tester):
            self._poll.register(box.results, select.POLLIN)

    def hold(
        self, case: Source, limits: Limits, order: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> Heard:
        """Let the tests run. Both boxes are closed if anything goes wrong, or goes on."""
        started = time.monotonic()
        self._solution.start()
        self._tester.start()
        self._solution.order(order({"verb": "session", "role": "solution"}))
        wanted = {"source": case.source, "names": list(case.names), "functions": list(case.functions)}
        wanted["classes"] = list(case.classes)
        tests = {"verb": "session", "role": "tester", "entry_point": bare_name(self._entry_point), **wanted}
        self._tester.order(order(tests))
        trouble: Trouble | None = None
        try:
            self._listen(started, limits)
        except Overdue as overdue:
            trouble = overdue.trouble
        except Stopped as stopped:
            trouble = stopped.trouble
        wall_s = time.monotonic() - started
        if trouble is None and not self._solution.at_rest():
            trouble = "garbled"
        if trouble is not None:
            self._solution.close()
            self._tester.close()
        return Heard(tuple(self._records), trouble, self._fault(), wall_s, self._solution.peak_mb)

    def _listen(self, started: float, limits: Limits) -> None:
        granted = 0.0
        while len(self._ended) < 2:
            self._carry(self._tester, self._solution)
            self._carry(self._solution, self._tester)
            if len(self._ended) == 2:
                return
            now = time.monotonic()
            if now >= started + limits.time_s + granted:
                both = (self._solution, self._tester)
                starved = min(sum(box.starved(limits, granted) for box in both), limits.time_s)
                if starved <= granted + SAMPLE_S:
                    self._blame_for_time(limits)
                    raise Overdue("time_limit")
                granted = starved
            else:
                self._poll.poll(1000 * SAMPLE_S)
            self._solution.check_memory(limits)
            try:
                self._tester.check_memory(limits)
            except Overdue:
                self._blame_tests()
                raise

    def _blame_for_time(self, limits: Limits) -> None:
        """Tests that were kept from a processor did not reach the limit by themselves: a solution that took
        it from them answers for that, and else the machine, so that nobody has a score. Raises
        ``Transient`` for that."""
        few = _BUSY * limits.time_s
        if not self._alone or self._tester.starved(limits, 0.0) <= few:
            self._blame_tests()
        elif self._solution.spent_s() <= few:
            raise Transient("machine_busy", "the machine was too busy for the tests to get their time")

    def _blame_tests(self) -> None:
        """A limit that they reach before they ask the solution for anything is nobody else's doing."""
        if self._alone:
            self._records.append(Told("", "bad_test", "they reach a limit by themselves"))

    def _carry(self, speaker: Box, listener: Box) -> None:
        while speaker not in self._ended:
            answer = speaker.next_answer()
            if answer is None:
                return
            if answer.kind == MESSAGE:
                self._pass_on(answer.body, speaker, listener)
            elif answer.kind == RECORD and speaker is self._tester:
                self._hear(_told(answer.body))
            elif answer.kind == ENDED:
                self._ended[speaker] = answer
                if listener not in self._ended:
                    # Nobody is there to answer any more.
                    listener.message(b"")
                    listener.push()
            else:
                raise Stopped("garbled")

    def _hear(self, told: Told) -> None:
        if told.code == "ready":
            self._alone = True
        else:
            self._records.append(told)

    def _pass_on(self, body: bytes, speaker: Box, listener: Box) -> None:
        """One speaks, then the other: who speaks out of turn could fill the judge's memory."""
        self._messages += 1
        if self._messages > MAX_MESSAGES:
            raise Overdue("time_limit")
        if speaker is not self._turn:
            raise Stopped("garbled")
        if listener in self._ended:
            speaker.message(b"")
            speaker.push()
            return
        self._turn = listener
        self._alone = False
        listener.message(body)
        listener.push()

    def _fault(self) -> str:
        """What the solution left when it ended by itself before the tests did: class and line."""
        answer = self._ended.get(self._solution)
        if answer is None:
            return ""
        head, _, rest = answer.body.partition(b"\n")
        try:
            fields = dict(each.split("=", 1) for each in head.decode("ascii").split(" "))
            note = rest[int(fields["out"]) + int(fields["err"]) :]
        except (KeyError, ValueError):
            return ""
        return read_fault(note)


def read_fault(note: bytes) -> str:
    """Class and line of what was raised, from a note; whatever else a program left there is nothing."""
    return note[1:].decode("ascii") if _FAULT.match(note) else ""


def _told(body: bytes) -> Told:
    """A record. What does not read like one says that the tests broke down."""
    try:
        record = json.loads(body)
        told = Told(*(record[name] for name in Told._fields))
    except (ValueError, KeyError, TypeError, RecursionError):
        return Told("", "crashed", "")
    if not all(isinstance(each, str) for each in told) or told.code not in _CODES:
        return Told("", "crashed", "")
    return told._replace(text=told.text[:200])
