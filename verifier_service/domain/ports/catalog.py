"""Port: which verifiers, maps and shipped ladders exist here."""

from __future__ import annotations

from typing import Protocol

from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.ladders import LadderSpec
from verifier_service.domain.maps import QuantityMap
from verifier_service.domain.records import JsonObject, Record
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.domain.verifiers import CheckInput, VerifierInfo


class VerifierListing(Record):
    """One line of the catalogue. ``unavailable`` says why it cannot run here, ``None`` when it can."""

    info: VerifierInfo
    params_schema: JsonObject
    libraries: dict[str, str]
    unavailable: str | None = None


class Catalog(Protocol):
    """What is installed. Read-only; answers do not change while the process lives."""

    def __hash__(self) -> int:
        """By identity: what was asked of one catalogue may be remembered."""

    def verifier(self, name: str) -> VerifierInfo:
        """Return the declaration. Raises ``NotFound``."""

    def params_schema(self, name: str) -> JsonObject:
        """Return the parameters as JSON Schema. Raises ``NotFound``."""

    def validate_params(self, name: str, params: JsonObject) -> JsonObject:
        """Return the parameters with every default filled in, so that equal ones compare equal.

        Raises ``NotFound``, or ``InvalidInput`` whose ``field`` is the path below ``params``.
        """

    def availability(self, name: str) -> str | None:
        """Return why the verifier cannot run here, or ``None``. Raises ``NotFound``."""

    def list(self) -> tuple[VerifierListing, ...]:
        """Return all verifiers by tier, then by name."""

    def library_versions(self, name: str) -> dict[str, str]:
        """Return the versions that key the verifier's checks: of a library that is not installed, the one
        that the release pins, else ``"missing"``."""

    def map(self, name: str) -> QuantityMap:
        """Return a shipped map. Raises ``NotFound``."""

    def shipped_ladders(self) -> tuple[JsonObject, ...]:
        """Return the ladders every new project gets, each a valid ``LadderSpec``, by name."""

    def precheck(self, ladder: LadderSpec, submission: TrajectorySubmission) -> InvalidInput | None:
        """Return the first reason for which no verifier of the ladder could ever judge this, or ``None``.

        Linear in the size of the submission. Raises ``NotFound`` when the ladder names an unknown
        verifier.
        """

    def size(self, name: str, params: JsonObject, item: CheckInput) -> float:
        """Return how large an item is for a verifier, above 0; what it cannot say is of typical size.

        Linear in the item. Raises ``NotFound``, or ``InvalidInput`` for wrong parameters.
        """

    def identifier(self, kind: str) -> str | None:
        """Return the verifier that makes the canonical form of this kind of candidate, if any."""
