"""Results of a laboratory as one event: stored, advanced and settled in one transaction."""

from __future__ import annotations

from verifier_service.bootstrap.steps import Followed, Step
from verifier_service.bootstrap.units import Service
from verifier_service.domain.lab_results import LabImport, NewLabResults
from verifier_service.domain.lab_senders import Sender
from verifier_service.domain.lab_sheets import Sheet
from verifier_service.domain.ports.store import Transaction
from verifier_service.services import settle
from verifier_service.services.lab_results import Imported, import_results


def import_lab_results(
    service: Service, wanted: NewLabResults, sheet: Sheet | None, sender: Sender
) -> LabImport:
    """Import results into the sender's project, and issue the records that follow. A dry run only reads.

    Raises as ``services.lab_results.import_results``.
    """

    def imported(tx: Transaction) -> Imported:
        return import_results(tx, service.catalog, wanted, sheet, sender)

    if wanted.dry_run:
        with service.store.read() as tx:
            return imported(tx).answer

    def event(tx: Transaction) -> tuple[LabImport, Followed]:
        tx.reviews.through(sender.key.id)
        done = imported(tx)
        followed = service.follow(tx, Step(None, done.answered))
        settle.settle(tx, service.beliefs, (*done.open, *done.draining), correcting=True)
        settle.settle(tx, service.beliefs, done.closed, closing=True, correcting=True)
        amended = (*done.open, *done.draining, *done.closed)
        places = {(case.standing.project, case.standing.run) for case in amended}
        return done.answer, followed._replace(told=followed.told | places)

    answer, followed = service.unit(event)
    service.announce(followed)
    return answer
