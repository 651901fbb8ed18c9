"""Content addresses: canonical JSON, SHA-256, and the keys of checks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from verifier_service.domain.records import JsonValue

DIGEST_CHARS = 40
BUILD_CHARS = 8
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces; equal values give equal text. Refuses NaN and Infinity."""
    return _CANONICAL.encode(value)


def digest(*parts: str) -> str:
    """Hex SHA-256 over length-prefixed parts, cut to 160 bits."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return hasher.hexdigest()[:DIGEST_CHARS]


def raw_digest(kind: str, answer: JsonValue) -> str:
    """Address of an answer as it was written."""
    return digest("raw", kind, canonical_json(answer))


def candidate_digest(kind: str, canonical: str, toolkit: str) -> str:
    """Address of a candidate in canonical form, bound to the toolkit that made the form."""
    return digest("candidate", kind, canonical, toolkit)


def method_digest(
    verifier: str, version: str, libraries: Mapping[str, str], params: Mapping[str, JsonValue]
) -> str:
    """Address of how something is judged: verifier, its version, its libraries' versions, parameters."""
    return digest(
        "method", verifier, version, canonical_json(dict(libraries)), canonical_json(dict(params))
    )


def build_of(version: str, libraries: Mapping[str, str]) -> str:
    """A verifier's version together with its libraries' versions, as ``2+5a0c41de``: what two processes
    must have in common to judge alike. Written as a local version label (PEP 440); without libraries the
    version alone.
    """
    label = digest("libraries", canonical_json(dict(libraries)))[:BUILD_CHARS]
    return f"{version}+{label}" if libraries else version


def version_of(build: str) -> str:
    """The verifier's version in a build."""
    version, plus, label = build.rpartition("+")
    return version if plus and len(label) == BUILD_CHARS else build


def check_key(*, secret: str, subject: str, method: str, inputs: Mapping[str, JsonValue]) -> str:
    """Address of a check.

    ``subject`` is a candidate digest or the digest of a prefix of turns, ``method`` a method digest,
    ``inputs`` the parts of the problem that the verifier declared it reads. Keys are shown, and inputs
    may hold a reference: ``secret`` keeps guesses at it from being tried.
    """
    return digest("check", secret, subject, method, canonical_json(dict(inputs)))
