"""A laboratory's file from the waiting check to the superseding record, on both databases."""

from __future__ import annotations

import csv
import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.lab import (
    GOOD,
    HEADER,
    QUANTITY,
    approved_by,
    codes,
    measured,
    requested,
    sent,
    statuses,
    versions,
    wait_at_lab,
)
from tests.support.story import Story
from verifier_service.bootstrap import lab_results as event
from verifier_service.domain.errors import Conflict, InvalidInput
from verifier_service.domain.evidence import Tier
from verifier_service.domain.lab_results import ImportState, LabImport
from verifier_service.domain.states import RewardStatus
from verifier_service.services import settle


def test_a_measurement_revises_the_reward_and_an_amendment_supersedes_it(told: Story) -> None:
    reviews = wait_at_lab(told)
    before = told.latest("r", "t0")
    done = sent(told, measured("4"), by="ann")
    assert (done.state, done.created, statuses(done)) == (ImportState.IMPORTED, True, {2: "accepted"})
    at_once = told.latest("r", "t0")
    assert (at_once.tier, at_once.status, at_once.supersedes) == (
        Tier.LAB,
        RewardStatus.PROVISIONAL,
        before.seq,
    )
    told.rest()
    first = told.latest("r", "t0")
    assert (first.tier, first.status, first.reward) == (Tier.LAB, RewardStatus.FINAL, at_once.reward)
    assert first.reward is not None
    assert first.outcome == pytest.approx(0.4, abs=0.02)

    again = sent(told, measured("8", sigma="0.2"), name="corrected.csv", by="bob")
    assert statuses(again) == {2: "amended"}
    second = told.latest("r", "t0")
    assert (second.supersedes, second.revision, second.status) == (
        first.seq,
        first.revision + 1,
        RewardStatus.FINAL,
    )
    assert second.outcome == pytest.approx(0.8, abs=0.04)

    kept = versions(told, done.values[0].check)
    assert [(one.value.version, one.value.measurements[0].value) for one in kept] == [(2, 8.0), (1, 4.0)]
    assert [(one.by, one.file, one.digest, one.key) for one in kept] == [
        ("bob", "corrected.csv", again.digest, "lab"),
        ("ann", "results.csv", done.digest, "lab"),
    ]
    assert {one.value.review for one in kept} == set(reviews.values())


def test_the_same_file_twice_is_one_import(told: Story) -> None:
    wait_at_lab(told)
    done = sent(told, measured("4"))
    record = told.latest("r", "t0")
    same = sent(told, measured("4"))
    assert same == done.model_copy(update={"created": False, "created_at": same.created_at})
    sent(told, measured("5"), id="amendment")
    assert sent(told, measured("4")).created is False
    assert versions(told, done.values[0].check)[0].value.measurements[0].value == 5.0
    assert told.latest("r", "t0").revision == record.revision + 1
    with pytest.raises(Conflict, match="something else"):
        sent(told, measured("6"), id="amendment")


def test_the_same_value_in_another_file_changes_nothing(told: Story) -> None:
    wait_at_lab(told)
    done = sent(told, measured("4"))
    record = told.latest("r", "t0")
    assert statuses(sent(told, measured("4.0"))) == {2: "unchanged"}
    assert (told.latest("r", "t0"), len(versions(told, done.values[0].check))) == (record, 1)


def test_two_at_once_are_one(told: Story) -> None:
    wait_at_lab(told, 3)
    text = HEADER + "".join(f"r,t{at},{QUANTITY},{at + 1},1,0.1\n" for at in range(3))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: sent(told, text), range(4)))
    assert sorted(one.created for one in answers) == [False, False, False, True]
    assert {statuses(one)[2] for one in answers} == {"accepted"}
    revisions = [record.revision for record in told.feed("r") if record.tier is Tier.LAB]
    assert len(revisions) == 3
    assert all(len(versions(told, value.check)) == 1 for value in answers[0].values)


def test_two_different_files_at_once_are_two_versions(told: Story) -> None:
    wait_at_lab(told)
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda value: sent(told, measured(value)), ["3", "7"]))
    assert sorted(statuses(one)[2] for one in done) == ["accepted", "amended"]
    kept = versions(told, done[0].values[0].check)
    assert [one.value.version for one in kept] == [2, 1]
    latest = told.latest("r", "t0")
    assert latest.measurements[-1].value == kept[0].value.measurements[0].value


def test_what_dies_half_way_leaves_nothing(told: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_at_lab(told, 2)
    before = told.feed("r")
    text = HEADER + "".join(f"r,t{at},{QUANTITY},4,1,0.1\n" for at in range(2))
    followed = settle.settle

    def dies(*args: Any, **kwargs: Any) -> Any:
        followed(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(event.settle, "settle", dies)
        with pytest.raises(KeyboardInterrupt):
            sent(told, text)
    assert told.feed("r") == before
    done = sent(told, text)
    assert (done.created, statuses(done)) == (True, {2: "accepted", 3: "accepted"})


def test_one_wrong_row_keeps_all_out_or_only_itself(told: Story) -> None:
    wait_at_lab(told, 2)
    text = measured("4") + f"r,t1,{QUANTITY},n/a,1,\n"
    done = sent(told, text)
    assert (done.state, done.id, statuses(done)) == (
        ImportState.REFUSED,
        None,
        {2: "accepted", 3: "refused"},
    )
    assert codes(done) == {3: [("not_a_number", "value", None)]}
    assert told.latest("r", "t0").tier is not Tier.LAB
    rows = sent(told, text, all_or_nothing=False)
    assert (rows.state, statuses(rows)) == (ImportState.IMPORTED, statuses(done))
    assert told.latest("r", "t0").tier is Tier.LAB
    assert told.latest("r", "t1").tier is not Tier.LAB


def test_a_dry_run_says_the_same_and_stores_nothing(told: Story) -> None:
    wait_at_lab(told)
    tried = sent(told, measured("4"), dry_run=True)
    assert (tried.state, tried.id, tried.created) == (ImportState.DRY_RUN, None, False)
    assert told.latest("r", "t0").tier is not Tier.LAB
    done = sent(told, measured("4"))
    assert (done.rows, done.values, done.digest) == (tried.rows, tried.values, tried.digest)


def test_the_worklist_comes_back_filled_in(told: Story) -> None:
    wait_at_lab(told, 3)
    lines = requested(told).split("\r\n")
    assert (
        lines[0]
        == "review,run,trajectory,candidate,quantity,value,unit,sigma,replicate,verdict,reason,deadline"
    )
    assert len(lines) == 5
    filled = [line.replace(f'"{QUANTITY}",,1,', f"{QUANTITY},6.5,1,0.2") for line in lines[:3]]
    done = sent(told, "\r\n".join([*filled, *lines[3:]]))
    assert statuses(done) == {2: "accepted", 3: "accepted", 4: "empty"}
    assert len(requested(told).split("\r\n")) == 3
    assert told.latest("r", "t0").outcome == pytest.approx(0.65, abs=0.02)


def test_sorted_columns_do_not_give_one_molecules_value_to_another(told: Story) -> None:
    wait_at_lab(told, 2)
    header, first, second, _ = requested(told).split("\r\n")
    swapped = [first.split(",")[0], *second.split(",")[1:]]
    done = sent(told, "\n".join([header, ",".join(swapped).replace(f'"{QUANTITY}",,', f"{QUANTITY},5,")]))
    assert codes(done) == {2: [("target_mismatch", "review", None)]}


def test_another_quantity_is_evidence_and_never_the_value(told: Story) -> None:
    wait_at_lab(told)
    before = told.latest("r", "t0")
    sent(told, "candidate;logP (1)\n" + GOOD[0] + ";4,5\n")
    after = told.latest("r", "t0")
    assert (after.outcome, after.variance) == (before.outcome, before.variance)
    assert (after.tier, Tier.LAB in after.tiers) == (before.tier, True)
    assert after.measurements[-1].quantity == "logP"


def test_a_page_of_the_worklist_is_full_whatever_stands_before_it(told: Story) -> None:
    approved_by(told, 2)
    told.submit("r2", *({"id": f"two{at}", "answer": GOOD[at + 4]} for at in range(2)))
    told.rest()
    approved_by(told, 1)
    reviews = wait_at_lab(told, 3)
    seen: list[str] = []
    while True:
        after = {"after": seen[-1]} if seen else {}
        rows = list(csv.DictReader(io.StringIO(requested(told, 1, **after), newline="")))
        if not rows:
            break
        seen += [row["review"] for row in rows]
        assert len(rows) == 1
    assert sorted(seen) == sorted(reviews.values())
    assert len(requested(told, 2).splitlines()) == 3
    assert len(requested(told, 2, after="unknown").splitlines()) == 1


def test_a_shared_check_revises_every_run_and_a_closed_one_too(told: Story) -> None:
    wait_at_lab(told)
    told.submit("q", {"id": "t0", "answer": GOOD[0]})
    told.rest()
    sent(told, measured("4"))
    told.service.close_run("default", "q")
    told.until(lambda: told.run("q").state == "closed")
    closed = told.latest("q", "t0")
    assert (closed.status, closed.tier) == (RewardStatus.FINAL, Tier.LAB)
    told.rest()
    sent(told, measured("8"))
    for run in ("r", "q"):
        latest = told.latest(run, "t0")
        assert (latest.status, latest.tier) == (RewardStatus.FINAL, Tier.LAB)
        assert latest.outcome == pytest.approx(0.8, abs=0.04)
    assert told.latest("q", "t0").supersedes == closed.seq


def test_evidence_that_was_taken_back_is_not_amended(told: Story) -> None:
    from tests.support.retracting import retract

    wait_at_lab(told)
    done = sent(told, measured("4"))
    retract(told, checks=[done.values[0].check])
    assert [code for code, _, _ in codes(sent(told, measured("5")))[2]] == ["check_not_waiting"]


def test_an_older_measurement_does_not_replace_a_newer_one(told: Story) -> None:
    wait_at_lab(told)
    dated = "run,trajectory,quantity,value,unit,measured_at\nr,t0,{quantity},{value},1,{day}\n"
    sent(told, dated.format(quantity=QUANTITY, value=4, day="2026-05-02"))
    older = sent(told, dated.format(quantity=QUANTITY, value=5, day="2026-05-01T23:00:00+00:00"))
    assert codes(older) == {2: [("older_than_stored", "measured_at", None)]}
    assert statuses(sent(told, dated.format(quantity=QUANTITY, value=5, day="2026-05-03"))) == {
        2: "amended"
    }


def test_a_purge_takes_the_values_along(told: Story) -> None:
    wait_at_lab(told)
    done = sent(told, measured("4"))
    told.service.close_run("default", "r")
    told.until(lambda: told.run("r").state == "closed")
    with told.service.store.begin() as tx:
        tx.retention.begin("default", "r")
        while tx.retention.drop_rewards("default", "r", 100) or tx.retention.drop_cases(
            "default", "r", 100
        ):
            continue
        tx.retention.finish("default", "r")
    assert versions(told, done.values[0].check) == []


def test_a_candidate_is_found_as_it_was_written_and_in_canonical_form(told: Story) -> None:
    told.submit("r", {"id": "t0", "answer": "OCCCCCCCCC"})
    told.rest()
    for text in ("OCCCCCCCCC", "CCCCCCCCCO"):
        tried = sent(told, f"smiles,{QUANTITY} [1]\n{text},4\n", dry_run=True)
        assert statuses(tried) == {2: "accepted"}
    unknown = sent(told, f"smiles,{QUANTITY} [1]\nC(CCCCCCCCC)O,4\n")
    assert codes(unknown) == {2: [("unknown_check", "candidate", None)]}


def test_one_candidate_of_two_tasks_is_ambiguous(told: Story) -> None:
    told.submit(
        "r", {"id": "a", "answer": GOOD[0]}, {"id": "b", "answer": GOOD[0], "problem": {"inputs": {"x": 1}}}
    )
    told.rest()
    done = sent(told, f"smiles,{QUANTITY} [1]\n{GOOD[0]},4\n")
    assert codes(done) == {2: [("ambiguous_candidate", "candidate", 1.0)]}


def test_a_header_that_names_no_check_is_refused(told: Story) -> None:
    with pytest.raises(InvalidInput) as refused:
        sent(told, "note,value\nx,1\n")
    assert refused.value.code == "no_target_column"


def test_plates_are_kept_for_later_imports_and_controls_give_the_noise(told: Story) -> None:
    wait_at_lab(told, 2)
    wells: list[dict[str, Any]] = [
        {"well": "A1", "run": "r", "trajectory": "t0"},
        {"well": "A2", "run": "r", "trajectory": "t0"},
        {"well": "B1", "candidate": GOOD[1]},
        *({"well": f"C{at}", "role": "negative_control"} for at in (1, 2, 3)),
        {"well": "D1", "role": "blank"},
    ]
    plate: LabImport = sent(told, plates=[{"name": "P1", "wells": wells}])
    assert (plate.state, plate.created, plate.rows) == (ImportState.IMPORTED, True, ())
    readings = [
        ("A01", 4.0),
        ("a2", 5.0),
        ("B1", 6.0),
        ("C1", 1.0),
        ("C02", 2.0),
        ("C3", 3.0),
        ("D1", 99.0),
    ]
    text = "plate;well;quantity;value;unit\n" + "".join(
        f"P1;{well};{QUANTITY};{str(value).replace('.', ',')};1\n" for well, value in readings
    )
    done = sent(told, text)
    assert list(statuses(done).values()) == ["accepted"] * 3 + ["control"] * 4
    both, single = (value.measurements[0] for value in done.values)
    # The controls scatter by 1: one reading is as uncertain, the mean of two by 1 / sqrt(2) (more than
    # the two replicates, which differ by 1, say: 0.5).
    assert (both.value, both.sigma) == (4.5, pytest.approx(2**-0.5))
    assert (single.value, single.sigma) == (6.0, pytest.approx(1.0))
    assert [value.replicates for value in done.values] == [(2,), (1,)]
    wrong = sent(
        told, f"plate,well,quantity,value,unit\nP1,J1,{QUANTITY},1,1\nP1,H12,{QUANTITY},1,1\nP2,A1,x,1,1\n"
    )
    assert codes(wrong) == {
        2: [("bad_well", "well", 96.0)],
        3: [("unknown_well", "well", None)],
        4: [("unknown_plate", "plate", None)],
    }
