"""What the pages of the desk show: queues with counts, own items, and all that belongs to one item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from verifier_service.domain.gold import coming
from verifier_service.domain.ladders import CandidateSpec, QuantitySpec
from verifier_service.domain.ports.desk_views import Placed, QueueLoad
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.review_queues import Queue
from verifier_service.domain.reviews import Review, Vote
from verifier_service.domain.trajectories import Turn

MINE = 20  # own items, and own decisions, that are shown
MAX_BEHIND = 3  # trajectories of one item that are shown


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """The desk of one person. ``now`` is database time, by which claims and graces end."""

    loads: Sequence[QueueLoad]
    held: Sequence[Review]
    decided: Sequence[tuple[Review, Vote]]
    now: float

    @property
    def last(self) -> tuple[Review, Vote] | None:
        """The latest decision, if it can be undone."""
        return next((one for one in self.decided if undo_left(one[1], self.now) > 0), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What belongs to an item: its queue as frozen, what its candidate is, and what its agents did.
    ``disputed`` is told of blind items as well: that people differed, not who said what."""

    queue: Queue
    candidate: CandidateSpec | None
    quantity: QuantitySpec | None
    turns: Sequence[Sequence[Turn]]
    more: bool
    disputed: bool
    now: float


def undo_left(vote: Vote, now: float) -> float:
    """For how many seconds a vote can be undone."""
    return max(0.0, vote.effective_at.timestamp() - now)


def overview(tx: Transaction, project: str, reviewer: str) -> Overview:
    """Counts of every queue, declared or not, what this person holds, and what they decided last."""
    loads = {load.queue: load for load in tx.desk_views.loads(project, reviewer)}
    for queue in tx.queues.of_project(project):
        name = queue.spec.name
        load = loads.setdefault(name, QueueLoad(name, 0, 0, 0, None, more=False))
        if queue.spec.gold_share:
            loads[name] = _with_gold(tx, project, reviewer, load, queue.spec.gold_share)
    decided = tx.desk_views.decided(project, reviewer, MINE)
    return Overview(
        loads=[loads[name] for name in sorted(loads)],
        held=tx.desk_views.held(project, reviewer, MINE),
        decided=[(item, own) for item in decided if (own := own_vote(item, reviewer)) is not None],
        now=tx.now(),
    )


def latest(tx: Transaction, project: str, reviewer: str) -> tuple[Review, Vote] | None:
    """This person's latest decision, if it can be undone; nothing else of the desk is counted."""
    now = tx.now()
    for item in tx.desk_views.decided(project, reviewer, 1):
        vote = own_vote(item, reviewer)
        if vote is not None and undo_left(vote, now) > 0:
            return item, vote
    return None


def _with_gold(tx: Transaction, project: str, reviewer: str, load: QueueLoad, share: float) -> QueueLoad:
    """The counts with the gold items that this person will be given among the others."""
    secret = tx.projects.secret(project)
    taken = tx.gold.taken(project, load.queue, reviewer)
    unseen = len(tx.gold.unseen(project, load.queue, reviewer))
    open_, escalated = (
        coming(secret, load.queue, reviewer, taken=taken, share=share, unseen=unseen, others=others)
        for others in (load.fresh, load.fresh_escalated)
    )
    return load._replace(open=load.open + open_, escalated=load.escalated + escalated)


def queue_names(tx: Transaction, project: str) -> list[str]:
    """Every queue that is declared or in which anything is open."""
    declared = {queue.spec.name for queue in tx.queues.of_project(project)}
    return sorted({*declared, *tx.desk_views.queues(project)})


def own_vote(item: Review, reviewer: str) -> Vote | None:
    """This person's vote on an item."""
    return next((vote for vote in item.votes if vote.reviewer == reviewer), None)


def context(tx: Transaction, project: str, item: Review) -> Context:
    """What belongs to an item that is shown. A gold one tells of turns as any other does."""
    ladder = None if item.ladder is None else tx.ladders.latest(project, item.ladder)
    behind = tx.desk_views.behind(project, item.id, MAX_BEHIND + 1)
    pks = [one.pk for one in behind[:MAX_BEHIND]]
    bodies = tx.trajectories.bodies(pks) if pks else {}
    turns = [bodies[pk].turns for pk in pks if pk in bodies]
    return Context(
        queue=tx.queues.version(project, item.queue, item.queue_version),
        candidate=None if ladder is None else ladder.spec.candidate,
        quantity=None if ladder is None else ladder.spec.quantity,
        turns=turns or [tx.desk_views.told(project, item.id)],
        more=len(behind) > MAX_BEHIND,
        disputed=tx.reviews.get(project, item.id).disputed,
        now=tx.now(),
    )


def page(
    tx: Transaction, project: str, *, queue: str | None, state: str | None, after: int, limit: int
) -> tuple[list[Placed], bool]:
    """Items after a place, and whether there are more."""
    found = tx.desk_views.page(project, queue=queue, state=state, after=after, limit=limit + 1)
    return found[:limit], len(found) > limit
