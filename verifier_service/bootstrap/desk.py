"""Acts of the desk that change rewards, each one event: done, advanced and settled in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from verifier_service.bootstrap.steps import Step
from verifier_service.bootstrap.units import Service
from verifier_service.domain.errors import Conflict, InvalidInput, VerificationError
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.retractions import NewRetraction
from verifier_service.domain.reviews import BulkAnswer, BulkItem, RetractRequest, Review
from verifier_service.domain.runs import Key
from verifier_service.services import desk, retract
from verifier_service.services.reviewers import require_reviewer

WITHDRAWN = "review_withdrawn"


def skip(service: Service, key: Key, review: str, reviewer: str, reason: str, whom: desk.Whom) -> Review:
    """See ``services.desk.skip_review``; what is sent back is settled at once."""

    def step(tx: Transaction) -> Step[Review]:
        tx.reviews.through(key.id)
        most_held = service.settings.review_held
        done = desk.skip_review(tx, key.project, review, reviewer, reason, whom, most_held)
        return Step(done.review, done.touched)

    return service.event(step)


def withdraw(service: Service, key: Key, reviews: Sequence[str], reason: str) -> BulkAnswer:
    """Take items off the desk, unscored; each by itself, so that one that has a vote keeps no other."""

    def step(tx: Transaction) -> Step[Sequence[BulkItem]]:
        tx.reviews.through(key.id)
        touched: list[int] = []
        results: list[BulkItem] = []
        for review in reviews:
            try:
                with tx.savepoint():
                    touched += desk.take_off(
                        tx, key.project, review, by=key.acts_as, reason=reason, code=WITHDRAWN
                    )
                results.append(BulkItem(review=review, done=True))
            except VerificationError as error:
                results.append(_refused(review, error))
        return Step(results, touched)

    return _answer(service.event(step))


def reassign(
    service: Service, key: Key, reviews: Sequence[str], to: str | None, hours: float, reason: str
) -> BulkAnswer:
    """Keep items for one person, or for nobody; each by itself. All are refused for a person who may not
    review here."""

    def work(tx: Transaction) -> list[BulkItem]:
        tx.reviews.through(key.id)
        try:
            if to is not None:
                require_reviewer(tx, key.project, to, field="to")
        except InvalidInput as error:
            return [_refused(review, error) for review in reviews]
        results = []
        for review in reviews:
            try:
                tx.reviews.assign(key.project, review, to, hours, by=key.acts_as, reason=reason)
                results.append(BulkItem(review=review, done=True))
            except VerificationError as error:
                results.append(_refused(review, error))
        return results

    return _answer(service.unit(work))


def take_back(service: Service, key: Key, review: str, wanted: RetractRequest) -> Review:
    """Take an effective decision back: a retraction of its check's evidence is begun, and the sweep issues
    the records that supersede. Raises ``Conflict`` where nothing is in effect, and where it was taken back
    with other words."""

    def work(tx: Transaction) -> Review:
        tx.reviews.through(key.id)
        check = tx.reviews.take_back(key.project, review, by=key.acts_as, reason=wanted.reason)
        asked = NewRetraction(
            id=f"review-{review}", checks=(check,), reason=wanted.reason, reverify=wanted.again
        )
        try:
            retract.begin(tx, service.catalog, key.project, asked, key)
        except Conflict as error:
            raise Conflict(error.code, _taken_back(review, asked), field="reason") from error
        return tx.reviews.get(key.project, review)

    return service.unit(work)


def _taken_back(review: str, asked: NewRetraction) -> str:
    return (
        f"the decision on review {review!r} was taken back before, with another reason or another `again`;"
        f" that stands. To have people asked again: POST /v1/retractions/{asked.id}/reverify, or"
        f" `verifier retractions {asked.id} --reverify`"
    )


def _refused(review: str, error: VerificationError) -> BulkItem:
    return BulkItem(review=review, done=False, code=error.code, message=error.message)


def _answer(results: Sequence[BulkItem]) -> BulkAnswer:
    return BulkAnswer(results=tuple(results), done=sum(one.done for one in results))
