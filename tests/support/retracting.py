"""Stories in which verifiers turn out to have been wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tests.contract.samples import alter
from tests.support.story import PLUGINS, PROJECT, Story
from tiers.catalog import VerifierCatalog
from tiers.catalog_sources import Sources
from verifier_service.domain.cases import Case
from verifier_service.domain.checks import CheckView, DemandView
from verifier_service.domain.evidence import Tier
from verifier_service.domain.retractions import NewRetraction, Retraction, RetractionAnswer, RetractionState
from verifier_service.domain.runs import Key
from verifier_service.persistence.store import SqlStore
from verifier_service.services import retract as steps
from verifier_service.worker.loop import TierWorker
from verifier_service.worker.sweep import Sweep

ADMIN = Key(
    id="k", project=PROJECT, name="ann", scopes=frozenset(), created_at=datetime(2026, 1, 1, tzinfo=UTC)
)
WRONG = "the basis set was truncated"


class Renewed(VerifierCatalog):
    """The same verifiers; those named, with another library."""

    def __init__(self, verifiers: Iterable[str], label: str) -> None:
        super().__init__(Sources(PLUGINS))
        self._libraries = {**self._libraries, **{name: {"engine": label} for name in verifiers}}


def renew(told: Story, *verifiers: str, label: str = "2") -> None:
    """From now on these verifiers are of another build."""
    told.service = replace(told.service, catalog=Renewed(verifiers, label))
    told.workers = [
        TierWorker(told.service, tier, f"embedded/test/{tier}", batch=64)
        for tier in (Tier.FAST, Tier.SIMULATION, Tier.HIGH_FIDELITY)
    ]
    told.sweep = Sweep(told.service, "embedded/test/sweep")


def spoil(told: Story, verifier: str, was: str, says: str) -> None:
    """Change what stored evidence of a verifier says, as if the verifier had been wrong."""
    store = told.service.store
    assert isinstance(store, SqlStore)
    changed = "UPDATE checks SET evidence = replace(evidence, :was, :says) WHERE verifier = :verifier"
    alter(store, changed, was=was, says=says, verifier=verifier)


def asked(project: str = PROJECT, **wanted: Any) -> NewRetraction:
    """A request; the reason is ``WRONG`` unless told otherwise."""
    return NewRetraction.model_validate({"reason": WRONG} | wanted)


def answered(told: Story, project: str = PROJECT, **wanted: Any) -> RetractionAnswer:
    """What is said to a request."""
    service, request = told.service, asked(**wanted)
    return service.unit(lambda tx: steps.asked(tx, service.catalog, project, request, ADMIN))


def begin(told: Story, project: str = PROJECT, **wanted: Any) -> Retraction:
    """Store a retraction."""
    answer = answered(told, project, **wanted)
    assert answer.retraction is not None
    return answer.retraction


def work_off(told: Story, retraction: Retraction, project: str = PROJECT) -> Retraction:
    """Nothing but the retraction goes on until it is done."""
    for _ in range(10_000):
        if not told.service.retract_step(project, retraction.id):
            break
    return found(told, retraction.id, project)


def retract(told: Story, project: str = PROJECT, **wanted: Any) -> Retraction:
    """Store a retraction and work it off."""
    done = work_off(told, begin(told, project, **wanted), project)
    assert done.state is RetractionState.DONE
    return done


def found(told: Story, id: str, project: str = PROJECT) -> Retraction:
    with told.service.store.read() as tx:
        return tx.retractions.get(project, id)


def case(told: Story, run: str, id: str) -> Case:
    with told.service.store.read() as tx:
        [one] = tx.trajectories.cases([told.standing(run, id).pk])
    return one


def demands(told: Story, run: str, id: str, path: str) -> list[DemandView]:
    """Every demand there was on one rung, the oldest first."""
    return [demand for demand in case(told, run, id).demands if demand.path == path]


def check_at(told: Story, run: str, id: str, path: str) -> CheckView:
    """The check of the latest demand on one rung."""
    check = demands(told, run, id, path)[-1].check
    assert check is not None
    return check


def spent(told: Story, *runs: str, kind: str = "compute") -> float:
    """What the runs were charged."""
    return sum(account.spent for run in runs for account in told.run(run).accounts if account.kind == kind)


def charged(told: Story) -> float:
    """What all checks say they cost."""
    store = told.service.store
    assert isinstance(store, SqlStore)
    from sqlalchemy import text

    with store.read() as tx:
        return float(
            tx._database.connection.execute(text("SELECT coalesce(sum(spent), 0) FROM checks")).scalar_one()
        )
