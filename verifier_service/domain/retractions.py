"""Evidence that is taken back because its verifier was found to be wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, NamedTuple, Self

from pydantic import AwareDatetime, Field, model_validator

from verifier_service.domain.digests import canonical_json, digest
from verifier_service.domain.records import JsonObject, OpenEnum, Record, Request
from verifier_service.domain.trajectories import Identifier

MAX_REASON = 500
MAX_KEYS = 1_000
CONTENT_ID_PREFIX = "c-"

# Why a demand was withdrawn whose evidence was there, by mode.
RETRACTED = "retracted"
REVERIFIED = "reverified"
KEPT = "reverified_kept"
# Why one was withdrawn whose check had failed, or was cancelled by an operator: it is asked again.
RETRIED = "retried"

VerifierName = Annotated[str, Field(min_length=1, max_length=200)]
CheckKey = Annotated[str, Field(pattern=r"^[0-9a-f]{1,64}$")]
CheckKeys = Annotated[tuple[CheckKey, ...], Field(strict=False, min_length=1, max_length=MAX_KEYS)]
When = Annotated[AwareDatetime, Field(strict=False)]


class Mode(StrEnum):
    """What becomes of what rested on the evidence."""

    RETRACT = "retract"  # it counts no more; the policy may decide to buy other evidence
    REVERIFY = "reverify"  # it counts no more, and in open runs its rung is asked again
    REPLACE = "replace"  # in open runs its rung is asked again, and it counts until the answer is there


class RetractionState(OpenEnum):
    """How far a retraction has come."""

    MARKING = "marking"  # the evidence is found and marked: nobody is given it any more
    SUPERSEDING = "superseding"  # trajectories that rested on it get new records
    DONE = "done"
    OTHER = "other"


class Selection(Record):
    """Which evidence: that of the named checks, or that of a verifier.

    ``version`` is the verifier's, or a whole build (``2+5a0c41de``: version and libraries, as a case shows
    it). ``params``: those named must be equal. ``since`` and ``until`` bound when the attempt ran: it was
    under way at some time between them; of what people decided, when they did.
    """

    checks: tuple[str, ...] | None = None
    verifier: str | None = None
    version: str | None = None
    params: JsonObject | None = None
    since: datetime | None = None
    until: datetime | None = None


class NewRetraction(Request):
    """Take evidence back. Without ``id`` it is named by its content: asking again does nothing more.

    ``checks`` are keys as a case shows them; else ``verifier`` with what narrows it. ``reason`` is shown
    wherever the evidence is. ``reverify``: in open runs the rungs are asked again. ``keep``: until then the
    evidence counts, and closed runs stay as they are. ``dry_run``: only say how much it would concern.
    """

    id: Identifier | None = None
    checks: CheckKeys | None = None
    verifier: VerifierName | None = None
    version: VerifierName | None = None
    params: JsonObject | None = None
    since: When | None = None
    until: When | None = None
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON)]
    reverify: bool = False
    keep: bool = False
    dry_run: bool = False

    @model_validator(mode="after")
    def _selects_in_one_way(self) -> Self:
        if (self.checks is None) == (self.verifier is None):
            raise ValueError("name either checks or a verifier")
        narrowing = (self.version, self.params, self.since, self.until)
        if self.checks is not None and any(one is not None for one in narrowing):
            raise ValueError("version, params, since and until narrow a verifier, not checks")
        if self.since is not None and self.until is not None and self.since > self.until:
            raise ValueError("since is after until")
        if self.keep and not self.reverify:
            raise ValueError("keep needs reverify: the evidence counts until the new one is there")
        if not self.reason.strip():
            raise ValueError("a reason is needed")
        return self

    @property
    def mode(self) -> Mode:
        """What becomes of what rested on the evidence."""
        if self.keep:
            return Mode.REPLACE
        return Mode.REVERIFY if self.reverify else Mode.RETRACT

    @property
    def selection(self) -> Selection:
        """Which evidence."""
        return Selection(
            checks=self.checks,
            verifier=self.verifier,
            version=self.version,
            params=self.params,
            since=self.since,
            until=self.until,
        )

    @property
    def content(self) -> str:
        """Digest of what is asked for, whatever it is called."""
        plain = self.model_dump(mode="json", exclude={"id", "dry_run"}, exclude_none=True)
        return digest("retraction", canonical_json(plain))


class RetractedBy(Record):
    """The key that took evidence back."""

    key: str
    name: str


class Retracted(Record):
    """What a case shows of evidence that was taken back: by which retraction, why, by whom and when."""

    id: str
    reason: str
    by: RetractedBy
    at: datetime


class Extent(Record):
    """How much a retraction would concern: checks with such evidence, trajectories that rest on it, and
    their runs. ``stopped``: checks that are queued or running, which would be asked for anew."""

    checks: int
    trajectories: int
    runs: int
    stopped: int = 0


class Retraction(Record):
    """A retraction and how far it has come.

    ``checks``: marked so far; ``stopped``: were queued or running, and were asked for anew. Trajectories
    that rest on the evidence, and their runs, are counted when all is marked; ``done`` of them are dealt
    with, with ``records`` new records.
    """

    id: str
    selection: Selection
    reason: str
    reverify: bool
    keep: bool = False
    by: RetractedBy
    state: RetractionState
    checks: int = 0
    stopped: int = 0
    trajectories: int = 0
    runs: int = 0
    done: int = 0
    records: int = 0
    created_at: datetime
    finished_at: datetime | None = None


class RetractionList(Record):
    """The project's latest retractions, newest first."""

    retractions: tuple[Retraction, ...]


class RetractionAnswer(Record):
    """What became of a request: ``extent`` of a dry run, else the retraction; ``created`` is false when
    the same was asked for before."""

    retraction: Retraction | None = None
    extent: Extent | None = None
    created: bool = False


class Sought(NamedTuple):
    """A selection as it is looked up: names resolved, times in database seconds.

    ``builds`` and ``params`` (canonical JSON) are lists of what is meant, ``None`` where all are.
    """

    project: str
    keys: tuple[str, ...] | None
    verifier: str | None
    builds: tuple[str, ...] | None
    params: tuple[str, ...] | None
    since: float | None
    until: float


class Task(NamedTuple):
    """A retraction that is worked off: its row, ``place`` is how far its state has come."""

    pk: int
    id: str
    sought: Sought
    reason: str
    mode: Mode
    state: RetractionState
    place: int
    created_at: float


def moment_of(seconds: float) -> datetime:
    """Database time as a date."""
    return datetime.fromtimestamp(seconds, tz=UTC)
