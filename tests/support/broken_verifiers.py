"""One sound verifier, and copies of it that each break one promise: the one they name in ``breaks``."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from verifier_service.domain.errors import TaskError
from verifier_service.domain.evidence import Finding, Hint, Outcome, Reason, Tier, Verdict
from verifier_service.domain.verifiers import CheckInput, Limits, Params, Verifier, VerifierInfo

LONG = 500_000


def info(name: str, **changes: Any) -> VerifierInfo:
    fields: dict[str, Any] = {
        "name": name,
        "version": "1",
        "tier": Tier.FAST,
        "summary": "for tests of the conformance suite",
        "reads": frozenset({"candidate", "reference", "turns"}),
        "libraries": ("pydantic",),
        "limits": Limits(time_s=5.0, memory_mb=512, max_batch=64),
    }
    return VerifierInfo(**(fields | changes))


def rejected(message: str = "not the value that was asked for", **fields: Any) -> Finding:
    values: dict[str, Any] = {"score": 0.0, "reason": Reason(code="wrong_value", message=message)}
    return Finding(verdict=Verdict.REJECT, **(values | fields))


class Sound(Verifier):
    """The answer must equal ``reference["value"]``, a text. Keeps every promise."""

    info = info("sound")
    breaks: ClassVar[str | None] = None

    def verify(self, item: CheckInput, params: Params) -> Finding:
        wanted = item.reference.get("value")
        if not isinstance(wanted, str) or not wanted:
            raise TaskError("bad_reference", "reference.value is missing or no text")
        if item.candidate == wanted:
            return Finding(verdict=Verdict.ACCEPT, score=1.0)
        return rejected()


class SoundDoor(Sound):
    """Keeps every promise, with a question at the door."""

    info = info("sound_door")

    def precheck(self, item: CheckInput, params: Params) -> Reason | None:
        return Reason(code="empty", message="there is no answer") if item.candidate == "" else None


class SlowButBlamed(Sound):
    """A long text takes for ever, and that counts against whoever wrote it."""

    info = info(
        "slow_but_blamed", on_limit="reject", limits=Limits(time_s=0.3, memory_mb=512, max_batch=64)
    )

    def verify(self, item: CheckInput, params: Params) -> Finding:
        if isinstance(item.candidate, str) and len(item.candidate) > LONG:
            time.sleep(600)
        return super().verify(item, params)


class SlowForNothing(SlowButBlamed):
    info = info("slow_for_nothing", limits=Limits(time_s=0.3, memory_mb=512, max_batch=64))
    breaks = "limits"


class Greedy(Sound):
    """A long text takes all memory there is."""

    info = info("greedy", limits=Limits(time_s=30.0, memory_mb=300, max_batch=64))
    breaks = "limits"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        hoard = []
        while isinstance(item.candidate, str) and len(item.candidate) > LONG:
            hoard.append(b"x" * (16 << 20))
            time.sleep(0.002)
        return super().verify(item, params)


class Random(Sound):
    info = info("random")
    breaks = "determinism"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        found = super().verify(item, params)
        return found.model_copy(update={"labels": {"draw": str(random.random())}})


class HashOrder(Sound):
    """What it says depends on how this process hashes text."""

    info = info("hash_order")
    breaks = "determinism"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        found = super().verify(item, params)
        return found.model_copy(
            update={"labels": {"first": next(iter({"a", "b", "c", "d", "e", "f", "g"}))}}
        )


class Remembers(Sound):
    """What it says depends on what came before."""

    info = info("remembers")
    breaks = "determinism"
    _calls = 0

    def verify(self, item: CheckInput, params: Params) -> Finding:
        found = super().verify(item, params)
        self._calls += 1
        return found.model_copy(update={"labels": {"calls": str(self._calls)}})


class ErrorsAreZero(Sound):
    """The worst thing seen in this field: an error is called a wrong answer."""

    info = info("errors_are_zero")
    breaks = "failure_is_null"

    def attempt(self, item: CheckInput, params: Params) -> Outcome:
        try:
            return self.verify(item, params)
        except (RuntimeError, MemoryError):
            return rejected("something went wrong")
        except TaskError:
            return super().attempt(item, params)


class Eager(Sound):
    """Judges the whole batch before it tells the first: the wrong item is blamed."""

    info = info("eager")
    breaks = "batch_blame"

    def verify_batch(self, items: Sequence[CheckInput], params: Params) -> Iterator[Outcome]:
        return iter([self.attempt(item, params) for item in items])


def of_the_samples(item: CheckInput) -> bool:
    """Whether it is the wrong one of the test's own samples: hostile items are left alone."""
    return item.candidate == "tomato" and item.reference.get("value") == "aubergine"


class Backwards(Sound):
    info = info("backwards")
    breaks = "batch"

    def verify_batch(self, items: Sequence[CheckInput], params: Params) -> Iterator[Outcome]:
        whole = list(items)
        for item in reversed(whole) if any(map(of_the_samples, whole)) else whole:
            yield self.attempt(item, params)


class Neighbours(Sound):
    """In a batch every answer gets what the best of them deserves."""

    info = info("neighbours")
    breaks = "batch"

    def verify_batch(self, items: Sequence[CheckInput], params: Params) -> Iterator[Outcome]:
        for item in items:
            lent = len(items) > 1 and of_the_samples(item)
            yield Finding(verdict=Verdict.ACCEPT, score=1.0) if lent else self.attempt(item, params)


class Chatty(Sound):
    info = info("chatty")
    breaks = "no_output"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        sys.stdout.write("judging\n")
        return super().verify(item, params)


class ChattyWarm(Sound):
    info = info("chatty_warm")
    breaks = "no_output"

    def warm(self) -> None:
        os.write(1, b"loading\n")


class Leaky(Sound):
    info = info("leaky")
    breaks = "no_leak"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        found = super().verify(item, params)
        if found.verdict is Verdict.REJECT:
            hint = Hint(kind="wrong_value", text=f"it should have been {item.reference['value']}")
            return found.model_copy(update={"hints": (hint,)})
        return found


class LeakyFailure(Sound):
    """Quotes the reference that it cannot read."""

    info = info("leaky_failure")
    breaks = "no_leak"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        if not isinstance(item.reference.get("value"), str):
            raise TaskError("bad_reference", f"cannot read {str(item.reference)[:1_000]}")
        return super().verify(item, params)


class KeepsDescriptors(Sound):
    info = info("keeps_descriptors")
    breaks = "no_leftovers"
    _kept: list[int] = []

    def verify(self, item: CheckInput, params: Params) -> Finding:
        if len(self._kept) < 40:
            self._kept.append(os.open("/dev/null", os.O_RDONLY))
        return super().verify(item, params)


class KeepsFiles(Sound):
    info = info("keeps_files")
    breaks = "no_leftovers"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        handle, _ = tempfile.mkstemp()
        os.close(handle)
        return super().verify(item, params)


class KeepsProcesses(Sound):
    """A helper that nobody ends."""

    info = info("keeps_processes")
    breaks = "no_leftovers"
    _helpers: list[subprocess.Popen[bytes]] = []

    def verify(self, item: CheckInput, params: Params) -> Finding:
        if not self._helpers:
            self._helpers.append(subprocess.Popen(["sleep", "60"], start_new_session=True))
        return super().verify(item, params)


class PartialCredit(Sound):
    """Some credit for trying."""

    info = info("partial_credit")
    breaks = "garbage_scores_nothing"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        found = super().verify(item, params)
        tried = isinstance(item.candidate, str) and item.candidate != "tomato"
        if tried and len(item.candidate) > 2 and found.verdict is Verdict.REJECT:
            return found.model_copy(update={"score": 0.1})
        return found


class WavesThrough(Sound):
    """A gate that lets through what it does not understand."""

    info = info("waves_through")
    breaks = "garbage_scores_nothing"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        found = super().verify(item, params)
        return Finding(verdict=Verdict.ACCEPT) if isinstance(item.candidate, list) else found


class Crashes(Sound):
    info = info("crashes")
    breaks = "hostile_input"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        if isinstance(item.candidate, str) and "\x00" in item.candidate:
            os._exit(3)
        return super().verify(item, params)


class Raises(Sound):
    """An answer can make its own reward null."""

    info = info("raises")
    breaks = "hostile_input"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        if isinstance(item.candidate, dict) and item.candidate:
            return rejected(item.candidate["answer"])
        return super().verify(item, params)


class NotFinite(Sound):
    info = info("not_finite")
    breaks = "hostile_input"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        if isinstance(item.candidate, str) and len(item.candidate) > LONG:
            return Finding.model_construct(verdict=Verdict.INCONCLUSIVE, score=float("nan"))
        return super().verify(item, params)


class ShortTurns(Sound):
    info = info("short_turns")
    breaks = "findings"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        found = super().verify(item, params)
        return found.model_copy(update={"per_turn": (1.0,)}) if item.turns else found


class HintsToNowhere(Sound):
    info = info("hints_to_nowhere")
    breaks = "findings"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        found = super().verify(item, params)
        return found.model_copy(update={"hints": (Hint(turn=7, kind="x", text="look there"),)})


class CodesForPeople(Sound):
    info = info("codes_for_people")
    breaks = "findings"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        found = super().verify(item, params)
        reason = Reason(code="Wrong Value!", message="no") if found.verdict is Verdict.REJECT else None
        return found.model_copy(update={"reason": reason})


class BlamesTheAnswer(Sound):
    """No reference: the answer must be wrong."""

    info = info("blames_the_answer")
    breaks = "broken_task"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        wanted = item.reference.get("value")
        return (
            Finding(verdict=Verdict.ACCEPT, score=1.0)
            if item.candidate == wanted and wanted
            else rejected()
        )


class BlamesSome(Sound):
    """Looks at the answer before it looks at the task."""

    info = info("blames_some")
    breaks = "broken_task"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        return super().verify(item, params) if item.candidate else rejected()


class Wrong(Sound):
    info = info("wrong")
    breaks = "samples"

    def verify(self, item: CheckInput, params: Params) -> Finding:
        found = super().verify(item, params)
        return Finding(verdict=Verdict.ACCEPT, score=1.0) if item.candidate == "tomato" else found


CLASSES = tuple(
    each for each in list(globals().values()) if isinstance(each, type) and issubclass(each, Sound)
)
BROKEN = tuple(each for each in CLASSES if each.breaks is not None)
SOUND = tuple(each for each in CLASSES if each.breaks is None)
