"""Queues of the desk in versions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, func, select

from verifier_service.domain.errors import Contended, NotFound
from verifier_service.domain.review_queues import Queue, QueueSpec, plain
from verifier_service.persistence.database import Database, clock
from verifier_service.persistence.documents import dumped
from verifier_service.persistence.review_tables import review_queues
from verifier_service.persistence.tenancy import moment

_queues = review_queues


class SqlReviewQueues:
    """See ``ports.review_queues.ReviewQueues``. ``known``: versions that were read before, immutable once
    they are committed."""

    def __init__(self, database: Database, known: dict[tuple[str, str, int], Queue]) -> None:
        self._db = database
        self._known = known

    def put(self, project: str, spec: QueueSpec, digest: str) -> tuple[Queue, bool]:
        """Raises ``Contended`` when another stores a version of the same queue."""
        row = self._latest(project, spec.name)
        if row is not None and row.digest == digest:
            return _queue(row), False
        version = 1 if row is None else row.version + 1
        values = {
            "project": project,
            "name": spec.name,
            "version": version,
            "digest": digest,
            "spec": dumped(spec),
            "created_at": clock(),
        }
        made = self._db.insert_new(_queues).values(**values).returning(_queues.c.version)
        if self._db.first(made) is None:
            raise Contended("queue_contended", "another version was stored meanwhile")
        return self._version(project, spec.name, version), True

    def latest(self, project: str, name: str) -> Queue:
        row = self._latest(project, name)
        return plain(name) if row is None else _queue(row)

    def version(self, project: str, name: str, version: int) -> Queue:
        if version == 0:
            return plain(name)
        key = (project, name, version)
        if key not in self._known:
            self._known[key] = self._version(*key)
        return self._known[key]

    def _version(self, project: str, name: str, version: int) -> Queue:
        mine = select(_queues).where(_queues.c.project == project, _queues.c.name == name)
        row = self._db.first(mine.where(_queues.c.version == version))
        if row is None:
            raise NotFound("queue_not_found", f"queue {name!r} has no version {version}")
        return _queue(row)

    def of_project(self, project: str) -> Sequence[Queue]:
        found = _newest([_queues.c.project == project])
        return [_queue(row) for row in self._db.all(found.order_by(_queues.c.name))]

    def approvals(self, projects: Collection[str] | None = None) -> dict[tuple[str, str], int]:
        among = [] if projects is None else [_queues.c.project.in_(sorted(projects))]
        newest = [(row.project, _queue(row).spec) for row in self._db.all(_newest(among))]
        return {(project, spec.name): spec.approvals for project, spec in newest if spec.approvals > 1}

    def _latest(self, project: str, name: str) -> Row[Any] | None:
        mine = select(_queues).where(_queues.c.project == project, _queues.c.name == name)
        return self._db.first(mine.order_by(_queues.c.version.desc()).limit(1))


def _newest(among: Sequence[ColumnElement[bool]]) -> Select[Any]:
    """The latest version of each queue."""
    last = select(_queues.c.project, _queues.c.name, func.max(_queues.c.version).label("version"))
    newest = last.where(*among).group_by(_queues.c.project, _queues.c.name).subquery()
    return select(_queues).join(
        newest,
        and_(*(newest.c[name] == _queues.c[name] for name in ("project", "name", "version"))),
    )


def _queue(row: Row[Any]) -> Queue:
    spec = QueueSpec.model_validate_json(row.spec)
    return Queue(version=row.version, spec=spec, created_at=moment(row.created_at))
