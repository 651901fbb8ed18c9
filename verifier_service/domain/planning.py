"""From a rung to the check it asks for: what is verified, with what, under which key."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import NamedTuple

from verifier_service.domain.cases import Body, Standing
from verifier_service.domain.checks import NewCheck
from verifier_service.domain.digests import canonical_json, check_key, method_digest
from verifier_service.domain.errors import InvalidInput, NotFound
from verifier_service.domain.evidence import Tier
from verifier_service.domain.extraction import candidate_of
from verifier_service.domain.ladders import CandidateSpec, Ladder, Rung, VerifierUse
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.records import JsonObject, JsonValue
from verifier_service.domain.verifiers import CheckInput, Readable, VerifierInfo

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
    method = _method(catalog, rung.use.use, canonical_json(rung.use.params))
    info = method.info
    candidate: JsonValue = standing.canonical
    if candidate is None:
        candidate = candidate_of(source, body.answer, body.turns)
    read = _read(info.reads - {"candidate", "turns"}, body)
    if info.external:  # a person judges the candidate for this task, not the candidate as such
        read |= {"task": [standing.ladder, standing.ladder_version, _read(frozenset({"prompt"}), body)]}
    item = CheckInput(
        candidate=candidate if "candidate" in info.reads else None,
        inputs=body.inputs if "inputs" in info.reads else {},
        reference=body.reference if "reference" in info.reads else {},
        prompt=body.prompt if "prompt" in info.reads else "",
        turns=body.turns if "turns" in info.reads else (),
    )
    return NewCheck(
        key=check_key(
            secret=secret, subject=_subject(standing, info.reads), method=method.digest, inputs=read
        ),
        verifier=info.name,
        version=info.version,
        tier=info.tier,
        params=method.params,
        item=item.model_dump_json(exclude_defaults=True),
        method=method.digest,
        external=info.external,
        priority=priority,
        max_attempts=info.limits.max_attempts,
        deadline=deadline,
    )


def reads_turns(catalog: Catalog, ladder: Ladder, rung: Rung) -> bool:
    """Whether the check of a rung needs the turns: to judge them, or to find the candidate in them."""
    return ladder.spec.candidate.from_ == "last_turn" or "turns" in catalog.verifier(rung.use.use).reads


def unplannable(catalog: Catalog, rung: Rung) -> str | None:
    """Why no check can be made of a rung here: its verifier is gone, or refuses these parameters."""
    try:
        _method(catalog, rung.use.use, canonical_json(rung.use.params))
    except (NotFound, InvalidInput) as error:
        return error.message
    return None


def current_method(catalog: Catalog, verifier: str, params: JsonObject) -> str | None:
    """The digest by which this installation would key a check with these parameters; ``None`` if it
    cannot make one."""
    try:
        return _method(catalog, verifier, canonical_json(params)).digest
    except (NotFound, InvalidInput):
        return None


class _Method(NamedTuple):
    """A verifier with validated parameters, and the digest of all that decides how it judges."""

    info: VerifierInfo
    params: JsonObject
    digest: str


@lru_cache(maxsize=1_024)
def _method(catalog: Catalog, verifier: str, declared: str) -> _Method:
    """The method of a rung; ``declared`` are its parameters as canonical JSON."""
    info = catalog.verifier(verifier)
    params = catalog.validate_params(info.name, json.loads(declared))
    libraries = catalog.library_versions(info.name)
    return _Method(info, params, method_digest(info.name, info.version, libraries, params))


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
