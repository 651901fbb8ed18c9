"""The tables. Times are database epoch seconds, documents are JSON text that the stores serialise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    false,
    text,
)

from verifier_service.domain.states import (
    LIVE_CHECKS,
    CheckState,
    DemandState,
    RewardStatus,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite numbers rows by itself only for a key declared INTEGER.
PK = BigInteger().with_variant(Integer(), "sqlite")
_STORED_STATUSES = [status for status in RewardStatus if status is not RewardStatus.OTHER]
_NULL_WHEN_SILENT = "(reward IS NULL) = (status IN ('unscored', 'retracted'))"


def listed(values: object) -> str:
    """SQL list of string literals, in a fixed order."""
    return ", ".join(f"'{value}'" for value in values)  # type: ignore[attr-defined]


def where_index(
    name: str,
    columns: Sequence[str | ColumnElement[Any]],
    table: Table,
    predicate: str,
    *,
    unique: bool = False,
) -> Index:
    """A partial index with the same predicate on both databases."""
    where = text(predicate)
    parts = [table.c[one] if isinstance(one, str) else one for one in columns]
    return Index(name, *parts, unique=unique, sqlite_where=where, postgresql_where=where)


projects = Table(
    "projects",
    metadata,
    Column("name", Text, primary_key=True),
    Column("secret", Text, nullable=False),
    Column("created_at", Double, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False, index=True),
    Column("secret_hash", Text, nullable=False),
    Column("body", Text, nullable=False),
    # The login of the person for whom it was made: who reviews and submits through it.
    Column("owner", Text),
    Column("created_at", Double, nullable=False),
    Column("revoked_at", Double),
)

ladders = Table(
    "ladders",
    metadata,
    Column("project", Text, ForeignKey("projects.name"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("created_at", Double, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False),
    Column("id", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("seed", BigInteger, nullable=False),
    # What the policy noted for its next decision.
    Column("pacing", Text),
    Column("created_at", Double, nullable=False),
    Column("closed_at", Double),
    # Of closed runs: since when they are emptied, and when nothing but this row was left.
    Column("purging_at", Double),
    Column("purged_at", Double),
    Index("uq_runs_project_id", "project", "id", unique=True),
    CheckConstraint("state IN ('open', 'closing', 'closed')", name="state"),
)
PURGING = "purging_at IS NOT NULL AND purged_at IS NULL"
where_index("ix_runs_purging", ["pk"], runs, PURGING)

# The feed's counter has its own row so that handing out a seq never waits for the policy's run lock.
feeds = Table(
    "feeds",
    metadata,
    Column("run", BigInteger, ForeignKey("runs.pk"), primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False, server_default="0"),
)

pins = Table(
    "pins",
    metadata,
    Column("run", BigInteger, ForeignKey("runs.pk"), primary_key=True, autoincrement=False),
    Column("ladder", Text, primary_key=True),
    Column("version", Integer, nullable=False),
)

accounts = Table(
    "accounts",
    metadata,
    Column("run", BigInteger, ForeignKey("runs.pk"), primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),
    Column("credit_limit", Double),
    Column("reserved", Double, nullable=False, server_default="0"),
    Column("spent", Double, nullable=False, server_default="0"),
    CheckConstraint("kind IN ('compute', 'human')", name="kind"),
    CheckConstraint("reserved >= 0", name="reserved"),
    CheckConstraint("spent >= 0", name="spent"),
    # Doubles near a large limit are further apart than 1e-9, hence the relative part.
    CheckConstraint(
        "credit_limit IS NULL OR reserved + spent <= credit_limit + credit_limit * 1e-12 + 1e-9",
        name="covered",
    ),
)

trajectories = Table(
    "trajectories",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("run", BigInteger, ForeignKey("runs.pk"), nullable=False),
    Column("id", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("multiplicity", Integer, nullable=False),
    Column("group_id", Text),
    Column("group_size", Integer),
    Column("policy_version", Text),
    Column("ladder", Text, nullable=False),
    Column("ladder_version", Integer, nullable=False),
    Column("subject", Text, nullable=False),
    Column("canonical", Text),
    Column("identified", Boolean, nullable=False),
    Column("turns_digest", Text, nullable=False),
    Column("n_turns", Integer, nullable=False),
    Column("finished", Boolean, nullable=False),
    Column("cancelled", Boolean, nullable=False),
    Column("needs_decision", Boolean, nullable=False),
    Column("decided_on", Integer, nullable=False),
    Column("decision", Text),
    # Drawn once, when the policy first looks; and the outcome believed in when the truth was asked for.
    Column("propensity", Double),
    Column("audited", Boolean, nullable=False, server_default=false()),
    Column("predicted", Double),
    Column("status", Text),
    Column("reward", Double),
    Column("outcome", Double),
    Column("variance", Double),
    Column("revision", Integer, nullable=False),
    Column("seq", BigInteger),
    Column("fingerprint", Text),
    Column("met", Integer, nullable=False),
    # The owner of the key it was submitted with, who may not judge it.
    Column("submitter", Text),
    Column("created_at", Double, nullable=False),
    # When a trajectory that came in parts was finished.
    Column("registered_at", Double),
    Index("uq_trajectories_run_id", "run", "id", unique=True),
    CheckConstraint("multiplicity >= 1", name="multiplicity"),
    CheckConstraint(f"status IS NULL OR status IN ({listed(_STORED_STATUSES)})", name="status"),
    CheckConstraint(
        f"(status IS NULL AND reward IS NULL) OR (status IS NOT NULL AND {_NULL_WHEN_SILENT})",
        name="reward",
    ),
)
# Byte by byte, so that a prefix is a range whatever the database's collation.
_GROUPED = text("group_id IS NOT NULL")
Index(
    "ix_trajectories_group",
    trajectories.c.run,
    trajectories.c.group_id,
    sqlite_where=_GROUPED,
    postgresql_where=_GROUPED,
    postgresql_ops={"group_id": "text_pattern_ops"},
)
# Lists, newest first: of one status, and of all by merging the newest of each.
Index("ix_trajectories_listed", trajectories.c.run, trajectories.c.status, trajectories.c.pk)
UNDECIDED = "needs_decision"
where_index("ix_trajectories_undecided", ["run", "pk"], trajectories, UNDECIDED)
UNSETTLED = "status IS NULL OR status = 'provisional' OR (status IN ('unscored', 'retracted') AND met < 4)"
where_index("ix_trajectories_unsettled", ["run", "pk"], trajectories, UNSETTLED)

# Apart from the row that changes with every step of the climb, so that a step never rewrites the text.
bodies = Table(
    "bodies",
    metadata,
    Column("trajectory", BigInteger, ForeignKey("trajectories.pk"), primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("turns", Text, nullable=False),
)

checks = Table(
    "checks",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("project", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("replicate", Integer, nullable=False),
    Column("verifier", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("external", Boolean, nullable=False),
    Column("method", Text, nullable=False),
    Column("params", Text, nullable=False),
    Column("item", Text, nullable=False),
    # Minus the priority, so that one ascending index lists the best and oldest first.
    Column("precedence", Double, nullable=False),
    Column("deadline", Double),
    Column("max_attempts", Integer, nullable=False),
    Column("payer", BigInteger, ForeignKey("runs.pk"), nullable=False),
    Column("account", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("state", Text, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("interruptions", Integer, nullable=False),
    Column("lease_owner", Text),
    Column("lease_until", Double),
    Column("not_before", Double),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("reserved", Double, nullable=False),
    Column("spent", Double, nullable=False),
    Column("cost", Text),
    Column("evidence", Text),
    Column("failure", Text),
    # When it was requeued last; null: it never was, and has been queued since it was made.
    Column("queued_at", Double),
    # By which retraction its evidence was taken back: from then on nobody is given it.
    Column("retraction", BigInteger),
    Index("uq_checks_project_key_replicate", "project", "key", "replicate", unique=True),
    CheckConstraint(f"state IN ({listed(CheckState)})", name="state"),
    CheckConstraint("account IN ('compute', 'human')", name="account"),
    CheckConstraint("reserved >= 0 AND spent >= 0", name="money"),
    CheckConstraint("reserved = 0 OR state IN ('running', 'waiting_external')", name="reservation"),
    CheckConstraint("(state = 'running') = (lease_owner IS NOT NULL)", name="lease"),
    CheckConstraint("(state = 'succeeded') = (evidence IS NOT NULL)", name="evidence"),
    CheckConstraint("max_attempts >= 1", name="max_attempts"),
)
LIVE = f"state IN ({listed(sorted(LIVE_CHECKS))})"
where_index("uq_checks_live", ["project", "key"], checks, LIVE, unique=True)
QUEUED = "state = 'queued'"
# What has to wait for a time is apart, and becomes ready when it is due: no claim walks over it.
READY = f"{QUEUED} AND not_before IS NULL"
where_index("ix_checks_ready", ["tier", "precedence", "pk"], checks, READY)
# For workers that run some verifiers of a tier: what only others run must not be in their way.
where_index("ix_checks_ready_kind", ["tier", "verifier", "version", "precedence", "pk"], checks, READY)
DELAYED = f"{QUEUED} AND not_before IS NOT NULL"
where_index("ix_checks_delayed", ["tier", "not_before"], checks, DELAYED)
# How much a run waits for, however much others do.
where_index("ix_checks_payer", ["payer", "tier"], checks, QUEUED)
RUNNING = "state = 'running'"
where_index("ix_checks_lease", ["lease_until"], checks, RUNNING)
# What needs an operator, the latest first.
FAILED = "state = 'failed'"
where_index("ix_checks_failed", ["project", "pk"], checks, FAILED)
LABELS = "state = 'succeeded' AND tier <> 'fast'"
where_index("ix_checks_labels", ["ended_at"], checks, LABELS)
# What a retraction may concern, and what it took back.
EVIDENCE = "state = 'succeeded' AND retraction IS NULL"
where_index("ix_checks_evidence", ["project", "verifier", "pk", "version"], checks, EVIDENCE)
RETRACTED = "retraction IS NOT NULL"
where_index("ix_checks_retraction", ["retraction", "pk"], checks, RETRACTED)
DUE = "deadline IS NOT NULL AND state IN ('queued', 'waiting_external')"
where_index("ix_checks_deadline", ["deadline"], checks, DUE)

demands = Table(
    "demands",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("run", BigInteger, nullable=False),
    Column("trajectory", BigInteger, ForeignKey("trajectories.pk"), nullable=False, index=True),
    Column("check_pk", BigInteger, ForeignKey("checks.pk")),
    Column("path", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("quote", Double, nullable=False),
    Column("rank", Double),
    Column("propensity", Double),
    Column("decided_at", Double, nullable=False),
    CheckConstraint(f"state IN ({listed(DemandState)})", name="state"),
    CheckConstraint("state IN ('held', 'withdrawn') OR check_pk IS NOT NULL", name="check"),
)
STANDING = "state <> 'withdrawn'"
where_index("uq_demands_standing", ["trajectory", "path"], demands, STANDING, unique=True)
REQUESTED = "state = 'requested'"
where_index("ix_demands_requested", ["check_pk"], demands, REQUESTED)
# Whether a check is cited at all: what a purge asks of every check, and the foreign key of every deletion.
# With the state, so that SQLite, which prefers it, finds the requested among very many others.
where_index("ix_demands_check", ["check_pk", "state"], demands, "check_pk IS NOT NULL")
HELD = "state = 'held'"
# What a model is fitted to, the latest first.
BOUGHT = "state = 'satisfied' AND tier <> 'fast'"
where_index("ix_demands_bought", ["pk"], demands, BOUGHT)
# From the best: equal ranks, which are the rule, are not sorted.
where_index("ix_demands_held", ["run", demands.c.rank.desc(), "trajectory"], demands, HELD)

rewards = Table(
    "rewards",
    metadata,
    Column("run", BigInteger, ForeignKey("runs.pk"), primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("trajectory", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("tier", Text),
    Column("reward", Double),
    Column("body", Text, nullable=False),
    Index("uq_rewards_run_trajectory_revision", "run", "trajectory", "revision", unique=True),
    CheckConstraint(f"status IN ({listed(_STORED_STATUSES)})", name="status"),
    CheckConstraint(_NULL_WHEN_SILENT, name="reward"),
)

counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
