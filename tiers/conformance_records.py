"""Records of the conformance suite: what an author declares about a sample, and what was found."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from verifier_service.domain.evidence import Failure, Finding, Outcome, UnitInterval, Verdict
from verifier_service.domain.records import JsonObject, JsonValue, Record, Request
from verifier_service.domain.trajectories import Turn
from verifier_service.domain.verifiers import CheckInput

Ending = Literal[
    "accept", "reject", "inconclusive", "transient", "resource", "permanent", "timed_out", "task_error"
]
CheckVerdict = Literal["passed", "failed", "skipped"]


class Sample(Request):
    """One item with the ending its author expects: a verdict, or the kind of a failure.

    ``score`` and ``code`` (of the reason or the failure) are compared where they are given.
    """

    candidate: JsonValue = None
    inputs: JsonObject = {}
    reference: JsonObject = {}
    prompt: str | list[JsonObject] = ""
    turns: tuple[Turn, ...] = Field(default=(), strict=False)
    expected: Ending
    score: UnitInterval | None = None
    code: str | None = None

    def item(self) -> CheckInput:
        """What the verifier is given."""
        return CheckInput(
            candidate=self.candidate,
            inputs=self.inputs,
            reference=self.reference,
            prompt=self.prompt,
            turns=self.turns,
        )


class CheckRecord(Record):
    """What one check of the suite came to; ``examples`` are at most a few cases that broke it."""

    name: str
    verdict: CheckVerdict
    message: str
    examples: tuple[str, ...] = ()


class Conformance(Record):
    """The whole report on one verifier. ``conforms`` is true when nothing failed."""

    verifier: str
    version: str
    path: str
    samples: int
    items: int
    seconds: float
    checks: tuple[CheckRecord, ...]

    @property
    def conforms(self) -> bool:
        """Whether no check failed."""
        return all(check.verdict != "failed" for check in self.checks)


def ending_of(outcome: Outcome) -> str:
    """The verdict of a finding, the kind of a failure."""
    return outcome.verdict.value if isinstance(outcome, Finding) else outcome.kind


def code_of(outcome: Outcome) -> str | None:
    """The code of the reason or of the failure."""
    if isinstance(outcome, Failure):
        return outcome.code
    return outcome.reason.code if outcome.reason is not None else None


def scores(outcome: Outcome) -> bool:
    """Whether somebody would be rewarded for it: a positive score, or an accepting verdict."""
    if isinstance(outcome, Failure):
        return False
    return (outcome.score or 0.0) > 0 or outcome.verdict is Verdict.ACCEPT
