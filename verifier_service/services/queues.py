"""Queues of the desk and their gold items: what leads set up."""

from __future__ import annotations

from verifier_service.domain.digests import canonical_json, digest
from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.gold import GoldItem, NewGold
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.review_queues import Queue, QueueSpec, require_fit
from verifier_service.domain.review_trail import Act
from verifier_service.domain.reviews import ReviewDecision

CONTENT_ID_PREFIX = "c-"


def put_queue(tx: Transaction, project: str, spec: QueueSpec, by: str) -> tuple[Queue, bool]:
    """Store a queue; a changed one is a new version for items made from now on, the same content the same
    version. And whether it is new."""
    document = canonical_json(spec.model_dump(mode="json"))
    stored, created = tx.queues.put(project, spec, digest("queue", document))
    if created:
        tx.trail.note(project, Act.QUEUE, by, queue=spec.name, detail={"version": stored.version})
    return stored, created


def add_gold(tx: Transaction, project: str, wanted: NewGold, by: str) -> tuple[GoldItem, bool]:
    """Store a known item, and whether it is new. Raises ``InvalidInput`` where what is known does not fit
    the form of its queue, ``Conflict`` for other content under the same id."""
    known = wanted.expected
    answer = ReviewDecision(
        reviewer="gold",
        verdict=known.verdict,
        reason="known",
        measurements=known.measurements,
        scores=known.scores,
        comment=None,
    )
    queue = tx.queues.latest(project, wanted.queue)
    try:
        require_fit(answer, _without_comment(queue))
    except InvalidInput as error:
        raise InvalidInput(error.code, error.message, field=f"expected.{error.field}") from error
    plain = wanted.model_dump(mode="json", exclude={"id"})
    id = wanted.id or CONTENT_ID_PREFIX + digest("gold", canonical_json(plain))
    stored, created = tx.gold.add(project, wanted, id)
    if created:
        tx.trail.note(project, Act.GOLD, by, queue=wanted.queue, detail={"added": stored.id})
    return stored, created


def retire_gold(tx: Transaction, project: str, id: str, by: str) -> GoldItem:
    """Show a known item to nobody any more (idempotent). Raises ``NotFound``."""
    if tx.gold.get(project, id).retired_at is None:
        item = tx.gold.retire(project, id)
        tx.trail.note(project, Act.GOLD, by, queue=item.queue, detail={"retired": id})
    return tx.gold.get(project, id)


def _without_comment(queue: Queue) -> Queue:
    form = queue.spec.form.model_copy(update={"comment": "optional"})
    return queue.model_copy(update={"spec": queue.spec.model_copy(update={"form": form})})
