"""The conformance suite: what every verifier promises, tried on one.

Nothing of the verifier runs in the caller's process but its import, its declaration and its parameters.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from tiers import conformance_checks as checks
from tiers.catalog_sources import installed_version, load_path
from tiers.conformance_inputs import Try, against_candidates, against_problems, with_canaries
from tiers.conformance_process import Act
from tiers.conformance_records import CheckRecord, Conformance, Sample
from tiers.conformance_runs import Played, in_harness, play
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.evidence import Outcome
from verifier_service.domain.ladders import VerifierName
from verifier_service.domain.ports.execution import Done
from verifier_service.domain.records import JsonObject, JsonValue
from verifier_service.domain.verifiers import CheckInput, Params, Verifier, VerifierInfo

ACTS: tuple[Act, ...] = ("forward", "again", "backward", "batch", "raise")
NO_ANSWERS: tuple[JsonValue, ...] = (None, "", "~", {})
_NAME: TypeAdapter[str] = TypeAdapter(VerifierName)

Progress = Callable[[str], None]
Group = Literal["garbage", "problems", "canaries", "emptied"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """Everything that was run: ordinary items in processes of their own, the others in the harness."""

    names: tuple[str, ...]
    items: tuple[CheckInput, ...]
    first: Played
    second: Played
    door: Played | None
    door_names: tuple[str, ...]
    tries: dict[Group, list[Try]]
    results: dict[str, Done]

    def of(self, *groups: Group) -> dict[str, Done]:
        """What became of the items of some groups, by their names."""
        return {
            each.name: self.results[each.name]
            for group in groups
            for each in self.tries[group]
            if each.name in self.results
        }

    def outcomes(self) -> list[tuple[str, CheckInput, Outcome]]:
        """Every outcome with its item."""
        found = [
            (self.names[fact.index], self.items[fact.index], outcome)
            for fact in self.first.of("forward")
            if (outcome := fact.outcome()) is not None
        ]
        for group, tries in self.tries.items():
            known = self.of(group)
            found += [
                (each.name, each.item, known[each.name].outcome) for each in tries if each.name in known
            ]
        return found


def conformance(
    path: str,
    samples: Sequence[Sample] = (),
    params: JsonObject | None = None,
    *,
    environment: Mapping[str, str] = MappingProxyType({}),
    progress: Progress = lambda _: None,
) -> Conformance:
    """Put the class at ``module:Class`` through the suite.

    ``environment`` is what the operator lets verifiers read; their processes get nothing else of it.
    Raises ``BrokenPlugin`` when it cannot be loaded, ``InvalidInput`` for parameters that it refuses.
    """
    began = time.monotonic()
    verifier = load_path(path)
    found = [_declaration(verifier), _parameters(verifier)]
    reason = verifier.unavailable()
    items = 0
    given: JsonObject = {}
    if found[-1].verdict != "failed" and not (verifier.info.external and not params):
        given = _params(verifier, params or {})
    if found[-1].verdict == "failed":
        found.append(checks.skipped("execution", "its parameters are not sound"))
    elif verifier.info.external:
        found.append(checks.skipped("execution", "people decide: it is never executed"))
    elif reason is not None:
        found.append(checks.skipped("execution", f"it cannot run here: {reason}"))
    else:
        seen = _run(path, verifier, given, samples, environment, progress)
        items = len(seen.outcomes())
        found += _judged(verifier, samples, seen)
    return Conformance(
        verifier=verifier.info.name,
        version=verifier.info.version,
        path=path,
        samples=len(samples),
        items=items,
        seconds=time.monotonic() - began,
        checks=tuple(found),
    )


def read_samples(lines: Iterable[bytes]) -> tuple[Sample, ...]:
    """Samples from JSON lines. Raises ``InvalidInput`` naming the line and the field."""
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found.append(Sample.model_validate_json(line))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            field = ".".join(map(str, first["loc"])) or "the line"
            message = f"line {number}: {field}: {first['msg']}"
            raise InvalidInput("bad_sample", message, field=field) from error
    return tuple(found)


def _params(verifier: Verifier, params: JsonObject) -> JsonObject:
    try:
        return dict(_validated(verifier, params).model_dump(mode="json"))
    except (ValueError, TypeError) as error:
        message = f"{verifier.info.name} does not take these parameters: {error}"[:500]
        raise InvalidInput("invalid_params", message, field="params") from error


def _validated(verifier: Verifier, params: JsonObject) -> Params:
    return verifier.params_model.model_validate_json(json.dumps(params, allow_nan=False), strict=True)


def _run(
    path: str,
    verifier: Verifier,
    params: JsonObject,
    samples: Sequence[Sample],
    environment: Mapping[str, str],
    progress: Progress,
) -> Seen:
    info = verifier.info
    given = [sample.item() for sample in samples]
    right = next((s.item() for s in samples if s.expected == "accept"), given[0] if given else CheckInput())
    ordinary = [*given, *(right.model_copy(update={"candidate": answer}) for answer in NO_ANSWERS)]
    names = [f"sample {number}" for number in range(1, len(given) + 1)]
    names += [f"candidate {answer!r}" for answer in NO_ANSWERS]
    tries = _tries(info, samples, right, list(zip(names, ordinary, strict=True)))
    many = [*tries["garbage"], *tries["problems"]]
    at_door = [*ordinary, *(each.item for each in many)] if _asked_at_door(verifier) else []
    alone = partial(play, path, info, params, environment=environment)
    progress("judging twice, backwards and in batches")
    first = alone(ordinary, ACTS, hash_seed=1)
    progress("judging in another process, and dying in the middle of a batch")
    second = alone(ordinary, ("forward", "die"), hash_seed=2)
    door = alone(at_door, ("precheck",), hash_seed=1) if at_door else None
    everything = [each for group in tries.values() for each in group]
    progress(f"{len(everything)} hostile items in the harness")
    return Seen(
        names=tuple(names),
        items=tuple(ordinary),
        first=first,
        second=second,
        door=door,
        door_names=(*names, *(each.name for each in many)),
        tries=tries,
        results=in_harness(path, info, params, everything, environment),
    )


def _tries(
    info: VerifierInfo,
    samples: Sequence[Sample],
    right: CheckInput,
    ordinary: Sequence[tuple[str, CheckInput]],
) -> dict[Group, list[Try]]:
    no_task: JsonObject = {"inputs": {}, "reference": {}}
    return {
        "garbage": list(against_candidates(right)) if "candidate" in info.reads else [],
        "problems": list(against_problems(right)),
        "canaries": list(with_canaries(samples)) if "reference" in info.reads else [],
        "emptied": [Try(f"{name}, no task", item.model_copy(update=no_task)) for name, item in ordinary],
    }


def _asked_at_door(verifier: Verifier) -> bool:
    kind = type(verifier)
    return kind.precheck is not Verifier.precheck or kind.size is not Verifier.size


def _judged(verifier: Verifier, samples: Sequence[Sample], seen: Seen) -> list[CheckRecord]:
    info, everything = verifier.info, seen.outcomes()
    emptied = seen.tries["emptied"]
    accepted = zip(emptied, samples, strict=False)
    right = {each.name for each, sample in accepted if sample.expected == "accept"}
    return [
        checks.samples(samples, seen.first),
        checks.determinism(info, seen.first, seen.second, seen.names),
        checks.failures(seen.first),
        *checks.batch(seen.first, seen.second, seen.names),
        checks.broken_task(info, emptied, seen.of("emptied"), right),
        checks.hostile(seen.results),
        checks.garbage(seen.of("garbage")),
        checks.limits(info, seen.of("garbage", "problems")),
        checks.findings(everything),
        checks.no_leak(everything),
        checks.no_output([seen.first, seen.second]),
        checks.no_leftovers(seen.first),
        checks.precheck(seen.door, samples, seen.door_names),
    ]


def _declaration(verifier: Verifier) -> CheckRecord:
    info, problems = verifier.info, []
    try:
        _NAME.validate_python(info.name)
    except ValidationError:
        problems.append(f"the name {info.name!r} is not words of lower case joined by dots")
    if not info.version.strip():
        problems.append("the version is empty: a check is keyed by it")
    if not info.summary.strip():
        problems.append("the summary is empty")
    if not info.reads:
        problems.append("it reads nothing: every check would have the same key")
    if VerifierInfo.model_validate_json(info.model_dump_json()) != info:
        problems.append("the declaration does not survive JSON")
    if verifier.unavailable() is None:
        problems += [
            f"the library {name} is not installed"
            for name in info.libraries
            if installed_version(name) == "missing"
        ]
    return checks.record("declaration", problems, f"{info.name} {info.version} on {info.tier}")


def _parameters(verifier: Verifier) -> CheckRecord:
    model, problems = verifier.params_model, []
    if Params not in model.__mro__:
        problems.append("params_model is not derived from Params")
    try:
        schema = json.loads(json.dumps(model.model_json_schema(), allow_nan=False))
    except Exception as error:  # noqa: BLE001 - a fact about the verifier
        return checks.record("parameters", [f"no JSON Schema: {type(error).__name__}"], "")
    if schema.get("additionalProperties") is not False:
        problems.append("unknown parameters are not refused: a misspelt one would be a silence")
    for name, field in schema.get("properties", {}).items():
        if field.get("format") in ("path", "file-path", "directory-path", "uri", "binary"):
            problems.append(f"{name} is a path or an address: those are settings of the server")
    try:
        default = _validated(verifier, {})
        if _validated(verifier, default.model_dump(mode="json", warnings="error")) != default:
            problems.append("the default parameters do not survive JSON")
    except ValueError:
        if not schema.get("required"):
            problems.append("the defaults are not valid parameters")
    return checks.record("parameters", problems, f"{len(schema.get('properties', {}))} parameters")
