"""First tables

Revision 0001.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from alembic.operations import BatchOperations

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None


UNSETTLED = "status IS NULL OR status = 'provisional' OR (status = 'unscored' AND met < 4)"


def _where(
    batch: BatchOperations, name: str, columns: list[str], predicate: str, *, unique: bool = False
) -> None:
    """A partial index with the same predicate on both databases."""
    where = sa.text(predicate)
    batch.create_index(name, columns, unique=unique, sqlite_where=where, postgresql_where=where)


def upgrade() -> None:
    op.create_table(
        "counters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "projects",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_projects")),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_keys_project")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_keys")),
    )
    with op.batch_alter_table("keys", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_keys_project"), ["project"], unique=False)

    op.create_table(
        "ladders",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_ladders_project")),
        sa.PrimaryKeyConstraint("project", "name", "version", name=op.f("pk_ladders")),
    )
    op.create_table(
        "runs",
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("closed_at", sa.Double(), nullable=True),
        sa.CheckConstraint("state IN ('open', 'closing', 'closed')", name=op.f("ck_runs_state")),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_runs_project")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_runs")),
    )
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.create_index("uq_runs_project_id", ["project", "id"], unique=True)

    op.create_table(
        "accounts",
        sa.Column("run", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("credit_limit", sa.Double(), nullable=True),
        sa.Column("reserved", sa.Double(), server_default="0", nullable=False),
        sa.Column("spent", sa.Double(), server_default="0", nullable=False),
        sa.CheckConstraint("kind IN ('compute', 'human')", name=op.f("ck_accounts_kind")),
        sa.CheckConstraint(
            "credit_limit IS NULL OR reserved + spent <= credit_limit + credit_limit * 1e-12 + 1e-9",
            name=op.f("ck_accounts_covered"),
        ),
        sa.CheckConstraint("reserved >= 0", name=op.f("ck_accounts_reserved")),
        sa.CheckConstraint("spent >= 0", name=op.f("ck_accounts_spent")),
        sa.ForeignKeyConstraint(["run"], ["runs.pk"], name=op.f("fk_accounts_run")),
        sa.PrimaryKeyConstraint("run", "kind", name=op.f("pk_accounts")),
    )
    op.create_table(
        "checks",
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("verifier", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("external", sa.Boolean(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("params", sa.Text(), nullable=False),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("precedence", sa.Double(), nullable=False),
        sa.Column("deadline", sa.Double(), nullable=True),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("payer", sa.BigInteger(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("interruptions", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.Double(), nullable=True),
        sa.Column("not_before", sa.Double(), nullable=True),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("reserved", sa.Double(), nullable=False),
        sa.Column("spent", sa.Double(), nullable=False),
        sa.Column("cost", sa.Text(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.CheckConstraint("(state = 'running') = (lease_owner IS NOT NULL)", name=op.f("ck_checks_lease")),
        sa.CheckConstraint(
            "(state = 'succeeded') = (evidence IS NOT NULL)", name=op.f("ck_checks_evidence")
        ),
        sa.CheckConstraint("account IN ('compute', 'human')", name=op.f("ck_checks_account")),
        sa.CheckConstraint(
            "reserved = 0 OR state IN ('running', 'waiting_external')", name=op.f("ck_checks_reservation")
        ),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'waiting_external', 'succeeded', 'failed', 'cancelled')",
            name=op.f("ck_checks_state"),
        ),
        sa.CheckConstraint("max_attempts >= 1", name=op.f("ck_checks_max_attempts")),
        sa.CheckConstraint("reserved >= 0 AND spent >= 0", name=op.f("ck_checks_money")),
        sa.ForeignKeyConstraint(["payer"], ["runs.pk"], name=op.f("fk_checks_payer")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_checks")),
    )
    with op.batch_alter_table("checks", schema=None) as batch_op:
        _where(
            batch_op,
            "ix_checks_deadline",
            ["deadline"],
            "deadline IS NOT NULL AND state IN ('queued', 'waiting_external')",
        )
        _where(batch_op, "ix_checks_lease", ["lease_until"], "state = 'running'")
        _where(batch_op, "ix_checks_ready", ["tier", "precedence", "pk"], "state = 'queued'")
        _where(
            batch_op,
            "uq_checks_live",
            ["project", "key"],
            "state IN ('queued', 'running', 'waiting_external')",
            unique=True,
        )
        batch_op.create_index(
            "uq_checks_project_key_replicate", ["project", "key", "replicate"], unique=True
        )

    op.create_table(
        "feeds",
        sa.Column("run", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.pk"], name=op.f("fk_feeds_run")),
        sa.PrimaryKeyConstraint("run", name=op.f("pk_feeds")),
    )
    op.create_table(
        "pins",
        sa.Column("run", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ladder", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.pk"], name=op.f("fk_pins_run")),
        sa.PrimaryKeyConstraint("run", "ladder", name=op.f("pk_pins")),
    )
    op.create_table(
        "rewards",
        sa.Column("run", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("trajectory", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=True),
        sa.Column("reward", sa.Double(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "(reward IS NULL) = (status IN ('unscored', 'retracted'))", name=op.f("ck_rewards_reward")
        ),
        sa.CheckConstraint(
            "status IN ('unscored', 'provisional', 'final', 'retracted')", name=op.f("ck_rewards_status")
        ),
        sa.ForeignKeyConstraint(["run"], ["runs.pk"], name=op.f("fk_rewards_run")),
        sa.PrimaryKeyConstraint("run", "seq", name=op.f("pk_rewards")),
    )
    with op.batch_alter_table("rewards", schema=None) as batch_op:
        batch_op.create_index(
            "uq_rewards_run_trajectory_revision", ["run", "trajectory", "revision"], unique=True
        )

    op.create_table(
        "trajectories",
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("multiplicity", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=True),
        sa.Column("group_size", sa.Integer(), nullable=True),
        sa.Column("policy_version", sa.Text(), nullable=True),
        sa.Column("ladder", sa.Text(), nullable=False),
        sa.Column("ladder_version", sa.Integer(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("canonical", sa.Text(), nullable=True),
        sa.Column("identified", sa.Boolean(), nullable=False),
        sa.Column("turns_digest", sa.Text(), nullable=False),
        sa.Column("n_turns", sa.Integer(), nullable=False),
        sa.Column("finished", sa.Boolean(), nullable=False),
        sa.Column("cancelled", sa.Boolean(), nullable=False),
        sa.Column("needs_decision", sa.Boolean(), nullable=False),
        sa.Column("decided_on", sa.Integer(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=True),
        sa.Column("reward", sa.Double(), nullable=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.Column("fingerprint", sa.Text(), nullable=True),
        sa.Column("met", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "(status IS NULL AND reward IS NULL) "
            "OR (status IS NOT NULL AND (reward IS NULL) = (status IN ('unscored', 'retracted')))",
            name=op.f("ck_trajectories_reward"),
        ),
        sa.CheckConstraint(
            "status IS NULL OR status IN ('unscored', 'provisional', 'final', 'retracted')",
            name=op.f("ck_trajectories_status"),
        ),
        sa.CheckConstraint("multiplicity >= 1", name=op.f("ck_trajectories_multiplicity")),
        sa.ForeignKeyConstraint(["run"], ["runs.pk"], name=op.f("fk_trajectories_run")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_trajectories")),
    )
    with op.batch_alter_table("trajectories", schema=None) as batch_op:
        _where(batch_op, "ix_trajectories_group", ["run", "group_id"], "group_id IS NOT NULL")
        _where(batch_op, "ix_trajectories_undecided", ["run", "pk"], "needs_decision")
        _where(batch_op, "ix_trajectories_unsettled", ["run", "pk"], UNSETTLED)
        batch_op.create_index("uq_trajectories_run_id", ["run", "id"], unique=True)

    op.create_table(
        "bodies",
        sa.Column("trajectory", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("turns", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["trajectory"], ["trajectories.pk"], name=op.f("fk_bodies_trajectory")),
        sa.PrimaryKeyConstraint("trajectory", name=op.f("pk_bodies")),
    )
    op.create_table(
        "demands",
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run", sa.BigInteger(), nullable=False),
        sa.Column("trajectory", sa.BigInteger(), nullable=False),
        sa.Column("check_pk", sa.BigInteger(), nullable=True),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("quote", sa.Double(), nullable=False),
        sa.Column("rank", sa.Double(), nullable=True),
        sa.Column("propensity", sa.Double(), nullable=True),
        sa.Column("decided_at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "state IN ('held', 'requested', 'satisfied', 'withdrawn')", name=op.f("ck_demands_state")
        ),
        sa.CheckConstraint(
            "state IN ('held', 'withdrawn') OR check_pk IS NOT NULL", name=op.f("ck_demands_check")
        ),
        sa.ForeignKeyConstraint(["check_pk"], ["checks.pk"], name=op.f("fk_demands_check_pk")),
        sa.ForeignKeyConstraint(["trajectory"], ["trajectories.pk"], name=op.f("fk_demands_trajectory")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_demands")),
    )
    with op.batch_alter_table("demands", schema=None) as batch_op:
        _where(batch_op, "ix_demands_held", ["run", "rank"], "state = 'held'")
        _where(batch_op, "ix_demands_requested", ["check_pk"], "state = 'requested'")
        batch_op.create_index(batch_op.f("ix_demands_trajectory"), ["trajectory"], unique=False)
        _where(batch_op, "uq_demands_standing", ["trajectory", "path"], "state <> 'withdrawn'", unique=True)

    op.create_table(
        "reviews",
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("check_pk", sa.BigInteger(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("approvals", sa.Integer(), nullable=False),
        sa.Column("deadline", sa.Double(), nullable=True),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("claimed_until", sa.Double(), nullable=True),
        sa.Column("effective_at", sa.Double(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "state <> 'decided' OR effective_at IS NOT NULL", name=op.f("ck_reviews_effective")
        ),
        sa.CheckConstraint(
            "state IN ('open', 'decided', 'effective', 'expired', 'cancelled')",
            name=op.f("ck_reviews_state"),
        ),
        sa.CheckConstraint("approvals >= 1", name=op.f("ck_reviews_approvals")),
        sa.ForeignKeyConstraint(["check_pk"], ["checks.pk"], name=op.f("fk_reviews_check_pk")),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_reviews")),
        sa.UniqueConstraint("id", name=op.f("uq_reviews_id")),
    )
    with op.batch_alter_table("reviews", schema=None) as batch_op:
        _where(batch_op, "ix_reviews_due", ["effective_at"], "state = 'decided'")
        _where(batch_op, "ix_reviews_open", ["project", "pk"], "state = 'open'")
        _where(
            batch_op, "uq_reviews_check_pending", ["check_pk"], "state IN ('decided', 'open')", unique=True
        )

    op.create_table(
        "votes",
        sa.Column("review", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("reviewer", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("human_s", sa.Double(), nullable=False),
        sa.Column("decided_at", sa.Double(), nullable=False),
        sa.Column("effective_at", sa.Double(), nullable=False),
        sa.CheckConstraint("verdict IN ('accept', 'reject')", name=op.f("ck_votes_verdict")),
        sa.ForeignKeyConstraint(["review"], ["reviews.pk"], name=op.f("fk_votes_review")),
        sa.PrimaryKeyConstraint("review", "reviewer", name=op.f("pk_votes")),
    )


def downgrade() -> None:
    for table in (
        "votes",
        "reviews",
        "demands",
        "bodies",
        "trajectories",
        "rewards",
        "pins",
        "feeds",
        "checks",
        "accounts",
        "runs",
        "ladders",
        "keys",
        "projects",
        "counters",
    ):
        op.drop_table(table)
