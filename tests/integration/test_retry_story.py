"""Operators ask again for what failed, and cancel what is not wanted: what becomes of records and money."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.retracting import check_at, demands
from tests.support.story import PROJECT, Story
from verifier_service.bootstrap.operations import cancel_checks, cancel_trajectories, retry_checks
from verifier_service.domain.evidence import Tier
from verifier_service.domain.operations import ActResult, ActStatus, FailedCheck, StuckPage
from verifier_service.domain.rewards import RewardCode
from verifier_service.domain.runs import RunState
from verifier_service.domain.states import CheckState, DemandState, RewardStatus
from verifier_service.services import troubles

RUN = "r"
ROUGH_ONLY: dict[str, Any] = {
    "name": "rough",
    "candidate": {"kind": "molecule", "format": "smiles", "from": "answer"},
    "quantity": {"name": "carbons@test", "unit": "1"},
    "utility": {"kind": "linear", "zero": 0.0, "one": 10.0},
    "truth": "simulation",
    "tiers": {
        "fast": [{"use": "molecule.validity", "gate": "hard"}],
        "simulation": [{"use": "test.rough"}],
    },
}


def failed(told: Story, **only: Any) -> list[FailedCheck]:
    with told.service.store.read() as tx:
        return list(troubles.failed(tx, PROJECT, after=None, limit=100, **only).checks)


def stuck(told: Story) -> StuckPage:
    with told.service.store.read() as tx:
        return troubles.stuck(tx, told.service.catalog, PROJECT, after=None, limit=100)


def retry(told: Story, *keys: str) -> tuple[ActResult, ...]:
    return retry_checks(told.service, PROJECT, keys, "operator").results


def broken(told: Story, tmp_path: Path, *ids: str, run: str = RUN) -> Path:
    """Trajectories whose simulation fails until the file is there; all attempts are spent."""
    told.put_ladder(ROUGH_ONLY)
    file = tmp_path / "repaired"
    for number, id in enumerate(ids):
        item = {"id": id, "ladder": "rough", "answer": "C" * (number + 3)}
        told.submit(run, item | {"problem": {"inputs": {"repaired": str(file)}}})
    told.until(lambda: all(check_failed(told, run, id) for id in ids))
    return file


def check_failed(told: Story, run: str, id: str) -> bool:
    found = demands(told, run, id, "simulation/0")
    check = found[-1].check if found else None
    return check is not None and check.state is CheckState.FAILED


def test_a_dead_letter_is_asked_again_and_its_record_superseded(told: Story, tmp_path: Path) -> None:
    file = broken(told, tmp_path, "a", "b")
    before = told.latest(RUN, "a")
    assert (before.status, before.reason and before.reason.code) == (
        RewardStatus.UNSCORED,
        RewardCode.INFRASTRUCTURE,
    )
    letters = failed(told)
    assert {one.trajectory for one in letters} == {"a", "b"}
    assert all((one.attempts, one.unscored, one.trajectories) == (2, 1, 1) for one in letters)
    [mine] = [one for one in letters if one.trajectory == "a"]
    file.touch()
    [result] = retry(told, mine.key)
    assert (result.status, result.trajectories) == (ActStatus.DONE, 1)
    pending = told.latest(RUN, "a")
    assert (pending.status, pending.reason and pending.reason.code) == (
        RewardStatus.UNSCORED,
        RewardCode.PENDING,
    )
    [again] = retry(told, mine.key)
    assert again.status is ActStatus.UNCHANGED
    told.rest()
    after = told.latest(RUN, "a")
    assert (after.status, after.reward) == (RewardStatus.FINAL, 0.3)
    assert after.revision > before.revision
    old, new = demands(told, RUN, "a", "simulation/0")
    assert (old.state, old.reason, new.state) == (DemandState.WITHDRAWN, "retried", DemandState.SATISFIED)
    assert old.check is not None
    assert new.check is not None
    assert (old.check.key, old.check.state) == (new.check.key, CheckState.FAILED)
    assert [one.trajectory for one in failed(told)] == ["b"]
    assert told.latest(RUN, "b").reward is None


def test_what_fails_again_is_a_dead_letter_again(told: Story, tmp_path: Path) -> None:
    broken(told, tmp_path, "a")
    [letter] = failed(told)
    retry(told, letter.key)
    told.until(lambda: check_failed(told, RUN, "a") and told.latest(RUN, "a").reason is not None)
    told.until(lambda: [one.key for one in failed(told)] == [letter.key])
    assert told.latest(RUN, "a").reason.code == RewardCode.INFRASTRUCTURE  # type: ignore[union-attr]


def test_a_closed_run_takes_no_retry(told: Story, tmp_path: Path) -> None:
    broken(told, tmp_path, "a")
    [letter] = failed(told)
    told.service.close_run(PROJECT, RUN)
    told.until(lambda: told.run(RUN).state is RunState.CLOSED)
    assert failed(told) == []
    [shown] = failed(told, run=RUN)
    assert shown.closed
    [result] = retry(told, letter.key)
    assert (result.status, result.code) == (ActStatus.CONFLICT, "run_closed")
    assert told.latest(RUN, "a").reward is None


def test_the_open_runs_among_several_are_asked_again(told: Story, tmp_path: Path) -> None:
    file = broken(told, tmp_path, "a")
    broken(told, tmp_path, "a", run="other")
    [letter, *rest] = failed(told)
    told.service.close_run(PROJECT, RUN)
    told.until(lambda: told.run(RUN).state is RunState.CLOSED)
    file.touch()
    retry(told, letter.key, *(one.key for one in rest))
    told.rest()
    assert told.latest("other", "a").reward == 0.3
    assert told.latest(RUN, "a").reward is None


def test_the_budget_holds_for_what_is_asked_again(told: Story, tmp_path: Path) -> None:
    file = broken(told, tmp_path, "a")
    spent = sum(account.spent for account in told.run(RUN).accounts)
    told.put_run(RUN, compute=spent + 1e-9)
    [letter] = failed(told)
    file.touch()
    retry(told, letter.key)
    told.rest()
    assert told.latest(RUN, "a").reward is None
    last = demands(told, RUN, "a", "simulation/0")[-1]
    assert last.state in (DemandState.HELD, DemandState.WITHDRAWN)
    assert any(one.reason == "budget_exhausted" for one in demands(told, RUN, "a", "simulation/0"))
    assert all(
        account.limit is None or account.spent <= account.limit + 1e-9 for account in told.run(RUN).accounts
    )


def test_a_failed_gate_is_asked_again_and_the_climb_goes_on(told: Story, tmp_path: Path) -> None:
    gate = {"fast": [{"use": "test.opening", "gate": "hard"}], "simulation": [{"use": "test.rough"}]}
    told.put_ladder(ROUGH_ONLY | {"name": "gated", "tiers": gate})
    file = tmp_path / "repaired"
    item = {"id": "a", "ladder": "gated", "answer": "CCC"}
    told.submit(RUN, item | {"problem": {"inputs": {"repaired": str(file)}}})
    told.until(lambda: failed(told) != [])
    [letter] = failed(told)
    assert letter.tier is Tier.FAST
    file.touch()
    retry(told, letter.key)
    told.rest()
    assert told.latest(RUN, "a").reward == 0.3


def test_many_at_once_each_with_its_own_answer(told: Story, tmp_path: Path) -> None:
    file = broken(told, tmp_path, *(f"t{n}" for n in range(6)))
    file.touch()
    keys = [one.key for one in failed(told)]
    results = retry(told, *keys, "00ff", keys[0])
    assert [one.id for one in results] == [*keys, "00ff"]
    assert [one.status for one in results] == [*[ActStatus.DONE] * 6, ActStatus.UNKNOWN]
    told.rest()
    assert {told.latest(RUN, f"t{n}").status for n in range(6)} == {RewardStatus.FINAL}
    assert failed(told) == []


def test_a_cancelled_check_is_said_and_not_asked_again_but_by_a_retry(told: Story) -> None:
    told.put_ladder(ROUGH_ONLY)
    told.submit(RUN, {"id": "a", "ladder": "rough", "answer": "CCCC"})
    told.fast()
    told.service.decide(PROJECT, RUN)
    key = check_at(told, RUN, "a", "simulation/0").key
    [result] = cancel_checks(told.service, PROJECT, [key], "operator").results
    assert (result.status, result.trajectories) == (ActStatus.DONE, 1)
    [same] = cancel_checks(told.service, PROJECT, [key], "operator").results
    assert same.status is ActStatus.UNCHANGED
    told.rest()
    record = told.latest(RUN, "a")
    assert record.reason is not None
    assert (record.status, record.reason.code, record.reason.detail) == (
        RewardStatus.UNSCORED,
        RewardCode.CANCELLED,
        "check_cancelled",
    )
    assert check_at(told, RUN, "a", "simulation/0").state is CheckState.CANCELLED
    [result] = retry(told, key)
    assert result.status is ActStatus.DONE
    told.rest()
    assert told.latest(RUN, "a").reward == 0.4


def test_trajectories_are_cancelled_together(told: Story) -> None:
    told.put_ladder(ROUGH_ONLY)
    for id in ("a", "b"):
        told.submit(RUN, {"id": id, "ladder": "rough", "answer": "CCCC"})
    ids = ["a", "b", "nobody"]
    first = cancel_trajectories(told.service, PROJECT, RUN, ids).results
    assert [one.status for one in first] == [ActStatus.DONE, ActStatus.DONE, ActStatus.UNKNOWN]
    again = cancel_trajectories(told.service, PROJECT, RUN, ids).results
    assert [one.status for one in again] == [ActStatus.UNCHANGED, ActStatus.UNCHANGED, ActStatus.UNKNOWN]
    told.rest()
    assert told.latest(RUN, "b").reason.code == RewardCode.CANCELLED  # type: ignore[union-attr]


def test_what_nobody_runs_is_stuck_and_says_why(told: Story) -> None:
    told.put_ladder(ROUGH_ONLY)
    told.submit(RUN, {"id": "a", "ladder": "rough", "answer": "CCCC"})
    told.fast()
    told.service.decide(PROJECT, RUN)
    page = stuck(told)
    [one] = [check for check in page.checks if check.verifier == "test.rough"]
    assert (one.run, one.trajectory, one.trajectory_run) == (RUN, "a", RUN)
    assert one.reason == "no worker of tier simulation is alive"
    assert [(kind.verifier, kind.checks) for kind in page.kinds if kind.verifier == "test.rough"] == [
        ("test.rough", 1)
    ]
