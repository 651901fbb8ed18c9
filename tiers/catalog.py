"""The catalogue: every verifier, map and ladder of this installation, checked at start-up."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from tiers.catalog_sources import BrokenPlugin, Sources, keyed_version
from verifier_service.domain.digests import canonical_json
from verifier_service.domain.errors import InvalidInput, NotFound
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.ladders import LadderSpec, VerifierUse
from verifier_service.domain.maps import QuantityMap
from verifier_service.domain.ports.catalog import VerifierListing
from verifier_service.domain.records import JsonObject, JsonValue
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.domain.verifiers import CheckInput, Params, Readable, Verifier, VerifierInfo

log = logging.getLogger(__name__)

TIERS_FOLDER = Path(__file__).resolve().parent
IDENTIFIERS = {"molecule": "molecule.identify"}


class VerifierCatalog:
    """Implements the ``Catalog`` port over the declared sources and the shipped files.

    Everything is loaded at construction: raises ``BrokenPlugin``, naming the culprit, when a verifier, a
    map (``maps/NAME/map.json``) or a ladder (``ladders/NAME.json``) under ``folder`` is unusable.
    """

    def __init__(self, sources: Sources | None = None, *, folder: Path = TIERS_FOLDER) -> None:
        sources = sources or Sources()
        self._verifiers = {name: sources.load(name) for name in sources.names()}
        self._schemas = {name: _schema(name, verifier) for name, verifier in self._verifiers.items()}
        self._libraries = {
            name: {library: keyed_version(library) for library in verifier.info.libraries}
            for name, verifier in self._verifiers.items()
        }
        self._unavailable = {name: _unavailable(name, found) for name, found in self._verifiers.items()}
        self._maps = {found.name: found for found in _read_maps(folder / "maps")}
        self._ladders = tuple(_read_ladders(folder / "ladders"))
        self._known_params = lru_cache(maxsize=1_024)(self._read_params)
        self._doorkeepers = {
            name for name, found in self._verifiers.items() if type(found).precheck is not Verifier.precheck
        }

    def verifier(self, name: str) -> VerifierInfo:
        """Return the declaration. Raises ``NotFound``."""
        return self._find(name).info

    def params_schema(self, name: str) -> JsonObject:
        """Return the parameters as JSON Schema. Raises ``NotFound``."""
        self._find(name)
        return self._schemas[name]

    def validate_params(self, name: str, params: JsonObject) -> JsonObject:
        """Return the parameters with defaults. Raises ``NotFound`` or ``InvalidInput``."""
        normalised: JsonObject = self._params(name, params).model_dump(mode="json")
        return normalised

    def availability(self, name: str) -> str | None:
        """Return why the verifier cannot run here, or ``None``. Raises ``NotFound``."""
        self._find(name)
        return self._unavailable[name]

    def list(self) -> tuple[VerifierListing, ...]:
        """Return all verifiers by tier, then by name."""
        ordered = sorted(self._verifiers.values(), key=lambda each: (each.info.tier.rank, each.info.name))
        return tuple(
            VerifierListing(
                info=each.info,
                params_schema=self._schemas[each.info.name],
                libraries=self._libraries[each.info.name],
                unavailable=self._unavailable[each.info.name],
            )
            for each in ordered
        )

    def library_versions(self, name: str) -> dict[str, str]:
        """Return the versions that key the verifier's checks. Raises ``NotFound``."""
        self._find(name)
        return dict(self._libraries[name])

    def map(self, name: str) -> QuantityMap:
        """Return a shipped map. Raises ``NotFound``."""
        if name not in self._maps:
            raise NotFound("unknown_map", f"there is no map named {name}")
        return self._maps[name]

    def shipped_ladders(self) -> tuple[JsonObject, ...]:
        """Return the ladders every new project gets, by name."""
        return self._ladders

    def precheck(self, ladder: LadderSpec, submission: TrajectorySubmission) -> InvalidInput | None:
        """Return the first verifier's reason to refuse at the door, or ``None``. Raises ``NotFound``."""
        asked = [use for use in _uses(ladder) if self._find(use.use) and use.use in self._doorkeepers]
        if not asked:
            return None
        candidate = candidate_of(ladder.candidate, submission.answer, submission.turns)
        for use in asked:
            verifier = self._find(use.use)
            item = _item(submission, candidate, verifier.info.reads)
            reason = verifier.precheck(item, self._params(use.use, use.params))
            if reason is not None:
                return InvalidInput(reason.code, reason.message)
        return None

    def size(self, name: str, params: JsonObject, item: CheckInput) -> float:
        """Return how large an item is for a verifier; what it cannot say is of typical size.

        Raises ``NotFound`` or ``InvalidInput``.
        """
        verifier = self._find(name)
        try:
            found = float(verifier.size(item, self._known_params(name, canonical_json(params))))
        except Exception:  # a foreign hook, and a guess is all that depends on it
            log.exception("verifier %s cannot say how large an item is", name)
            return verifier.info.typical_size
        return found if 0.0 < found < math.inf else verifier.info.typical_size

    def identifier(self, kind: str) -> str | None:
        """Return the verifier that makes the canonical form of this kind of candidate, if any."""
        name = IDENTIFIERS.get(kind)
        return name if name in self._verifiers else None

    def _find(self, name: str) -> Verifier:
        verifier = self._verifiers.get(name)
        if verifier is None:
            raise NotFound("unknown_verifier", f"there is no verifier named {name}")
        return verifier

    def _params(self, name: str, params: JsonObject) -> Params:
        try:
            return self._read_params(name, json.dumps(params, allow_nan=False))
        except InvalidInput:
            raise
        except (ValueError, TypeError) as error:
            raise InvalidInput("invalid_params", f"{name}: params are not JSON", field="params") from error

    def _read_params(self, name: str, text: str) -> Params:
        model = self._find(name).params_model
        try:
            # Through JSON, because only there does strict mode read enums and tuples from their JSON form.
            return model.model_validate_json(text, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            field = ".".join(("params", *(str(part) for part in first["loc"])))
            raise InvalidInput("invalid_params", f"{name}: {field}: {first['msg']}", field=field) from error


def _uses(ladder: LadderSpec) -> Iterator[VerifierUse]:
    yield from ladder.process.checks
    for uses in ladder.tiers.values():
        yield from uses


def _item(submission: TrajectorySubmission, candidate: JsonValue, reads: frozenset[Readable]) -> CheckInput:
    problem = submission.problem
    return CheckInput(
        candidate=candidate if "candidate" in reads else None,
        inputs=problem.inputs if "inputs" in reads else {},
        reference=problem.reference if "reference" in reads else {},
        prompt=problem.prompt if "prompt" in reads else "",
        turns=submission.turns if "turns" in reads else (),
    )


def _schema(name: str, verifier: Verifier) -> JsonObject:
    try:
        return verifier.params_model.model_json_schema()
    except Exception as error:
        raise BrokenPlugin(f"verifier {name}: its parameters have no JSON Schema: {error}") from error


def _unavailable(name: str, verifier: Verifier) -> str | None:
    try:
        return verifier.unavailable()
    except Exception as error:
        raise BrokenPlugin(f"verifier {name}: its availability check raised: {error}") from error


def _read_maps(folder: Path) -> Iterator[QuantityMap]:
    for path in sorted(folder.glob("*/map.json")):
        try:
            found = QuantityMap.model_validate_json(path.read_bytes())
        except ValueError as error:
            raise BrokenPlugin(f"map {path.parent.name} is not a valid map: {error}") from error
        if found.name != path.parent.name:
            raise BrokenPlugin(f"map {path.parent.name} calls itself {found.name}")
        yield found


def _read_ladders(folder: Path) -> Iterator[JsonObject]:
    for path in sorted(folder.glob("*.json")):
        try:
            text = path.read_text("utf-8")
            spec = LadderSpec.model_validate_json(text)
            ladder: JsonObject = json.loads(text)
        except ValueError as error:
            raise BrokenPlugin(f"ladder {path.stem} is not a valid ladder: {error}") from error
        if spec.name != path.stem:
            raise BrokenPlugin(f"ladder {path.stem} calls itself {spec.name}")
        yield ladder
