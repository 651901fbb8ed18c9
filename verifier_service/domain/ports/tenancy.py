"""Ports for what belongs to a tenant as a whole: projects, keys, ladders."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from verifier_service.domain.ladders import Ladder, LadderSpec
from verifier_service.domain.runs import Key


class Projects(Protocol):
    """The tenants."""

    def ensure(self, name: str) -> bool:
        """Create the project if it is new; True when this call created it."""
        ...

    def secret(self, name: str) -> str:
        """256 random bits of the project, made with it and never shown: digests that cover references
        are salted with it, so that nobody can try guesses against them. Raises ``NotFound``."""
        ...

    def names(self) -> tuple[str, ...]:
        """All projects, by name."""
        ...


class Keys(Protocol):
    """API keys; only hashes are stored."""

    def add(self, key: Key, secret_hash: str) -> None:
        """Store a new key. Raises ``Conflict`` when the id exists."""
        ...

    def find(self, key_id: str) -> tuple[Key, str] | None:
        """The key with its hash, revoked or not."""
        ...

    def dead(self, key_ids: Collection[str]) -> set[str]:
        """Those of the ids that are revoked, belong to no key, or to somebody without an active account."""
        ...

    def of_project(self, project: str) -> tuple[Key, ...]:
        """All keys of a project, oldest first."""
        ...

    def revoke(self, project: str, key_id: str) -> Key:
        """Mark revoked (idempotent). Raises ``NotFound``."""
        ...


class Ladders(Protocol):
    """Immutable ladder versions."""

    def put(self, project: str, spec: LadderSpec, digest: str) -> tuple[Ladder, bool]:
        """Store as the next version, unless the latest version has the same digest.

        Returns the ladder and whether a version was created.
        """
        ...

    def latest(self, project: str, name: str) -> Ladder | None:
        """The highest version."""
        ...

    def version(self, project: str, name: str, version: int) -> Ladder:
        """One version. Raises ``NotFound``."""
        ...

    def of_project(self, project: str) -> Sequence[Ladder]:
        """The latest version of every ladder, by name."""
        ...
