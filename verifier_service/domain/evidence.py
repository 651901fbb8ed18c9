"""What a check found. Evidence is never an error: failures are ``Failure`` records."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from verifier_service.domain.records import JsonObject, OpenEnum, Record

UnitInterval = Annotated[float, Field(ge=0.0, le=1.0)]
FeatureName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
MAX_FEATURES = 64


class Tier(StrEnum):
    """The four tiers, cheapest first."""

    FAST = "fast"
    SIMULATION = "simulation"
    HIGH_FIDELITY = "high_fidelity"
    LAB = "lab"

    @property
    def rank(self) -> int:
        """Position from 0 (``fast``) to 3 (``lab``)."""
        return _RANKS[self]


TIERS: tuple[Tier, ...] = tuple(Tier)
WORKED_TIERS: tuple[Tier, ...] = TIERS[:-1]  # on the last one people work, not workers
_RANKS = {tier: rank for rank, tier in enumerate(TIERS)}


class Verdict(OpenEnum):
    """What a verifier concluded about the candidate."""

    ACCEPT = "accept"
    REJECT = "reject"
    INCONCLUSIVE = "inconclusive"
    OTHER = "other"


class Reason(Record):
    """Why: a stable snake_case ``code`` and a sentence for people."""

    code: str
    message: str


class Measurement(Record):
    """A number with its unit and one standard deviation (``None`` = not known)."""

    quantity: str
    value: float
    unit: str
    sigma: Annotated[float, Field(ge=0.0)] | None = None


class Hint(Record):
    """Directive signal for hindsight training. Never contains the reference."""

    turn: int | None = None
    kind: str
    text: str


class Cost(Record):
    """Measured consumption: CPU and GPU seconds, human seconds, external charges in credits."""

    cpu_s: float = 0.0
    gpu_s: float = 0.0
    human_s: float = 0.0
    external: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            cpu_s=self.cpu_s + other.cpu_s,
            gpu_s=self.gpu_s + other.gpu_s,
            human_s=self.human_s + other.human_s,
            external=self.external + other.external,
        )


class Identity(Record):
    """Canonical form of a candidate as made by ``toolkit`` (name and version)."""

    kind: str
    canonical: str
    toolkit: str


class Finding(Record):
    """What verifier code returns for one item; the harness makes ``Evidence`` of it.

    ``per_turn`` has one entry per turn of the judged prefix, ``None`` where the check has no opinion.
    ``labels`` are categorical facts about the candidate (a chemistry class) that maps may depend on.
    ``features`` are numbers about the candidate for models to learn from, by name: cheap, the same whenever
    the same candidate is judged, and never taken from the reference.
    ``assumptions`` state what was taken as given (protonation, spin, conformer policy).
    """

    verdict: Verdict
    reason: Reason | None = None
    score: UnitInterval | None = None
    measurements: tuple[Measurement, ...] = ()
    per_turn: tuple[UnitInterval | None, ...] | None = None
    hints: tuple[Hint, ...] = ()
    artifacts: tuple[JsonObject, ...] = ()
    labels: dict[str, str] = {}
    features: Annotated[dict[FeatureName, float], Field(max_length=MAX_FEATURES)] = {}
    assumptions: tuple[str, ...] = ()
    identity: Identity | None = None

    @model_validator(mode="after")
    def _rejections_have_a_reason(self) -> Finding:
        if self.verdict is Verdict.REJECT and self.reason is None:
            raise ValueError("a rejection needs a reason")
        return self


class Provenance(Record):
    """Who measured, with what: enough to repeat the check."""

    verifier: str
    version: str
    libraries: dict[str, str] = {}
    params: JsonObject = {}
    replicate: int = 0
    worker: str | None = None


class Evidence(Finding):
    """A finding bound to its check, with provenance and measured cost.

    ``mistaken``: of a verdict of people, the probability that it is wrong, as it was known of them when it
    took effect.
    """

    check: str
    tier: Tier
    provenance: Provenance
    cost: Cost = Cost()
    mistaken: Annotated[float, Field(ge=0.0, le=0.5)] | None = Field(
        default=None, exclude_if=lambda value: value is None
    )


class Failure(Record):
    """A verification that did not happen, as a value: it can be stored, sent and shown."""

    kind: Literal["transient", "resource", "permanent", "timed_out", "task_error"]
    code: str
    message: str
    retryable: bool = False


Outcome = Finding | Failure
