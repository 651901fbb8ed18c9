"""The archive of a run: which tables it has, and which columns they have.

One line per row: ``{"kind": "reward", "row": {...}}``. The first line is the ``head``, the last the ``end``
with the number of rows of each kind: an archive without it is cut short. Times are database epoch seconds,
costs credits, documents JSON as the API shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Literal, NamedTuple

from verifier_service.domain.records import Record

FORMAT = "verifier-archive"
VERSION = 1

Kind = Literal[
    "run", "account", "ladder", "trajectory", "demand", "check", "attempt", "review", "vote", "reward"
]
ColumnType = Literal["text", "integer", "number", "flag", "json"]


class Line(NamedTuple):
    """One row of the archive. ``text`` is the row as JSON, in ASCII or UTF-8, without line breaks."""

    kind: Kind
    text: bytes


class ArchiveHead(Record):
    """What the archive is of. ``through`` is the last position of the run's feed that it holds;
    ``references`` whether the gold of its problems is in it."""

    format: str = FORMAT
    version: int = VERSION
    project: str
    run: str
    through: int
    references: bool
    created_at: datetime


class ArchiveEnd(Record):
    """Rows per kind."""

    rows: dict[str, int]


COLUMNS: Mapping[Kind, Mapping[str, ColumnType]] = MappingProxyType(
    {
        "run": {
            "project": "text",
            "id": "text",
            "state": "text",
            "spec": "json",
            "seed": "integer",
            "feed": "integer",
            "created_at": "number",
            "closed_at": "number",
        },
        "account": {"kind": "text", "credit_limit": "number", "reserved": "number", "spent": "number"},
        "ladder": {"name": "text", "version": "integer", "spec": "json"},
        "trajectory": {
            "id": "text",
            "content": "text",
            "multiplicity": "integer",
            "group_id": "text",
            "group_size": "integer",
            "policy_version": "text",
            "ladder": "text",
            "ladder_version": "integer",
            "subject": "text",
            "canonical": "text",
            "turns_digest": "text",
            "n_turns": "integer",
            "finished": "flag",
            "cancelled": "flag",
            "decision": "text",
            "status": "text",
            "reward": "number",
            "revision": "integer",
            "seq": "integer",
            "created_at": "number",
            "body": "json",
            "turns": "json",
        },
        "demand": {
            "trajectory": "text",
            "check": "integer",
            "path": "text",
            "role": "text",
            "tier": "text",
            "state": "text",
            "reason": "text",
            "quote": "number",
            "rank": "number",
            "propensity": "number",
            "decided_at": "number",
        },
        "check": {
            "check": "integer",
            "key": "text",
            "replicate": "integer",
            "verifier": "text",
            "version": "text",
            "tier": "text",
            "external": "flag",
            "method": "text",
            "params": "json",
            "payer": "text",
            "account": "text",
            "state": "text",
            "attempt": "integer",
            "interruptions": "integer",
            "spent": "number",
            "cost": "json",
            "evidence": "json",
            "failure": "json",
            "deadline": "number",
            "created_at": "number",
            "started_at": "number",
            "ended_at": "number",
            "retraction": "json",
        },
        "attempt": {
            "check": "integer",
            "fence": "integer",
            "worker": "text",
            "host": "text",
            "version": "text",
            "libraries": "json",
            "queued_at": "number",
            "claimed_at": "number",
            "started_at": "number",
            "ended_at": "number",
            "ended_as": "text",
            "code": "text",
            "wall_s": "number",
            "cpu_s": "number",
            "peak_mb": "number",
            "credits": "number",
        },
        "review": {
            "id": "text",
            "check": "integer",
            "queue": "text",
            "state": "text",
            "approvals": "integer",
            "deadline": "number",
            "effective_at": "number",
            "created_at": "number",
            "shown": "json",
        },
        "vote": {
            "review": "text",
            "reviewer": "text",
            "verdict": "text",
            "decision": "json",
            "human_s": "number",
            "decided_at": "number",
            "effective_at": "number",
        },
        "reward": {
            "seq": "integer",
            "trajectory": "text",
            "revision": "integer",
            "status": "text",
            "tier": "text",
            "reward": "number",
            "record": "json",
        },
    }
)
