"""Projects, keys and ladders."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from sqlalchemy import func, insert, or_, select, update

from verifier_service.domain.errors import Conflict, NotFound
from verifier_service.domain.ladders import Ladder, LadderSpec
from verifier_service.domain.runs import Key
from verifier_service.persistence import tables
from verifier_service.persistence.account_tables import users
from verifier_service.persistence.database import Database, clock


def moment(epoch: float) -> datetime:
    """A stored time as records carry it."""
    return datetime.fromtimestamp(epoch, UTC)


_SECRET_BYTES = 32


class SqlProjects:
    """See ``ports.tenancy.Projects``."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._secrets: dict[str, str] = {}

    def ensure(self, name: str) -> bool:
        values = {"name": name, "secret": secrets.token_hex(_SECRET_BYTES), "created_at": clock()}
        created = self._db.insert_new(tables.projects).values(**values)
        return self._db.first(created.returning(tables.projects.c.name)) is not None

    def secret(self, name: str) -> str:
        known = self._secrets.get(name)
        if known is None:
            row = self._db.first(select(tables.projects.c.secret).where(tables.projects.c.name == name))
            if row is None:
                raise NotFound("project_not_found", f"no project {name!r}")
            known = self._secrets[name] = str(row.secret)
        return known

    def names(self) -> tuple[str, ...]:
        return tuple(
            row.name for row in self._db.all(select(tables.projects).order_by(tables.projects.c.name))
        )


class SqlKeys:
    """See ``ports.tenancy.Keys``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, key: Key, secret_hash: str) -> None:
        values = {
            "id": key.id,
            "project": key.project,
            "secret_hash": secret_hash,
            "body": key.model_dump_json(),
            "owner": key.owner,
            "created_at": key.created_at.timestamp(),
            "revoked_at": None if key.revoked_at is None else key.revoked_at.timestamp(),
        }
        added = self._db.insert_new(tables.keys).values(values).returning(tables.keys.c.id)
        if self._db.first(added) is None:
            raise Conflict("key_exists", f"a key {key.id!r} exists")

    def find(self, key_id: str) -> tuple[Key, str] | None:
        row = self._db.first(select(tables.keys).where(tables.keys.c.id == key_id))
        return None if row is None else (_key(row.body, row.revoked_at), row.secret_hash)

    def dead(self, key_ids: Collection[str]) -> set[str]:
        keys = tables.keys
        owner = select(users.c.pk).where(
            users.c.login == keys.c.owner, users.c.project == keys.c.project, users.c.disabled_at.is_(None)
        )
        living = select(keys.c.id).where(
            self._db.among(keys.c.id, key_ids),
            keys.c.revoked_at.is_(None),
            or_(keys.c.owner.is_(None), owner.exists()),
        )
        return set(key_ids) - {row.id for row in self._db.all(living)}

    def of_project(self, project: str) -> tuple[Key, ...]:
        of_project = select(tables.keys).where(tables.keys.c.project == project)
        rows = self._db.all(of_project.order_by(tables.keys.c.created_at, tables.keys.c.id))
        return tuple(_key(row.body, row.revoked_at) for row in rows)

    def revoke(self, project: str, key_id: str) -> Key:
        keys = tables.keys
        revoked = (
            update(keys)
            .where(keys.c.project == project, keys.c.id == key_id)
            .values(revoked_at=func.coalesce(keys.c.revoked_at, clock()))
            .returning(keys.c.body, keys.c.revoked_at)
        )
        row = self._db.first(revoked)
        if row is None:
            raise NotFound("key_not_found", f"no key {key_id!r}")
        return _key(row.body, row.revoked_at)


def _key(body: str, revoked_at: float | None) -> Key:
    key = Key.model_validate_json(body)
    return key.model_copy(update={"revoked_at": None if revoked_at is None else moment(revoked_at)})


class LadderCache:
    """Ladder versions of one process: immutable once committed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int], Ladder] = {}

    def get(self, key: tuple[str, str, int]) -> Ladder | None:
        """The ladder, if it was read before."""
        return self._known.get(key)

    def keep(self, key: tuple[str, str, int], ladder: Ladder) -> None:
        """Remember a committed version."""
        self._known[key] = ladder


class SqlLadders:
    """See ``ports.tenancy.Ladders``."""

    def __init__(self, database: Database, cache: LadderCache) -> None:
        self._db = database
        self._cache = cache
        # A version this transaction wrote may be rolled back and its number given to other content.
        self._dirty = False

    def put(self, project: str, spec: LadderSpec, digest: str) -> tuple[Ladder, bool]:
        projects = tables.projects
        owner = self._db.locked(select(projects.c.name).where(projects.c.name == project))
        if self._db.first(owner) is None:
            raise NotFound("project_not_found", f"no project {project!r}")
        latest = self.latest(project, spec.name)
        if latest is not None and latest.digest == digest:
            return latest, False
        version = 1 if latest is None else latest.version + 1
        self._dirty = True
        values = {
            "project": project,
            "name": spec.name,
            "version": version,
            "digest": digest,
            "spec": spec.model_dump_json(by_alias=True),
            "created_at": clock(),
        }
        self._db.run(insert(tables.ladders).values(values))
        return Ladder(name=spec.name, version=version, digest=digest, spec=spec), True

    def latest(self, project: str, name: str) -> Ladder | None:
        ladders = tables.ladders
        newest = select(func.max(ladders.c.version)).where(
            ladders.c.project == project, ladders.c.name == name
        )
        version = self._db.connection.execute(newest).scalar_one()
        return None if version is None else self.version(project, name, version)

    def version(self, project: str, name: str, version: int) -> Ladder:
        key = (project, name, version)
        known = self._cache.get(key)
        if known is not None:
            return known
        ladders = tables.ladders
        row = self._db.first(
            select(ladders.c.digest, ladders.c.spec).where(
                ladders.c.project == project, ladders.c.name == name, ladders.c.version == version
            )
        )
        if row is None:
            raise NotFound("ladder_not_found", f"no ladder {name!r} version {version}")
        spec = LadderSpec.model_validate_json(row.spec)
        ladder = Ladder(name=name, version=version, digest=row.digest, spec=spec)
        if not self._dirty:
            self._cache.keep(key, ladder)
        return ladder

    def of_project(self, project: str) -> Sequence[Ladder]:
        ladders = tables.ladders
        latest = (
            select(ladders.c.name, func.max(ladders.c.version).label("version"))
            .where(ladders.c.project == project)
            .group_by(ladders.c.name)
            .order_by(ladders.c.name)
        )
        return [self.version(project, row.name, row.version) for row in self._db.all(latest)]
