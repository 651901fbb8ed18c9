"""Installations with one version of a verifier and other libraries: none undoes what another was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.story import LADDER, PROJECT, Story, story_harness
from tiers.catalog import VerifierCatalog
from tiers.catalog_sources import Sources
from tiers.harness import ProcessHarness
from verifier_service.bootstrap import Service
from verifier_service.domain.cases import Case
from verifier_service.domain.evidence import Tier
from verifier_service.domain.planning import here
from verifier_service.domain.scoring import MAX_REASKED, METHOD_CHANGED
from verifier_service.domain.states import DemandState
from verifier_service.domain.trajectories import TrajectorySubmission
from verifier_service.domain.workers import Counts, nobody_runs
from verifier_service.services import maintain
from verifier_service.services.inspect_case import whole_case
from verifier_service.worker.loop import TierWorker
from verifier_service.worker.roster import Roster

GATE = "molecule.validity"


class Other(VerifierCatalog):
    """The same verifiers, on a machine whose RDKit is another."""

    def __init__(self, rdkit: str) -> None:
        super().__init__(Sources(("tests.support.measuring",)))
        self._libraries = {
            name: {library: rdkit if library == "rdkit" else found for library, found in of.items()}
            for name, of in self._libraries.items()
        }


@pytest.fixture(scope="module")
def harness() -> Iterator[ProcessHarness]:
    made = story_harness()
    yield made
    made.close()


@pytest.fixture
def told(tmp_path: Path, harness: ProcessHarness) -> Iterator[Story]:
    plain = LADDER | {"tiers": {"fast": LADDER["tiers"]["fast"]}, "truth": "fast"}
    one = Story(tmp_path, harness, None)
    one.put_ladder(plain)
    yield one
    one.close()


def elsewhere(told: Story, rdkit: str) -> Service:
    """A service with other libraries on the same database."""
    return replace(told.service, catalog=Other(rdkit))


def lives(service: Service, owner: str, *, refuses: bool = True) -> None:
    """Let a worker of the fast tier say that it lives."""
    card = Roster(service, refuses=refuses).enter(owner, Tier.FAST).card
    with service.store.begin() as tx:
        tx.workers.beat([(card, Counts())])


def case(told: Story, id: str = "t0") -> Case:
    with told.service.store.read() as tx:
        [found] = tx.trajectories.cases([told.standing("r", id).pk])
    return found


def gates(told: Story, state: DemandState) -> int:
    return sum(
        demand.state is state for n in range(20) for demand in case(told, f"t{n}").of_role("hard_gate")
    )


def queue(told: Story) -> None:
    """Twenty gates that wait: everything before them is done."""
    told.submit("r", *({"id": f"t{n}", "answer": "C" * (n + 1)} for n in range(20)))
    while gates(told, DemandState.REQUESTED) < 20:
        [taken] = [told.service.take(Tier.FAST, 64, "first")]
        before = {job: claim for job, claim in taken.claims.items() if claim.verifier != GATE}
        assert before
        kept = replace(taken, claims=before, jobs=tuple(job for job in taken.jobs if job.id in before))
        told.service.report("first", kept, list(told.service.harness().run(kept.jobs, lambda: ())))
        told.service.disown("first", {})


def test_work_goes_to_who_judges_it_as_it_was_asked(told: Story) -> None:
    other = elsewhere(told, "1999.9.1")
    queue(told)
    lives(told.service, "ours")
    lives(other, "theirs")
    assert other.take(Tier.FAST, 64, "theirs").jobs == ()
    assert other.take(Tier.FAST, 64, "theirs").jobs == ()
    assert gates(told, DemandState.WITHDRAWN) == 0
    told.until(lambda: gates(told, DemandState.SATISFIED) == 20)
    assert METHOD_CHANGED not in {demand.reason for demand in case(told).demands}


def test_a_worker_that_leaves_work_to_others_claims_its_own_instead(told: Story) -> None:
    queue(told)
    other = elsewhere(told, "1999.9.1")
    lives(told.service, "ours")
    lives(other, "theirs")
    last = {"id": "u", "ladder": "carbons", "answer": "CCO"}
    other.submit(PROJECT, "s", [TrajectorySubmission.model_validate_json(json.dumps(last))])
    taken = other.take(Tier.FAST, 5, "theirs")
    assert [claim.payer for claim in taken.claims.values()] == ["s"]


def test_workers_of_two_installations_end_all_work_without_asking_twice(told: Story) -> None:
    other = elsewhere(told, "1999.9.1")
    lives(told.service, "embedded/test/fast")
    lives(other, "theirs")
    queue(told)
    worker = TierWorker(other, Tier.FAST, "theirs", batch=16)

    def done() -> bool:
        worker.drain_once()
        return gates(told, DemandState.SATISFIED) == 20

    told.until(done)
    assert gates(told, DemandState.WITHDRAWN) == 0


def test_what_only_other_libraries_run_is_asked_again_for_them(told: Story) -> None:
    queue(told)
    other = elsewhere(told, "1999.9.1")
    lives(other, "theirs", refuses=False)
    assert other.take(Tier.FAST, 64, "theirs", only=frozenset()).jobs == ()
    told.service.mend(lambda tx: maintain.outdated(tx, told.service.catalog))
    assert gates(told, DemandState.WITHDRAWN) == 0
    with told.service.store.read() as tx:
        stuck = whole_case(tx, told.service.catalog, PROJECT, "r", "t0").stuck
    mine = here(told.service.catalog, GATE)
    assert mine is not None
    [why] = stuck.values()
    asked = mine.libraries["rdkit"]
    assert why.endswith(f"has other libraries: rdkit 1999.9.1 instead of {asked}"), why
    other.mend(lambda tx: maintain.outdated(tx, other.catalog))
    assert gates(told, DemandState.WITHDRAWN) == gates(told, DemandState.REQUESTED) == 20
    with told.service.store.read() as tx:
        workers = tx.workers.listed(Tier.FAST)
        assert [nobody_runs(kind, tier, workers) for tier, kind in tx.checks.kinds()] == [None]


def test_installations_that_do_not_know_of_each_other_stop_asking_in_turn(told: Story) -> None:
    """No card says who runs what: each asks anew under its own method, but not for ever."""
    other = elsewhere(told, "1999.9.1")
    queue(told)
    for n in range(MAX_REASKED + 1):
        assert gates(told, DemandState.REQUESTED) == 20
        assert (other, told.service)[n % 2].take(Tier.FAST, 64, "any").jobs == ()
    assert gates(told, DemandState.WITHDRAWN) == 20 * (MAX_REASKED + 1)
    assert gates(told, DemandState.REQUESTED) == 0
    latest = told.latest("r", "t0")
    assert (latest.reward, latest.status) == (None, "unscored")
    assert latest.reason is not None
    assert (latest.reason.code, latest.reason.detail) == ("infrastructure", METHOD_CHANGED)
