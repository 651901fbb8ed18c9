"""What a verifier is: one class in one file, declared, versioned, run in a killable child.

A verifier receives one ``CheckInput`` and returns a ``Finding``, or raises a ``VerifierFailure``.
It never returns a score for something it could not judge.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from verifier_service.domain.errors import Permanent, VerifierFailure
from verifier_service.domain.evidence import Cost, Failure, Finding, Outcome, Reason, Tier
from verifier_service.domain.records import JsonObject, JsonValue, Record
from verifier_service.domain.resources import Needs
from verifier_service.domain.trajectories import Turn

Readable = Literal["candidate", "inputs", "reference", "turns", "prompt"]


class Params(BaseModel):
    """Base of a verifier's parameters: enums, numbers and names only, never paths or URLs."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Limits(Record):
    """Bounds of one attempt on one item, enforced from outside the process that runs it."""

    time_s: float = Field(gt=0)
    memory_mb: int = Field(gt=0)
    max_batch: int = Field(default=1, ge=1)
    max_attempts: int = Field(default=3, ge=1)


class CheckInput(Record):
    """The part of a case that a verifier declared it reads; everything else is empty.

    ``candidate`` is the canonical form where ``identify`` made one, else the raw answer.
    """

    candidate: JsonValue = None
    inputs: JsonObject = {}
    reference: JsonObject = {}
    prompt: str | list[JsonObject] = ""
    turns: tuple[Turn, ...] = ()


class VerifierInfo(Record):
    """The declaration a ladder author, an operator and the scheduler read.

    ``on_limit``: ``reject`` when hitting a limit is the candidate's own doing (score 0 with the
    limit named), ``unscored`` otherwise. ``typical_cpu_s`` is the prior of the cost model: what an item of
    ``typical_size`` takes (see ``Verifier.size``), growing with the power ``cost_exponent`` of the size.
    ``parallel`` declares a fast verifier that mostly waits for processes of its own: several of its items
    then run beside each other, and the other fast verifiers do not wait for it.
    ``quantities`` lists what it measures, ``libraries`` the distributions whose versions key a check.
    ``needs`` names what a worker must have besides the memory of the limits.
    ``external`` ones are not executed: they await people, or with ``settlement`` what becomes of the event
    in ``inputs.event``.
    """

    name: str
    version: str
    tier: Tier
    summary: str
    reads: frozenset[Readable] = frozenset({"candidate"})
    on_limit: Literal["reject", "unscored"] = "unscored"
    deterministic: bool = True
    libraries: tuple[str, ...] = ()
    quantities: tuple[str, ...] = ()
    limits: Limits
    needs: Needs = Needs()
    typical_cpu_s: float = 0.001
    typical_size: float = Field(default=1.0, gt=0)
    cost_exponent: float = Field(default=0.0, ge=0, le=6)
    typical_human_s: float = 0.0
    external: bool = False
    awaits: Literal["people", "settlement"] = "people"
    parallel: bool = False


class Verifier(ABC):
    """Base of every verifier. Heavy imports belong inside ``verify``."""

    info: ClassVar[VerifierInfo]
    params_model: ClassVar[type[Params]] = Params

    def unavailable(self) -> str | None:
        """Return why this verifier cannot run here (a missing extra, say), or ``None``."""
        return None

    def precheck(self, item: CheckInput, params: Params) -> Reason | None:  # noqa: ARG002 - a hook
        """Return why a submission can never be verified, or ``None``.

        Called at the door for every submission, in the server's own process: standard library only,
        linear in the size of the item, and never longer than its first few thousand characters need.
        """
        return None

    def size(self, item: CheckInput, params: Params) -> float:  # noqa: ARG002 - a hook
        """Return how large an item is, in units of your choice: its cost is learned as a power of that.

        Asked where ``precheck`` is, and under the same bounds: of the items of verifiers that are worth
        pricing. Any text may come; what it is worth is not the question here. By default the number of
        characters of the candidate.
        """
        candidate = item.candidate
        return max(1.0, float(len(candidate if isinstance(candidate, str) else json.dumps(candidate))))

    def warm(self) -> None:
        """Import and prepare once per child process, before the first deadline runs."""
        return None

    @abstractmethod
    def verify(self, item: CheckInput, params: Params) -> Finding:
        """Judge one item. Raises ``VerifierFailure`` when no judgement was possible."""

    def verify_batch(self, items: Sequence[CheckInput], params: Params) -> Iterator[Outcome]:
        """Yield one outcome per item, in order and lazily: the item not yet yielded is the one
        executing, and takes the blame if the process dies."""
        for item in items:
            yield self.attempt(item, params)

    def attempt(self, item: CheckInput, params: Params) -> Outcome:
        """``verify`` as a value: the one place where a raised failure becomes a record."""
        try:
            return self.verify(item, params)
        except VerifierFailure as failure:
            return as_failure(failure)
        except MemoryError:
            return Failure(kind="resource", code="memory_limit", message="out of memory")
        except Exception as error:  # noqa: BLE001 - the boundary where foreign errors become failures
            return as_failure(Permanent("verifier_error", unexpected(error, self.info)))


def unexpected(error: BaseException, info: VerifierInfo) -> str:
    """How an unexpected error is told: its text may quote what was read, and so a reference."""
    name = type(error).__name__
    return f"unexpected {name}" if "reference" in info.reads else f"unexpected {name}: {error}"[:500]


def expected_cost(info: VerifierInfo, params: Mapping[str, JsonValue], approvals: int = 1) -> Cost:
    """What one check is expected to consume; a person's time once per required approval: as many as
    ``params`` say, else ``approvals``."""
    said = params.get("approvals")
    people = (said if isinstance(said, int) else approvals) if info.external else 1
    return Cost(cpu_s=info.typical_cpu_s, human_s=info.typical_human_s * people)


def as_failure(failure: VerifierFailure) -> Failure:
    """Turn a raised failure into the record that is stored."""
    return Failure.model_validate(
        {
            "kind": failure.kind,
            "code": failure.code,
            "message": failure.message,
            "retryable": failure.retryable,
        }
    )
