"""Results of laboratories: append-only, one import per id, one row per version."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tests.contract.samples import (
    OTHER_RUN,
    PROJECT,
    RUN,
    alter,
    check,
    claim,
    demand,
    ensure,
    evidence,
    prepare,
    together,
    trajectory,
)
from verifier_service.domain.evidence import Evidence, Measurement, Tier
from verifier_service.domain.lab_results import (
    ImportState,
    LabImport,
    LabValue,
    PlateMap,
    RowOutcome,
    RowStatus,
    Target,
)
from verifier_service.domain.reviews import ReviewDecision, ReviewState
from verifier_service.domain.runs import Key
from verifier_service.domain.states import CheckState
from verifier_service.persistence.store import SqlStore

KEY = Key(
    id="k", project=PROJECT, name="ann", scopes=frozenset(), created_at=datetime(2026, 1, 1, tzinfo=UTC)
)


@pytest.fixture(autouse=True)
def prepared(store: SqlStore) -> None:
    prepare(store, RUN, OTHER_RUN)


def done(id: str = "i", digest: str = "d") -> LabImport:
    return LabImport(
        id=id,
        digest=digest,
        state=ImportState.IMPORTED,
        created=True,
        file="a.csv",
        by="bob",
        key="ann",
        rows=(RowOutcome(line=2, status=RowStatus.ACCEPTED, review="x"),),
    )


def value(version: int = 1, number: float = 1.5, key: str = "lab") -> LabValue:
    measured = Measurement(quantity="q", value=number, unit="1", sigma=0.1)
    return LabValue(review="x", check=key, version=version, measurements=(measured,), replicates=(2,))


def lab_evidence(key: str, score: float) -> Evidence:
    return evidence(key, score).model_copy(update={"tier": Tier.LAB})


def waiting(store: SqlStore, key: str = "lab", names: tuple[str, ...] = ("t",), run: str = RUN) -> Target:
    """A check that waits on the desk for trajectories of a run."""
    ensure(store, check(key, tier=Tier.LAB, external=True), run=run)
    [one] = claim(store, tier=Tier.LAB)
    with store.begin() as tx:
        pks = tx.trajectories.insert(PROJECT, run, [trajectory(name) for name in names])
        assert tx.checks.wait_external("w", one.pk, one.fence)
        tx.demands.insert(
            [demand(pk, one.pk, path="lab/0", role="review", tier=Tier.LAB) for pk in pks.values()]
        )
        tx.reviews.open(PROJECT, one.pk, queue="q", approvals=1, deadline=None, shown=json.dumps({}))
    with store.read() as tx:
        return tx.lab_results.by_place(PROJECT, run, [names[0]])[0]


def answered(store: SqlStore, target: Target, *, import_id: str = "i") -> None:
    """A file answers the check."""
    with store.begin() as tx:
        tx.lab_results.add(PROJECT, done(import_id), KEY)
        assert tx.checks.answer({target.check: lab_evidence(target.key, 1.0)}) == {target.check}
        assert tx.reviews.close_free(PROJECT, [target.review]) == 1
        tx.demands.satisfy([target.check])
        assert tx.lab_results.keep(PROJECT, import_id, {target.check: value()}) == 1


def test_an_import_is_stored_once_under_its_id(store: SqlStore) -> None:
    with store.begin() as tx:
        assert tx.lab_results.find(PROJECT, "i") is None
        assert tx.lab_results.add(PROJECT, done(), KEY)
        assert not tx.lab_results.add(PROJECT, done(digest="other"), KEY)
    with store.read() as tx:
        found = tx.lab_results.find(PROJECT, "i")
        assert found is not None
        assert found.created_at is not None
        assert found == done().model_copy(update={"created": False, "created_at": found.created_at})
        assert tx.lab_results.find("another project", "i") is None


def test_of_many_at_once_one_is_new(store: SqlStore) -> None:
    def add(_: int) -> bool:
        with store.begin() as tx:
            return tx.lab_results.add(PROJECT, done(), KEY)

    assert sorted(together(4, add)) == [False, False, False, True]


def test_versions_are_kept_once_each_newest_first(store: SqlStore) -> None:
    target = waiting(store)
    answered(store, target)
    with store.begin() as tx:
        tx.lab_results.add(PROJECT, done("j", "e"), KEY)
        assert tx.lab_results.keep(PROJECT, "j", {target.check: value(2, 2.5)}) == 1
        assert tx.lab_results.keep(PROJECT, "j", {target.check: value(2, 3.5)}) == 0
    with store.read() as tx:
        kept = tx.lab_results.versions(PROJECT, target.key, 10)
        assert [(one.value, one.import_id, one.digest) for one in kept] == [
            (value(2, 2.5), "j", "e"),
            (value(), "i", "d"),
        ]
        assert {(one.file, one.by, one.key) for one in kept} == {("a.csv", "bob", "ann")}
        assert tx.lab_results.versions(PROJECT, target.key, 1) == kept[:1]
        assert tx.lab_results.versions("another project", target.key, 10) == []
        [latest] = tx.lab_results.by_review(PROJECT, [target.review])
        assert latest.latest == value(2, 2.5)


def test_a_check_is_found_by_every_name_until_it_has_ended_without_a_file(store: SqlStore) -> None:
    target = waiting(store, names=("t", "u"))
    other = waiting(store, "other", ("v",), OTHER_RUN)
    with store.begin() as tx:
        tx.trajectories.identify({target.pk: ("digest", "CCO"), other.pk: ("digest", "CCC")})
    with store.read() as tx:
        results = tx.lab_results
        assert {one.trajectory for one in results.by_review(PROJECT, [target.review])} == {"t", "u"}
        assert [one.check for one in results.by_place(PROJECT, RUN, ["u", "v"])] == [target.check]
        assert [one.check for one in results.by_candidate(PROJECT, ["CCO", "x"])] == [target.check]
        assert [one.trajectory for one in results.waiting(PROJECT, None, 10)] == ["t", "v"]
        assert [one.trajectory for one in results.waiting(PROJECT, "q", 1)] == ["t"]
        assert results.waiting(PROJECT, "another", 10) == []
        assert results.by_review("another project", [target.review]) == []
        assert results.known_reviews(PROJECT, [target.review, "nobody"]) == {target.review}
    answered(store, target)
    with store.begin() as tx:
        tx.reviews.close(other.check, "effective")
    with store.read() as tx:
        assert [one.check for one in tx.lab_results.waiting(PROJECT, None, 10)] == []
        assert [one.state for one in tx.lab_results.by_candidate(PROJECT, ["CCO"])] == [
            ReviewState.EFFECTIVE
        ]
        assert tx.lab_results.by_candidate(PROJECT, ["CCC"]) == []
        having = tx.lab_results.having([target.check, other.check])
        assert [(check, run) for check, run, _ in having] == [(target.check, RUN)] * 2
    alter(store, "UPDATE runs SET state = 'closed', purging_at = 1.0")
    with store.read() as tx:
        assert tx.lab_results.having([target.check]) == []


def test_an_item_that_somebody_holds_or_voted_on_is_not_closed(store: SqlStore) -> None:
    target = waiting(store)
    with store.begin() as tx:
        tx.reviews.claim(PROJECT, reviewer="ann", queue=None, review=target.review, minutes=5.0)
        assert tx.reviews.close_free(PROJECT, [target.review]) == 0
        tx.reviews.release(PROJECT, target.review, "ann")
        decision = ReviewDecision(reviewer="bob", verdict="accept")
        tx.reviews.claim(PROJECT, reviewer="bob", queue=None, review=target.review, minutes=5.0)
        tx.reviews.decide(PROJECT, target.review, decision, 60.0)
        assert tx.reviews.close_free(PROJECT, [target.review]) == 0
        tx.reviews.release(PROJECT, target.review, "bob")
        assert tx.reviews.close_free(PROJECT, [target.review]) == 1
        assert tx.reviews.close_free(PROJECT, [target.review]) == 0
    with store.read() as tx:
        assert tx.reviews.get(PROJECT, target.review).state is ReviewState.EFFECTIVE


def test_the_worklist_holds_what_a_file_of_its_sender_may_answer(store: SqlStore) -> None:
    several, held, late, own, *free = (waiting(store, f"c{at}", (f"t{at}",)) for at in range(6))
    alter(store, f"UPDATE reviews SET approvals = 2 WHERE id = '{several.review}'")
    alter(store, f"UPDATE reviews SET deadline = 1.0 WHERE id = '{late.review}'")
    with store.begin() as tx:
        tx.reviews.claim(PROJECT, reviewer="ann", queue=None, review=held.review, minutes=5.0)
        tx.trajectories.attribute({own.pk: "bob"})

    def found(person: str | None, limit: int = 99, queue: str | None = None, **more: str) -> list[Target]:
        with store.read() as tx:
            return tx.lab_results.answerable(PROJECT, queue, limit, person=person, **more)

    assert found(None) == [own, *free]
    assert found("bob") == free
    assert found("bob", 1, "q") == free[:1]
    assert found("bob", 1, after=free[0].review) == free[1:]
    assert found("bob", after=several.review) == free
    assert found("bob", after=free[1].review) == found(None, after="unknown") == found(None, 9, "x") == []
    with store.read() as tx:
        every = [own.check, *(one.check for one in free)]
        assert tx.lab_results.submitted_by(every, "bob") == {own.check}
        assert tx.lab_results.submitted_by(every, "ann") == set()
    answered(store, own)
    with store.read() as tx:
        assert tx.lab_results.submitted_by([own.check], "bob") == {own.check}, "also when it has an answer"


def test_only_what_waits_is_answered_and_what_was_reserved_comes_back(store: SqlStore) -> None:
    target = waiting(store)
    [queued] = ensure(store, check("queued", tier=Tier.LAB, external=True))
    alter(store, "UPDATE checks SET reserved = 5.0 WHERE key = 'lab'")
    alter(store, "UPDATE accounts SET reserved = 5.0 WHERE kind = 'human'")
    found = {pk: lab_evidence("lab", 1.0) for pk in (target.check, queued.pk)}
    with store.begin() as tx:
        assert tx.checks.answer(found) == {target.check}
        assert tx.checks.answer(found) == set()
        assert tx.checks.view(target.check).state is CheckState.SUCCEEDED
        human = next(one for one in tx.ledger.accounts(PROJECT, RUN) if one.kind == "human")
    assert (human.reserved, human.spent) == (0.0, 0.0)


def test_only_evidence_that_stands_is_amended(store: SqlStore) -> None:
    target = waiting(store)
    with store.begin() as tx:
        assert tx.checks.amend({target.check: lab_evidence(target.key, 0.5)}) == set()
    answered(store, target)
    with store.begin() as tx:
        before = tx.checks.view(target.check)
        assert tx.checks.amend({target.check: lab_evidence(target.key, 0.5)}) == {target.check}
        after = tx.checks.view(target.check)
    assert after.evidence is not None
    assert after.evidence.score == 0.5
    assert after._replace(evidence=None) == before._replace(evidence=None)
    alter(store, "UPDATE checks SET retraction = 1")
    with store.begin() as tx:
        assert tx.checks.amend({target.check: lab_evidence(target.key, 0.7)}) == set()


def test_evidence_of_a_machine_is_not_amended(store: SqlStore) -> None:
    [made] = ensure(store, check("fast"))
    alter(store, "UPDATE checks SET state = 'succeeded', evidence = '{}'")
    with store.begin() as tx:
        assert tx.checks.amend({made.pk: evidence("fast", 0.5)}) == set()


def test_the_latest_map_of_a_plate_counts(store: SqlStore) -> None:
    first, second = (
        PlateMap.model_validate({"name": "P", "wells": [{"well": well, "role": "blank"}]})
        for well in ("A1", "H12")
    )
    with store.begin() as tx:
        tx.lab_results.add(PROJECT, done(), KEY)
        tx.lab_results.map_plates(PROJECT, "i", [first])
        assert tx.lab_results.plates(PROJECT, ["P", "Q"]) == {"P": first}
        tx.lab_results.map_plates(PROJECT, "i", [second])
    with store.read() as tx:
        assert tx.lab_results.plates(PROJECT, ["P"]) == {"P": second}
        assert tx.lab_results.plates("another project", ["P"]) == {}
