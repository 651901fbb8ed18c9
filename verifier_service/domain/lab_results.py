"""Results of a laboratory: what is sent, what becomes of each row, and the versions that are kept."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from verifier_service.domain.digests import canonical_json, digest
from verifier_service.domain.evidence import Measurement
from verifier_service.domain.lab_sheets import MAX_ROWS
from verifier_service.domain.records import JsonObject, OpenEnum, Record, Request
from verifier_service.domain.settlements import SettlementState
from verifier_service.domain.trajectories import Identifier

CONTENT_ID_PREFIX = "c-"
WELLS = {96: (8, 12), 384: (16, 24)}
MAX_PLATES = 100

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Role(StrEnum):
    """What is in a well. Only samples answer checks; controls say how much the assay scatters, and blanks
    are kept out of both."""

    SAMPLE = "sample"
    POSITIVE = "positive_control"
    NEGATIVE = "negative_control"
    BLANK = "blank"


class PlateWell(Request):
    """One well. A sample says whose it is: a review, a trajectory of a run, or a candidate."""

    well: Annotated[str, Field(min_length=2, max_length=4)]
    role: Annotated[Role, Field(strict=False)] = Role.SAMPLE
    review: Identifier | None = None
    run: Identifier | None = None
    trajectory: Identifier | None = None
    candidate: Annotated[str, Field(min_length=1, max_length=4_000)] | None = None

    @model_validator(mode="after")
    def _samples_are_somebodys(self) -> Self:
        named = any(one is not None for one in (self.review, self.trajectory, self.candidate))
        if (self.role is Role.SAMPLE) != named:
            raise ValueError("a sample names a review, a trajectory or a candidate, and only a sample does")
        if (self.run is None) != (self.trajectory is None):
            raise ValueError("run and trajectory go together")
        return self


class PlateMap(Request):
    """What is where on a plate. Sent again under its name, it replaces the map for later imports."""

    name: Name
    size: Literal[96, 384] = 96
    wells: Annotated[tuple[PlateWell, ...], Field(strict=False, min_length=1, max_length=384)]

    @model_validator(mode="after")
    def _wells_are_on_the_plate_once(self) -> Self:
        found = [position(one.well, self.size) for one in self.wells]
        if len(set(found)) < len(found):
            raise ValueError("a well is there twice")
        return self

    def at(self, well: str) -> PlateWell | None:
        """What is at a position, however it is spelt; ``None`` where nothing is. Raises ``ValueError`` for
        what is no position of the plate."""
        wanted = position(well, self.size)
        return next((one for one in self.wells if position(one.well, self.size) == wanted), None)


def position(well: str, size: int) -> tuple[int, int]:
    """Row and column, from 1, of ``A1``, ``a1`` or ``A01``. Raises ``ValueError``."""
    text = well.strip()
    letter, digits = text[:1].upper(), text[1:]
    rows, columns = WELLS[size]
    row = ord(letter) - ord("A") + 1 if len(letter) == 1 and "A" <= letter <= "Z" else 0
    column = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 2 else 0
    if not (1 <= row <= rows and 1 <= column <= columns):
        raise ValueError(f"{well!r} is no well of a plate of {size}")
    return row, column


class LabFile(Request):
    """A file as it is; ``content`` is base64. The format is that of its name where it is not given."""

    name: Name
    format: Literal["csv", "json", "xlsx"] | None = None
    content: str

    @model_validator(mode="after")
    def _has_a_format(self) -> Self:
        if self.format is None and self._suffix() is None:
            raise ValueError("say the format: csv, json or xlsx")
        return self

    @property
    def kind(self) -> Literal["csv", "json", "xlsx"]:
        """Its format."""
        return self.format or self._suffix() or "csv"

    def _suffix(self) -> Literal["csv", "json", "xlsx"] | None:
        end = self.name.rpartition(".")[2].casefold()
        if end in ("csv", "tsv", "txt"):
            return "csv"
        return "json" if end == "json" else "xlsx" if end == "xlsx" else None


class Range(Request):
    """Which values of a quantity are plausible, in the unit that they are stored in; both ends belong."""

    low: Annotated[float, Field(ge=-1e12, le=1e12)] | None = None
    high: Annotated[float, Field(ge=-1e12, le=1e12)] | None = None


class NewLabResults(Request):
    """Results to import: a ``file``, or ``rows`` as objects, and ``plates`` that rows may refer to.

    Without ``id`` it is named by its content; the same again does nothing more. ``decimal`` declares the
    decimal mark, otherwise it is found out and what is ambiguous is refused. ``ranges`` are by quantity.
    ``by`` is who measured. With ``dry_run`` nothing is stored; with ``all_or_nothing`` one wrong row keeps
    the others from being stored.
    """

    id: Identifier | None = None
    file: LabFile | None = None
    rows: Annotated[tuple[JsonObject, ...], Field(strict=False, max_length=MAX_ROWS)] | None = None
    plates: Annotated[tuple[PlateMap, ...], Field(strict=False, max_length=MAX_PLATES)] = ()
    decimal: Literal["point", "comma"] | None = None
    ranges: Annotated[dict[str, Range], Field(max_length=100)] = {}
    by: Name | None = None
    dry_run: bool = False
    all_or_nothing: bool = True

    @model_validator(mode="after")
    def _holds_something_once(self) -> Self:
        if self.file is not None and self.rows is not None:
            raise ValueError("send either a file or rows")
        if self.file is None and self.rows is None and not self.plates:
            raise ValueError("send a file, rows or plates")
        if len({plate.name for plate in self.plates}) < len(self.plates):
            raise ValueError("a plate is there twice")
        return self

    @property
    def content_digest(self) -> str:
        """Digest of what is asked for, whatever it is called."""
        plain = self.model_dump(mode="json", exclude={"id", "dry_run"}, exclude_none=True)
        return digest("lab results", canonical_json(plain))

    @property
    def file_name(self) -> str | None:
        """What the file is called, if it is one."""
        return None if self.file is None else self.file.name


class RowError(Record):
    """What is wrong with a row: a stable ``code``, the column, and the limit that was exceeded."""

    code: str
    message: str
    column: str | None = None
    limit: float | None = None


class RowStatus(OpenEnum):
    """What became of a row."""

    ACCEPTED = "accepted"  # it answers a check that waited
    AMENDED = "amended"  # it replaces what a file had said of the check
    UNCHANGED = "unchanged"  # a file has said the same of the check
    CONTROL = "control"  # a control or a blank
    EMPTY = "empty"  # nothing was filled in
    REFUSED = "refused"
    OTHER = "other"


class RowOutcome(Record):
    """What became, or in a dry run would become, of one row; ``line`` is where it begins in the file."""

    line: int
    status: RowStatus
    review: str | None = None
    errors: tuple[RowError, ...] = ()


class LabValue(Record):
    """What one check was told: means of ``replicates`` readings with their standard errors."""

    review: str
    check: str
    version: int
    measurements: tuple[Measurement, ...] = ()
    replicates: tuple[int, ...] = ()
    verdict: Literal["accept", "reject"] | None = None
    reason: str = ""
    measured_at: datetime | None = None


class EventValue(Record):
    """What an import said of an event, and the version that this is; see ``domain/settlements.py``."""

    event: str
    version: int
    state: SettlementState
    actual: str | None = None
    number: float | None = None


class ImportState(OpenEnum):
    """Whether anything was stored."""

    IMPORTED = "imported"
    REFUSED = "refused"
    DRY_RUN = "dry_run"
    OTHER = "other"


class LabImport(Record):
    """An import and what became of it. ``created`` is false when the same was imported before;
    ``id`` is null where nothing was stored."""

    id: str | None = None
    digest: str
    state: ImportState
    created: bool = False
    file: str | None = None
    by: str | None = None
    key: str | None = None
    ignored_columns: tuple[str, ...] = ()
    rows: tuple[RowOutcome, ...] = ()
    values: tuple[LabValue, ...] = ()
    events: tuple[EventValue, ...] = ()
    counts: dict[str, int] = {}
    created_at: datetime | None = None


class ImportLine(NamedTuple):
    """An import in a list; ``by`` is who measured, ``key`` who sent it."""

    id: str
    file: str | None
    by: str | None
    key: str
    created_at: datetime


class LabVersion(Record):
    """One version of what a laboratory said of a check: by which import, of which file, by whom, when.

    ``by`` is who measured, as the import says; ``key`` the name of the key that sent it."""

    value: LabValue
    import_id: str
    file: str | None = None
    digest: str
    by: str | None = None
    key: str
    created_at: datetime


class LabVersionList(Record):
    """Versions, newest first."""

    versions: tuple[LabVersion, ...]


class Target(NamedTuple):
    """A check on the desk that a row may mean, for one of the trajectories that want it, or have it."""

    review: str
    queue: str
    check: int  # below 0 for a gold item, which has none
    key: str
    verifier: str
    state: str  # of the review
    claimed: bool
    expired: bool
    approvals: int
    run: str
    trajectory: str
    pk: int  # of the trajectory
    canonical: str | None
    ladder: str
    ladder_version: int
    deadline: float | None
    retracted: bool
    latest: LabValue | None  # what a file said of it last

    @property
    def gold(self) -> bool:
        """Whether it is a known item, which concerns no trajectory. Rows about it are answered like those
        about any other."""
        return self.check < 0
