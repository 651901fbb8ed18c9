"""Episodes that grow turn by turn on a real server: what each turn earns adds up to the reward."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.server import JUDGED, fresh, shared
from verifier_service.client import Client, Conflict, NotAuthenticated
from verifier_service.domain.runs import Budgets, RunSpec
from verifier_service.trainers.episodes import Episode, Task
from verifier_service.trainers.scoring import Misconfigured, Scoring

WEIGHT = 0.4
OK: dict[str, Any] = {"do": "ok"}
CHECKS = [{"use": "turns.tool_calls"}, {"use": "turns.errors"}]
STEPPED = {**JUDGED, "name": "stepped", "process": {"weight": WEIGHT, "checks": CHECKS}}


@pytest.fixture(scope="module")
def client() -> Any:
    with Client(shared().url, shared().key) as made:
        made.put_ladder("stepped", STEPPED)
        yield made


@pytest.fixture
def scoring(client: Client) -> Scoring:
    return Scoring(run=fresh(), ladder="stepped", url=shared().url, key=shared().key)


def turn(n: int, *, good: bool = True) -> dict[str, Any]:
    call = {"id": f"c{n}", "name": "f", "arguments": "{}" if good else "{"}
    seen = {"call": f"c{n}", "text": f"result {n}", "is_error": not good}
    return {"message": f"turn {n}", "calls": [call], "observations": [seen]}


def test_what_the_turns_earn_adds_up(scoring: Scoring) -> None:
    episode = Episode(scoring, Task(prompt="p"), horizon=4)
    earned = [episode.step(turn(0)), episode.step(turn(1, good=False)), episode.step(turn(2))]
    assert earned == pytest.approx([WEIGHT / 4, 0.0, WEIGHT / 4])
    ending = episode.finish(OK, {"message": "done"})
    assert ending.record is not None
    assert ending.record.process == (1.0, 0.0, 1.0, None)
    assert ending.reward == pytest.approx(1 + WEIGHT * 2 / 3)
    assert episode.paid + episode.rest() == pytest.approx(2 * WEIGHT / 4 + 1 + WEIGHT * (2 / 3 - 1 / 2))
    assert episode.paid == ending.reward


def test_an_episode_of_one_turn_is_one_submission(scoring: Scoring, client: Client) -> None:
    task = Task(
        prompt="p", reference={"a": 1}, inputs={"b": 2}, group="g", group_size=4, policy_version="7"
    )
    episode = Episode(scoring, task, horizon=1)
    assert episode.finish(OK, turn(0)).reward == pytest.approx(1 + WEIGHT)
    case = client.trajectory(scoring.run, episode.id)
    assert (case.reference, case.inputs, case.group, case.group_size) == ({"a": 1}, {"b": 2}, "g", 4)
    assert (case.policy_version, len(case.turns), case.finished) == ("7", 1, True)


def test_an_ended_episode_takes_no_more(scoring: Scoring) -> None:
    episode = Episode(scoring, Task(), horizon=1)
    with pytest.raises(ValueError, match="has no reward"):
        episode.rest()
    episode.finish({"do": "raise"})
    assert episode.ending is not None
    assert episode.ending.code == "unverifiable"
    with pytest.raises(ValueError, match="takes no more turns"):
        episode.step(turn(1))
    with pytest.raises(ValueError, match="has no reward"):
        episode.rest()
    with pytest.raises(ValueError, match="horizon"):
        Episode(scoring, Task(), horizon=0)


def test_more_turns_than_the_horizon_do_not_pay_too_much(scoring: Scoring) -> None:
    episode = Episode(scoring, Task(), horizon=1)
    for n in range(3):
        assert episode.step(turn(n)) is not None
    assert episode.paid == pytest.approx(WEIGHT)


def test_a_refused_turn_ends_the_episode_with_its_reason(scoring: Scoring) -> None:
    episode = Episode(scoring, Task(), horizon=3)
    episode.step(turn(0))
    assert episode.step({"message": 7}) is None
    assert episode.ending is not None
    assert episode.ending.code == "invalid"


def test_a_refused_task_ends_the_episode_with_its_reason(scoring: Scoring) -> None:
    for finishing in (False, True):
        episode = Episode(scoring, Task(group="not a name!"), horizon=3)
        ending = episode.finish(OK) if finishing else None
        if not finishing:
            assert episode.step(turn(0)) is None
            ending = episode.ending
        assert ending is not None
        assert (ending.code, ending.reward) == ("invalid", None)


def test_someone_else_cancels_it(scoring: Scoring, client: Client) -> None:
    episode = Episode(scoring, Task(), horizon=3)
    episode.step(turn(0))
    client.cancel(scoring.run, episode.id)
    assert episode.finish(OK).code == "conflict"


def test_an_abandoned_episode_is_cancelled_once(scoring: Scoring, client: Client) -> None:
    episode = Episode(scoring, Task(), horizon=3)
    episode.abandon()  # never begun: there is nothing to tell
    assert episode.ending is None
    episode.step(turn(0))
    episode.abandon()
    assert client.trajectory(scoring.run, episode.id).cancelled
    assert episode.ending is not None
    episode.abandon()


def test_what_only_a_person_can_mend_is_raised(scoring: Scoring, client: Client) -> None:
    with pytest.raises(NotAuthenticated):
        Episode(Scoring(run="r", ladder="stepped", url=scoring.url, key="vk_no"), Task(), horizon=2).step(
            turn(0)
        )
    unknown = Scoring(run=scoring.run, ladder="no-such-ladder", url=scoring.url, key=scoring.key)
    with pytest.raises(Misconfigured):
        Episode(unknown, Task(), horizon=2).step(turn(0))
    episode = Episode(scoring, Task(), horizon=3)
    episode.step(turn(0))
    client.close_run(scoring.run)
    with pytest.raises(Conflict):
        episode.finish(OK)


def test_a_spent_budget_and_a_service_that_is_away(scoring: Scoring, client: Client) -> None:
    client.put_run(scoring.run, RunSpec(budgets=Budgets(compute=0.0)))
    episode = Episode(scoring, Task(), horizon=3)
    new = {"do": "ok", "n": fresh()}
    assert episode.step({"message": fresh(), "calls": [{"id": "x", "name": fresh()}]}) is None
    assert episode.finish(new).code == "budget_exhausted"
    away = Scoring(run="r", ladder="stepped", url="http://127.0.0.1:9", key="vk_x", retry_s=0.1)
    episode = Episode(away, Task(), horizon=3)
    assert episode.step(turn(0)) is None
    assert episode.ending is None
    assert episode.finish(OK).code == "unreachable"
