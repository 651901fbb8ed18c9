"""A ladder: named, versioned, immutable. Which verifiers on which tier, and how it becomes a reward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, model_validator

from verifier_service.domain.evidence import TIERS, Tier
from verifier_service.domain.records import JsonObject, Record, Request
from verifier_service.domain.trajectories import Identifier

VerifierName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$", max_length=100)]
MAX_USES_PER_TIER = 16

Role = Literal["identify", "process", "hard_gate", "soft_gate", "measure", "outcome", "review", "note"]


class TagExtract(Request):
    """The contents of the last ``<tag>...</tag>``."""

    tag: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_\-]*$", max_length=64)]


Extract = Literal["boxed", "code_block"] | TagExtract


def _is_none(value: object) -> bool:
    return value is None


class CandidateSpec(Request):
    """Where the thing to verify comes from and what it is; see ``domain/extraction.py``.

    ``from`` is the answer, or the message of the last turn. ``extract`` takes a part of that text: the
    last ``\\boxed{}``, the last fenced block of code (else all), or a tag's contents. It is left out of
    the document when it is null, so that ladders from before it existed keep their digests.
    """

    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    format: str = "json"
    from_: Annotated[Literal["answer", "last_turn"], Field(alias="from")] = "answer"
    extract: Annotated[Extract | None, Field(exclude_if=_is_none)] = None


class QuantitySpec(Request):
    """The quantity the reward estimates."""

    name: str
    unit: str


MIN_WIDTH = 1e-9
Level = Annotated[float, Field(ge=-1e12, le=1e12)]
Width = Annotated[float, Field(ge=MIN_WIDTH, le=1e12)]


class WindowUtility(Request):
    """1 inside [low, high]; outside, max(0, 1 - d/softness) with d the distance to the nearer bound."""

    kind: Literal["window"]
    low: Level
    high: Level
    softness: Width

    @model_validator(mode="after")
    def _ordered(self) -> WindowUtility:
        if self.low > self.high:
            raise ValueError("low must not exceed high")
        return self


class ThresholdUtility(Request):
    """1 at or beyond ``at`` in the wanted direction, else 0."""

    kind: Literal["threshold"]
    at: Level
    direction: Literal["above", "below"] = "above"


class SigmoidUtility(Request):
    """1 / (1 + exp(-(y - midpoint)/scale)); a negative scale prefers small values."""

    kind: Literal["sigmoid"]
    midpoint: Level
    scale: Level

    @model_validator(mode="after")
    def _has_a_slope(self) -> SigmoidUtility:
        if abs(self.scale) < MIN_WIDTH:
            raise ValueError(f"scale must be at least {MIN_WIDTH:g} in size")
        return self


class LinearUtility(Request):
    """0 at ``zero``, 1 at ``one``, clipped outside; ``zero`` may exceed ``one``."""

    kind: Literal["linear"]
    zero: Level
    one: Level

    @model_validator(mode="after")
    def _has_a_slope(self) -> LinearUtility:
        if abs(self.one - self.zero) < MIN_WIDTH:
            raise ValueError(f"zero and one must lie at least {MIN_WIDTH:g} apart")
        return self


Utility = Annotated[
    WindowUtility | ThresholdUtility | SigmoidUtility | LinearUtility, Field(discriminator="kind")
]


class OutcomeUse(Request):
    """The verifier whose score is the outcome of a judging ladder."""

    use: VerifierName


class VerifierUse(Request):
    """One rung: a verifier with its parameters, as a gate, a measurement or a judge."""

    use: VerifierName
    gate: Literal["hard", "soft"] | None = None
    map: str | None = None
    params: JsonObject = {}


class ProcessSpec(Request):
    """Checks on turns and their weight w (lambda in the literature)."""

    weight: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    checks: Annotated[tuple[VerifierUse, ...], Field(strict=False, max_length=MAX_USES_PER_TIER)] = ()


class LadderSpec(Request):
    """What an operator writes. Either measures (quantity + utility) or judges (outcome)."""

    name: Identifier
    candidate: CandidateSpec
    quantity: QuantitySpec | None = None
    utility: Utility | None = None
    outcome: OutcomeUse | None = None
    truth: Annotated[Tier, Field(strict=False)]
    process: ProcessSpec = ProcessSpec()
    tiers: Annotated[
        dict[Annotated[Tier, Field(strict=False)], Annotated[tuple[VerifierUse, ...], Field(strict=False)]],
        Field(min_length=1),
    ]
    deadline_s: Annotated[float, Field(gt=0, le=31_536_000)] = 86_400.0
    assumptions: Annotated[tuple[str, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _measures_or_judges(self) -> LadderSpec:
        measures = self.quantity is not None and self.utility is not None
        if measures == (self.outcome is not None):
            raise ValueError("a ladder has either quantity and utility, or outcome")
        if self.truth not in self.tiers:
            raise ValueError("truth names a tier that the ladder does not have")
        for tier, uses in self.tiers.items():
            if not 1 <= len(uses) <= MAX_USES_PER_TIER:
                raise ValueError(f"tiers.{tier} needs 1 to {MAX_USES_PER_TIER} verifiers")
        if self.outcome is not None and not any(
            use.use == self.outcome.use for uses in self.tiers.values() for use in uses
        ):
            raise ValueError("outcome names a verifier that no tier uses")
        return self


class Rung(Record):
    """One use of a verifier in a ladder, with the place and the role that follow from it."""

    path: str
    tier: Tier
    role: Role
    use: VerifierUse


class Ladder(Record):
    """A stored version of a ladder; same content, same version."""

    name: str
    version: int
    digest: str
    spec: LadderSpec

    @cached_property
    def rungs(self) -> tuple[Rung, ...]:
        """Every use of the ladder in climbing order: process checks, then the tiers."""
        return tuple(self._walk())

    @cached_property
    def rung_at(self) -> Mapping[str, Rung]:
        """Rungs by path (``process/0``, ``fast/1``...)."""
        return {rung.path: rung for rung in self.rungs}

    def rungs_of(self, tier: Tier) -> tuple[Rung, ...]:
        """The rungs of one tier, process checks apart."""
        return tuple(rung for rung in self.rungs if rung.tier is tier and rung.role != "process")

    def _walk(self) -> Iterator[Rung]:
        for index, use in enumerate(self.spec.process.checks):
            yield Rung(path=f"process/{index}", tier=Tier.FAST, role="process", use=use)
        for tier in TIERS:
            for index, use in enumerate(self.spec.tiers.get(tier, ())):
                yield Rung(path=f"{tier}/{index}", tier=tier, role=self._role(tier, use), use=use)

    def _role(self, tier: Tier, use: VerifierUse) -> Role:
        if use.gate is not None:
            return "hard_gate" if use.gate == "hard" else "soft_gate"
        if tier is Tier.LAB:
            return "review"
        if self.spec.outcome is not None:
            return "outcome" if use.use == self.spec.outcome.use else "note"
        return "measure"
