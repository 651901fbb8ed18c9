"""From a rung to the check it asks for: what is verified, with what, under which key."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import NamedTuple

from verifier_service.domain.cases import Body, Standing
from verifier_service.domain.checks import NewCheck
from verifier_service.domain.digests import build_of, canonical_json, check_key, method_digest
from verifier_service.domain.errors import InvalidInput, NotFound
from verifier_service.domain.evidence import Tier
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.forecasts import horizon_of
from verifier_service.domain.ladders import CandidateSpec, Ladder, Rung, VerifierUse
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.records import JsonObject, JsonValue
from verifier_service.domain.verifiers import CheckInput, Readable, VerifierInfo
from verifier_service.domain.workers import VerifierHere

IDENTIFY_PATH = "identify"


def identify_rung(verifier: str) -> Rung:
    """The step before the ladder: from a raw answer to a candidate."""
    return Rung(path=IDENTIFY_PATH, tier=Tier.FAST, role="identify", use=VerifierUse(use=verifier))


def plan_check(
    catalog: Catalog,
    standing: Standing,
    rung: Rung,
    body: Body,
    *,
    source: CandidateSpec,
    secret: str,
    priority: float = 0.0,
    deadline: float | None = None,
) -> NewCheck:
    """The check of one rung for one trajectory; ``source`` says where its candidate is.

    Process checks are keyed by the digest of the turns, all others by the candidate (its raw digest
    while it could not be identified), together with the inputs that the verifier declares it reads.
    """
    method = _method(catalog, rung.use.use, rung.use.declared)
    info = method.info
    read = _read(info.reads - {"candidate", "turns"}, body)
    if info.external:  # a person judges the candidate for this task, not the candidate as such
        read |= {"task": [standing.ladder, standing.ladder_version, _read(frozenset({"prompt"}), body)]}
    if info.awaits == "settlement" and deadline is not None:
        deadline = min(deadline, horizon_of(body.inputs) or deadline)
    item = _item(info.reads, standing, body, source)
    return NewCheck(
        key=check_key(
            secret=secret, subject=_subject(standing, info.reads), method=method.digest, inputs=read
        ),
        verifier=info.name,
        version=method.build,
        tier=info.tier,
        params=method.params,
        item=item.model_dump_json(exclude_defaults=True),
        method=method.digest,
        external=info.external,
        priority=priority,
        max_attempts=info.limits.max_attempts,
        deadline=deadline,
    )


def _item(reads: frozenset[Readable], standing: Standing, body: Body, source: CandidateSpec) -> CheckInput:
    """What the verifier is given: no more than it declares to read."""
    candidate: JsonValue = standing.canonical
    if candidate is None:
        candidate = candidate_of(source, body.answer, body.turns)
    return CheckInput(
        candidate=candidate if "candidate" in reads else None,
        inputs=body.inputs if "inputs" in reads else {},
        reference=body.reference if "reference" in reads else {},
        prompt=body.prompt if "prompt" in reads else "",
        turns=body.turns if "turns" in reads else (),
    )


def reads_turns(catalog: Catalog, ladder: Ladder, rung: Rung) -> bool:
    """Whether the check of a rung needs the turns: to judge them, or to find the candidate in them."""
    return ladder.spec.candidate.from_ == "last_turn" or "turns" in catalog.verifier(rung.use.use).reads


def unplannable(catalog: Catalog, rung: Rung) -> str | None:
    """Why no check can be made of a rung here: its verifier is gone, or refuses these parameters."""
    try:
        _method(catalog, rung.use.use, rung.use.declared)
    except (NotFound, InvalidInput) as error:
        return error.message
    return None


def rung_method(catalog: Catalog, rung: Rung) -> str | None:
    """The digest by which this installation keys checks of a rung; ``None`` if it cannot make one."""
    try:
        return _method(catalog, rung.use.use, rung.use.declared).digest
    except (NotFound, InvalidInput):
        return None


def current_method(catalog: Catalog, verifier: str, params: JsonObject) -> str | None:
    """The digest by which this installation would key a check with these parameters; ``None`` if it
    cannot make one."""
    try:
        return _method(catalog, verifier, canonical_json(params)).digest
    except (NotFound, InvalidInput):
        return None


def here(catalog: Catalog, verifier: str) -> VerifierHere | None:
    """A verifier as this installation has it; ``None`` if it has not."""
    try:
        return _here(catalog, verifier)
    except NotFound:
        return None


@lru_cache(maxsize=1_024)
def _here(catalog: Catalog, verifier: str) -> VerifierHere:
    return VerifierHere(
        name=verifier,
        version=catalog.verifier(verifier).version,
        libraries=catalog.library_versions(verifier),
        lacking=catalog.availability(verifier),
    )


class _Method(NamedTuple):
    """A verifier with validated parameters, and the digest of all that decides how it judges."""

    info: VerifierInfo
    build: str
    params: JsonObject
    digest: str


@lru_cache(maxsize=1_024)
def _method(catalog: Catalog, verifier: str, declared: str) -> _Method:
    """The method of a rung; ``declared`` are its parameters as canonical JSON."""
    info = catalog.verifier(verifier)
    params = catalog.validate_params(info.name, json.loads(declared))
    libraries = catalog.library_versions(info.name)
    build = build_of(info.version, libraries)
    return _Method(info, build, params, method_digest(info.name, info.version, libraries, params))


def _subject(standing: Standing, reads: frozenset[Readable]) -> str:
    parts = []
    if "candidate" in reads:
        parts.append(standing.subject)
    if "turns" in reads:
        parts.append(standing.turns_digest)
    return "/".join(parts)


def _read(reads: frozenset[Readable], body: Body) -> JsonObject:
    values: dict[Readable, JsonValue] = {
        "inputs": body.inputs,
        "reference": body.reference,
        "prompt": list(body.prompt) if isinstance(body.prompt, list) else body.prompt,
    }
    return {name: values[name] for name in sorted(reads)}
