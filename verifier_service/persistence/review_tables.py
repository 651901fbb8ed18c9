"""Tables of the desk, beside those of the first version: items, votes, queues, gold items, the trail."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    false,
    text,
)

from verifier_service.persistence.tables import PK, metadata, where_index

gold_items = Table(
    "gold_items",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False),
    Column("id", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("shown", Text, nullable=False),
    Column("expected", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("retired_at", Double),
    Index("uq_gold_items_project_id", "project", "id", unique=True),
)
GOLD_IN_USE = "retired_at IS NULL"
where_index("ix_gold_items_queue", ["project", "queue", "pk"], gold_items, GOLD_IN_USE)

reviews = Table(
    "reviews",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("project", Text, nullable=False),
    # Null for an instance of a gold item, which judges no candidate.
    Column("check_pk", BigInteger, ForeignKey("checks.pk")),
    Column("queue", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("approvals", Integer, nullable=False),
    Column("deadline", Double),
    Column("shown", Text, nullable=False),
    Column("claimed_by", Text),
    Column("claimed_until", Double),
    # When the claim began, however often it was renewed.
    Column("claimed_at", Double),
    Column("effective_at", Double),
    # Frozen when the item was made; version 0 is the plain queue.
    Column("queue_version", Integer, nullable=False, server_default=text("0")),
    Column("blind", Boolean, nullable=False, server_default=false()),
    Column("minutes", Double),
    # 0 goes before 1: what has waited too long, then the rest, each by value as its check has it.
    Column("lane", Integer, nullable=False, server_default=text("1")),
    Column("precedence", Double, nullable=False, server_default=text("0")),
    Column("escalate_at", Double),
    Column("escalated_at", Double),
    Column("disputed", Boolean, nullable=False, server_default=false()),
    Column("assigned_to", Text),
    Column("assigned_until", Double),
    Column("gold", BigInteger, ForeignKey("gold_items.pk")),
    # Of an instance of a gold item: the only person it is offered to.
    Column("dealt_to", Text),
    Column("retracted_at", Double),
    # What a vote that does not say takes, and credits per second: what votes cost, however the item ends.
    Column("typical_s", Double, nullable=False, server_default=text("0")),
    Column("second_price", Double, nullable=False, server_default=text("0")),
    Column("created_at", Double, nullable=False),
    CheckConstraint("state IN ('open', 'decided', 'effective', 'expired', 'cancelled')", name="state"),
    CheckConstraint("approvals >= 1", name="approvals"),
    CheckConstraint("state <> 'decided' OR effective_at IS NOT NULL", name="effective"),
    CheckConstraint("(check_pk IS NULL) = (gold IS NOT NULL)", name="gold"),
)
Index("ix_reviews_check", reviews.c.check_pk)
PENDING = "state IN ('decided', 'open')"
where_index("uq_reviews_check_pending", ["check_pk"], reviews, PENDING, unique=True)
OPEN = "state = 'open'"
# Lists by key, of all queues and of one, whatever the state.
Index("ix_reviews_listed", reviews.c.project, reviews.c.state, reviews.c.pk)
Index("ix_reviews_listed_of_queue", reviews.c.project, reviews.c.queue, reviews.c.state, reviews.c.pk)
# The same, by age: what reviewers see tells nothing of the order in which rows were made.
Index("ix_reviews_aged", reviews.c.project, reviews.c.state, reviews.c.created_at, reviews.c.id)
Index(
    "ix_reviews_aged_of_queue",
    *(reviews.c[name] for name in ("project", "queue", "state", "created_at", "id")),
)
CLAIMED = "claimed_by IS NOT NULL"
where_index("ix_reviews_claimed", ["project", "claimed_by", "claimed_until"], reviews, CLAIMED)
DISPUTED = "disputed"
where_index("ix_reviews_disputed", ["project", "pk"], reviews, DISPUTED)
# In the order in which they are offered, of one queue and of all.
where_index("ix_reviews_next", ["project", "queue", "lane", "precedence", "pk"], reviews, OPEN)
where_index("ix_reviews_next_of_all", ["project", "lane", "precedence", "pk"], reviews, OPEN)
ASSIGNED = "state = 'open' AND assigned_to IS NOT NULL"
where_index(
    "ix_reviews_assigned", ["project", "assigned_to", "lane", "precedence", "pk"], reviews, ASSIGNED
)
DECIDED = "state = 'decided'"
where_index("ix_reviews_due", ["effective_at"], reviews, DECIDED)
AGEING = "state = 'open' AND escalate_at IS NOT NULL AND escalated_at IS NULL"
where_index("ix_reviews_ageing", ["escalate_at"], reviews, AGEING)
ENDED = "state = 'effective'"
GOLD = "gold IS NOT NULL"
where_index("uq_reviews_gold", ["gold", "dealt_to"], reviews, GOLD, unique=True)
DEALT = "state = 'open' AND dealt_to IS NOT NULL"
where_index("ix_reviews_dealt", ["project", "dealt_to", "lane", "precedence", "pk"], reviews, DEALT)

votes = Table(
    "votes",
    metadata,
    Column("review", BigInteger, ForeignKey("reviews.pk"), primary_key=True, autoincrement=False),
    Column("reviewer", Text, primary_key=True),
    Column("verdict", Text, nullable=False),
    Column("decision", Text, nullable=False),
    Column("human_s", Double, nullable=False),
    Column("decided_at", Double, nullable=False),
    Column("effective_at", Double, nullable=False),
    CheckConstraint("verdict IN ('accept', 'reject')", name="verdict"),
    # What somebody decided, the latest first.
    Index("ix_votes_reviewer", "reviewer", "decided_at"),
)

# Who does not want to be offered an item again.
review_skips = Table(
    "review_skips",
    metadata,
    Column("review", BigInteger, ForeignKey("reviews.pk"), primary_key=True, autoincrement=False),
    Column("reviewer", Text, primary_key=True),
)

# How many items a reviewer was offered in a queue: what the draw of gold items counts by. The row of the
# queue without a name is locked by whoever claims for the reviewer, and tells that they have.
review_turns = Table(
    "review_turns",
    metadata,
    Column("project", Text, ForeignKey("projects.name"), primary_key=True),
    Column("queue", Text, primary_key=True),
    Column("reviewer", Text, primary_key=True),
    Column("taken", BigInteger, nullable=False),
)

review_queues = Table(
    "review_queues",
    metadata,
    Column("project", Text, ForeignKey("projects.name"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("created_at", Double, nullable=False),
)

# Append-only. Items go with a purged run; what people did stays, without its details.
review_events = Table(
    "review_events",
    metadata,
    Column("pk", PK, primary_key=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False),
    Column("at", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("through", Text),
    Column("queue", Text),
    Column("review", Text),
    Column("detail", Text),
    Index("ix_review_events_project", "project", "pk"),
    Index("ix_review_events_review", "review", "pk"),
    Index("ix_review_events_actor", "project", "actor", "pk"),
)
