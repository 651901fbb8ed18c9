"""Trajectories: the rows, their bodies and what is written back on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row, Select, select, update

from verifier_service.domain.cases import Body, Case, NewTrajectory, Standing
from verifier_service.domain.decisions import Sibling
from verifier_service.domain.errors import Conflict
from verifier_service.domain.models import LadderKey
from verifier_service.domain.ports.runs import Decided, StandingUpdate
from verifier_service.domain.runs import RunState
from verifier_service.domain.scoring import MET_NOTHING
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.trajectories import Turn
from verifier_service.persistence import tables
from verifier_service.persistence.bulk import NOW, insert_all, insert_new, update_each
from verifier_service.persistence.cases import demand_views
from verifier_service.persistence.database import Database, clean, clock, ordered, sql
from verifier_service.persistence.runs import no_run, run_key
from verifier_service.persistence.tenancy import SqlLadders

_cases, _runs, _bodies = tables.trajectories, tables.runs, tables.bodies
_TURNS = TypeAdapter(tuple[Turn, ...])
REOPENED = 2**31 - 1  # as a number of ended demands: more than there are, and not "never"
HELD_PATHS = 4  # held rungs of one case that are looked at before cases further down have to wait


class SqlTrajectories:
    """See ``ports.runs.Trajectories``."""

    def __init__(self, database: Database, ladders: SqlLadders) -> None:
        self._db = database
        self._ladders = ladders

    def insert(self, project: str, run: str, items: Sequence[NewTrajectory]) -> dict[str, int]:
        owner = self._db.first(select(run_key(project, run).label("pk")))
        if owner is None or owner.pk is None:
            raise no_run(run)
        # Two batches that share ids insert them in the same order, so neither waits for the other twice.
        rows = [_row(owner.pk, item) for item in sorted(items, key=lambda item: item.id)]
        stored = insert_new(self._db, _cases, rows, "id", "pk", created_at=NOW, **_FRESH)
        inserted = {row.id: row.pk for row in stored}
        texts = [
            {"trajectory": inserted[item.id], "body": item.body, "turns": item.turns}
            for item in items
            if item.id in inserted
        ]
        insert_all(self._db, _bodies, texts)
        return inserted

    def attribute(self, submitters: Mapping[int, str]) -> None:
        rows = [{"pk": pk, "submitter": who} for pk, who in sorted(submitters.items())]
        update_each(self._db, _cases, rows)

    def find(self, project: str, run: str, ids: Collection[str]) -> dict[str, Standing]:
        if not ids:
            return {}
        found = _standings().where(_cases.c.run == run_key(project, run), self._db.among(_cases.c.id, ids))
        return {row.id: _standing(row) for row in self._db.all(found)}

    def standings(self, pks: Collection[int]) -> dict[int, Standing]:
        found = _standings().where(self._db.among(_cases.c.pk, pks))
        return {row.pk: _standing(row) for row in self._db.all(found)}

    def count_again(self, counts: Mapping[int, int]) -> None:
        rows = [{"pk": pk, "multiplicity": more} for pk, more in sorted(counts.items())]
        update_each(self._db, _cases, rows, adding=["multiplicity"])

    def bodies(self, pks: Collection[int], *, turns: bool = True) -> dict[int, Body]:
        columns = [_bodies.c.trajectory, _bodies.c.body, *([_bodies.c.turns] if turns else [])]
        found: dict[int, Body] = {}
        for row in self._db.all(select(*columns).where(self._db.among(_bodies.c.trajectory, pks))):
            body = Body.model_validate_json(row.body)
            if turns:
                body = body.model_copy(update={"turns": _TURNS.validate_json(row.turns)})
            found[row.trajectory] = body
        return found

    def grow(self, pk: int, item: NewTrajectory) -> None:
        """Raises ``Conflict`` when the trajectory is finished or cancelled."""
        grown = update(_cases).where(_cases.c.pk == pk, ~_cases.c.finished, ~_cases.c.cancelled)
        grown = grown.values(
            content=item.content,
            subject=item.subject,
            canonical=None,
            identified=False,
            turns_digest=item.turns_digest,
            n_turns=item.n_turns,
            finished=item.finished,
            registered_at=clock() if item.finished else None,
        )
        if self._db.run(grown) == 0:
            raise Conflict("trajectory_finished", f"trajectory {item.id!r} is finished and cannot grow")
        texts = update(_bodies).where(_bodies.c.trajectory == pk)
        self._db.run(texts.values(body=item.body, turns=item.turns))

    def identify(self, subjects: Mapping[int, tuple[str, str | None]]) -> None:
        rows = [
            {"pk": pk, "subject": subject, "canonical": None if canonical is None else clean(canonical)}
            for pk, (subject, canonical) in sorted(subjects.items())
        ]
        update_each(self._db, _cases, rows, identified=True)

    def reopen(self, pks: Collection[int]) -> None:
        these = update(_cases).where(self._db.among(_cases.c.pk, ordered(pks)), _cases.c.decided_on >= 0)
        self._db.run(these.values(decided_on=REOPENED))

    def unidentify(self, subjects: Mapping[int, str]) -> None:
        rows = [{"pk": pk, "subject": subject} for pk, subject in sorted(subjects.items())]
        update_each(self._db, _cases, rows, identified=False, canonical=None)

    def cases(self, pks: Collection[int], *, lock: bool = False) -> list[Case]:
        if not pks:
            return []
        if lock and self._db.postgres:
            rows = select(_cases.c.pk).where(self._db.among(_cases.c.pk, ordered(pks)))
            self._db.run(self._db.locked(rows.order_by(_cases.c.pk)))
        standings = self.standings(pks)
        demands = demand_views(self._db, ordered(standings))
        return [
            Case(
                standing=standing,
                ladder=self._ladders.version(standing.project, standing.ladder, standing.ladder_version),
                demands=tuple(demands.get(pk, ())),
            )
            for pk in pks
            if (standing := standings.get(pk)) is not None
        ]

    def undecided(self, project: str, run: str, limit: int) -> list[int]:
        return self._pks(_of_run(project, run).where(sql(tables.UNDECIDED)), limit)

    def held(self, project: str, run: str, limit: int) -> list[int]:
        """Read from the index of ranks, from its best end: there may be a million of them."""
        demands = tables.demands
        mine = select(demands.c.trajectory).where(demands.c.run == run_key(project, run), sql(tables.HELD))
        ranked = mine.where(demands.c.rank.is_not(None)).order_by(
            demands.c.rank.desc(), demands.c.trajectory
        )
        found = dict.fromkeys(row.trajectory for row in self._db.all(ranked.limit(limit * HELD_PATHS)))
        if len(found) < limit:
            unranked = mine.where(demands.c.rank.is_(None)).order_by(demands.c.trajectory)
            found |= dict.fromkeys(
                row.trajectory for row in self._db.all(unranked.limit(limit * HELD_PATHS))
            )
        return list(found)[:limit]

    def provisional(self, ladder: LadderKey, after: int, limit: int) -> list[int]:
        """Run by run: the index knows the unsettled cases of each."""
        pins = tables.pins
        pinned = (
            select(_runs.c.pk)
            .join(pins, pins.c.run == _runs.c.pk)
            .where(_runs.c.project == ladder.project, _runs.c.state == RunState.OPEN.value)
            .where(pins.c.ladder == ladder.name, pins.c.version == ladder.version)
        )
        found = select(_cases.c.pk).where(_cases.c.run.in_(pinned), sql(f"({tables.UNSETTLED})"))
        found = found.where(
            _cases.c.status == RewardStatus.PROVISIONAL.value,
            _cases.c.ladder == ladder.name,
            _cases.c.pk > after,
        )
        return self._pks(found, limit)

    def unsettled(self, project: str, run: str, limit: int) -> list[int]:
        return self._pks(_of_run(project, run).where(sql(tables.UNSETTLED)), limit)

    def set_needs_decision(self, pks: Collection[int], needs: bool) -> None:
        marked = update(_cases).where(self._db.among(_cases.c.pk, ordered(pks)))
        self._db.run(marked.where(_cases.c.needs_decision != needs).values(needs_decision=needs))

    def decided(self, decisions: Sequence[Decided]) -> None:
        rows = [
            {
                "pk": one.pk,
                "decided_on": one.on,
                "decision": clean(one.decision),
                "propensity": one.propensity,
                "audited": one.audited,
                "predicted": one.predicted,
            }
            for one in sorted(decisions, key=lambda one: one.pk)
        ]
        update_each(self._db, _cases, rows, needs_decision=False)

    def cancel(self, pk: int) -> None:
        self._db.run(update(_cases).where(_cases.c.pk == pk).values(cancelled=True))

    def settle(self, updates: Sequence[StandingUpdate]) -> None:
        rows = [
            {
                "pk": one.pk,
                "status": None if one.status is None else one.status.value,
                "reward": one.reward,
                "outcome": one.outcome,
                "variance": one.variance,
                "revision": one.revision,
                "seq": one.seq,
                "fingerprint": one.fingerprint,
                "met": one.met,
            }
            for one in sorted(updates, key=lambda one: one.pk)
        ]
        update_each(self._db, _cases, rows)

    def siblings(self, project: str, run: str, groups: Collection[str], limit: int) -> list[Sibling]:
        if not groups:
            return []
        mine = select(
            _cases.c.pk, _cases.c.group_id, _cases.c.reward, _cases.c.variance, _cases.c.multiplicity
        ).where(
            _cases.c.run == run_key(project, run),
            self._db.among(_cases.c.group_id, sorted(groups)),
            _cases.c.group_id.is_not(None),
            _cases.c.reward.is_not(None),
        )
        rows = self._db.all(mine.order_by(_cases.c.pk.desc()).limit(limit))
        return [
            Sibling(row.pk, row.group_id, row.reward, row.variance or 0.0, row.multiplicity) for row in rows
        ]

    def group(self, project: str, run: str, group: str) -> list[Standing]:
        members = _standings().where(_cases.c.run == run_key(project, run), _cases.c.group_id == group)
        return [_standing(row) for row in self._db.all(members.order_by(_cases.c.pk))]

    def _pks(self, found: Select[Any], limit: int) -> list[int]:
        return [row.pk for row in self._db.all(found.order_by(_cases.c.pk).limit(limit))]


def _of_run(project: str, run: str) -> Select[Any]:
    return select(_cases.c.pk).where(_cases.c.run == run_key(project, run))


def _standings() -> Select[Any]:
    return _STANDINGS


# In the order of ``Standing``'s fields.
_STANDINGS = select(
    _cases.c.pk,
    _runs.c.project,
    _runs.c.id.label("run"),
    _cases.c.id,
    _cases.c.content,
    _cases.c.multiplicity,
    _cases.c.group_id.label("group"),
    _cases.c.group_size,
    _cases.c.policy_version,
    _cases.c.ladder,
    _cases.c.ladder_version,
    _cases.c.subject,
    _cases.c.canonical,
    _cases.c.identified,
    _cases.c.turns_digest,
    _cases.c.n_turns,
    _cases.c.finished,
    _cases.c.cancelled,
    _cases.c.needs_decision,
    _cases.c.decided_on,
    _cases.c.decision,
    _cases.c.propensity,
    _cases.c.audited,
    _cases.c.predicted,
    _cases.c.status,
    _cases.c.reward,
    _cases.c.outcome,
    _cases.c.variance,
    _cases.c.revision,
    _cases.c.seq,
    _cases.c.fingerprint,
    _cases.c.met,
    _cases.c.created_at,
    _cases.c.registered_at,
).join(_runs, _runs.c.pk == _cases.c.run)


def _standing(row: Row[Any]) -> Standing:
    standing = Standing._make(row)
    return standing if standing.status is None else standing._replace(status=_STATUSES[standing.status])


_STATUSES = {status.value: status for status in RewardStatus}


_FRESH: dict[str, str | float | None] = {
    "multiplicity": 1,
    "identified": False,
    "cancelled": False,
    "needs_decision": False,
    "audited": False,
    "decided_on": -1,
    "revision": 0,
    "met": MET_NOTHING,
}


def _row(run: int, item: NewTrajectory) -> dict[str, Any]:
    return {
        "run": run,
        "id": item.id,
        "content": item.content,
        "group_id": item.group,
        "group_size": item.group_size,
        "policy_version": None if item.policy_version is None else clean(item.policy_version),
        "ladder": item.ladder,
        "ladder_version": item.ladder_version,
        "subject": item.subject,
        "turns_digest": item.turns_digest,
        "n_turns": item.n_turns,
        "finished": item.finished,
    }
