"""Projects, keys and ladders: what an administrator sets up."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from verifier_service.domain.accounts import Role, User
from verifier_service.domain.digests import canonical_json, digest
from verifier_service.domain.errors import Forbidden, InvalidInput, Unauthenticated, VerificationError
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ladders import Ladder, LadderSpec, VerifierUse
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.runs import Key, Scope, speaking

SECRET_BYTES = 32
KEY_PREFIX = "vk_"
EVERY_SCOPE = frozenset(scope for scope in Scope if scope is not Scope.OTHER)


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A living key, and the present role of its owner; null where it has none."""

    key: Key
    role: Role | None


@dataclass(frozen=True, kw_only=True, slots=True)
class NewKey:
    """A key with its secret, which is shown once and never stored."""

    key: Key
    token: str


def create_project(tx: Transaction, catalog: Catalog, name: str) -> None:
    """Create a project (idempotent) and give it the shipped ladders that it has no version of.

    A ladder that an operator has changed is left alone: new versions are theirs to store.
    """
    tx.projects.ensure(name)
    for document in catalog.shipped_ladders():
        spec = LadderSpec.model_validate_json(canonical_json(document))
        if tx.ladders.latest(name, spec.name) is None:
            put_ladder(tx, catalog, name, spec)


def put_ladder(tx: Transaction, catalog: Catalog, project: str, spec: LadderSpec) -> tuple[Ladder, bool]:
    """Store a ladder; a changed one is a new version, the same content the same version.

    Raises ``InvalidInput`` naming the field when a verifier is unknown, stands on a tier that is not
    its own, has bad parameters, or a map does not lead to the ladder's quantity.
    """
    normal = _validated(catalog, spec)
    document = canonical_json(normal.model_dump(mode="json", by_alias=True))
    return tx.ladders.put(project, normal, digest("ladder", document))


def _validated(catalog: Catalog, spec: LadderSpec) -> LadderSpec:
    tiers = {}
    for tier, uses in spec.tiers.items():
        checked = []
        for index, use in enumerate(uses):
            field = f"tiers.{tier}.{index}"
            info = _known(catalog, use.use, field)
            if info is not tier:
                raise InvalidInput(
                    "wrong_tier", f"{use.use} is a {info} verifier and cannot stand on {tier}", field=field
                )
            if use.map is not None:
                _check_map(catalog, spec, use.map, f"{field}.map")
            checked.append(_with_params(catalog, use, field))
        tiers[tier] = tuple(checked)
    process = []
    for index, use in enumerate(spec.process.checks):
        field = f"process.checks.{index}"
        if _known(catalog, use.use, field) is not Tier.FAST:
            raise InvalidInput("wrong_tier", f"{use.use} is not a fast verifier", field=field)
        process.append(_with_params(catalog, use, field))
    return spec.model_copy(
        update={"tiers": tiers, "process": spec.process.model_copy(update={"checks": tuple(process)})}
    )


def _known(catalog: Catalog, name: str, field: str) -> Tier:
    try:
        return catalog.verifier(name).tier
    except VerificationError as error:
        raise InvalidInput("unknown_verifier", error.message, field=f"{field}.use") from error


def _with_params(catalog: Catalog, use: VerifierUse, field: str) -> VerifierUse:
    try:
        return use.model_copy(update={"params": catalog.validate_params(use.use, use.params)})
    except InvalidInput as error:
        inner = f".{error.field}" if error.field else ""
        raise InvalidInput(error.code, error.message, field=f"{field}.params{inner}") from error


def _check_map(catalog: Catalog, spec: LadderSpec, name: str, field: str) -> None:
    try:
        declared = catalog.map(name)
    except VerificationError as error:
        raise InvalidInput("unknown_map", error.message, field=field) from error
    if spec.quantity is None or declared.target != spec.quantity.name:
        raise InvalidInput(
            "wrong_map", f"map {name} leads to {declared.target}, not to the ladder's quantity", field=field
        )


def create_key(
    tx: Transaction, project: str, name: str, scopes: Collection[Scope], owner: str | None = None
) -> NewKey:
    """Make a key with a 256-bit secret; only a hash of it is stored. ``owner``: the person it is for.

    Raises ``InvalidInput`` for an owner who is no active user of the project.
    """
    if owner is not None and _active(tx, project, owner) is None:
        message = f"no active user {owner!r}: the owner of a key is one of the people of the project"
        raise InvalidInput("unknown_owner", message, field="owner")
    key_id = KEY_PREFIX + secrets.token_hex(6)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    key = Key(
        id=key_id,
        project=project,
        name=name,
        owner=owner,
        scopes=frozenset(scopes),
        created_at=datetime.fromtimestamp(tx.now(), tz=UTC),
    )
    tx.keys.add(key, _hash(secret))
    return NewKey(key=key, token=f"{key_id}.{secret}")


def authenticate(tx: Transaction, token: str) -> Known:
    """The live key behind a bearer token. Raises ``Unauthenticated``, also where its owner is disabled."""
    key_id, _, secret = token.partition(".")
    found = tx.keys.find(key_id) if secret else None
    expected = found[1] if found is not None else _hash("")
    matches = hmac.compare_digest(expected, _hash(secret))
    if found is None or not matches or found[0].revoked_at is not None:
        raise Unauthenticated("bad_key", "the API key is unknown or revoked")
    key = found[0]
    if key.owner is None:
        return Known(key=key, role=None)
    owner = _active(tx, key.project, key.owner)
    if owner is None:
        raise Unauthenticated("owner_disabled", "the person whose key this is has no active account")
    return Known(key=key, role=owner.role)


def reviewer_through(tx: Transaction, key: Key, reviewer: str) -> str:
    """The reviewer who speaks through a key. Raises ``Forbidden`` for another than its owner, and through a
    key without one for everybody who has an account: nobody votes in somebody's name."""
    if key.owner is None and tx.users.find(reviewer.lower(), key.project) is not None:
        message = f"{reviewer!r} is a person's login: they review on the pages, or through a key of theirs"
        raise Forbidden("not_your_name", message, field="reviewer")
    return speaking(key, reviewer)


def _active(tx: Transaction, project: str, login: str) -> User | None:
    found = tx.users.find(login, project)
    return None if found is None or found.user.disabled_at is not None else found.user


def _hash(secret: str) -> str:
    """SHA-256 suffices: the secret is 256 random bits, not a password."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
