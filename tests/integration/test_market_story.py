"""Forecasts of events, from the registration to the superseding record, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.contract.samples import alter
from tests.support.lab import codes, sent, statuses, waiting
from tests.support.markets import HEADER, SHUT, event, forecast, settle, trail, why
from tests.support.retracting import retract
from tests.support.server import patience
from tests.support.story import PROJECT, Story
from verifier_service.bootstrap import settlements as events
from verifier_service.domain.evidence import Tier
from verifier_service.domain.rewards import RewardCode
from verifier_service.domain.settlements import SettlementState
from verifier_service.domain.states import RewardStatus
from verifier_service.services import settle as issuing
from verifier_service.services import settlements as steps


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat()


def wait(told: Story, *items: dict[str, Any], run: str = "r") -> None:
    told.submit(run, *items)
    told.rest()
    for item in items:
        assert told.latest(run, item["id"]).status is RewardStatus.UNSCORED


def test_one_actual_settles_every_forecast_of_an_event(told: Story) -> None:
    wait(told, forecast("a", 0.8), forecast("b", 0.3), forecast("other", 0.8, id="snow"))
    wait(told, forecast("a", 0.8), forecast("c", 1.0), run="q")
    assert waiting(told) == []  # nobody's desk has them
    done = settle(told, "yes")
    assert statuses(done) == {2: "accepted"}
    for run, name, expected in (("r", "a", 0.96), ("r", "b", 0.51), ("q", "a", 0.96), ("q", "c", 1.0)):
        record = told.latest(run, name)
        assert (record.status, record.tier) == (RewardStatus.FINAL, Tier.LAB)
        assert record.reward == pytest.approx(expected)
    assert told.latest("r", "other").status is RewardStatus.UNSCORED
    [settlement] = trail(told)
    assert (settlement.event, settlement.version, settlement.actual) == ("rain", 1, "yes")
    assert (settlement.source, settlement.import_id, settlement.by) == ("import", done.id, "lab")


def test_an_amendment_supersedes_in_open_and_closed_runs(told: Story) -> None:
    wait(told, forecast("a", 0.8))
    wait(told, forecast("a", 0.8), run="q")
    settle(told, "yes")
    told.service.close_run(PROJECT, "q")
    told.until(lambda: told.run("q").state == "closed")
    before = {run: told.latest(run, "a") for run in ("r", "q")}
    assert statuses(settle(told, "no")) == {2: "amended"}
    for run, first in before.items():
        second = told.latest(run, "a")
        assert (second.supersedes, second.status) == (first.seq, RewardStatus.FINAL)
        assert second.reward == pytest.approx(0.36)
    assert statuses(settle(told, "no", id="again")) == {2: "unchanged"}
    assert [one.version for one in trail(told)] == [1, 2]


def test_a_void_event_gives_null_and_an_actual_after_all_a_reward(told: Story) -> None:
    wait(told, forecast("a", 0.8))
    assert statuses(settle(told, "", state="void")) == {2: "accepted"}
    record = told.latest("r", "a")
    assert why(record) == (None, "event_void")
    assert record.reason is not None
    assert (record.reason.code, record.reason.retryable) == (RewardCode.UNVERIFIABLE, False)
    settle(told, "1")
    assert told.latest("r", "a").reward == pytest.approx(0.96)
    settle(told, "", state="void", id="void-after-all")
    assert why(told.latest("r", "a")) == (None, "event_void")
    assert [one.state for one in trail(told)] == [
        SettlementState.VOID,
        SettlementState.SETTLED,
        SettlementState.VOID,
    ]


def test_a_late_forecast_gets_nothing_from_the_same_one_in_time(told: Story) -> None:
    """The close and the actual are known to the store; the check is shared."""
    wait(told, forecast("early", 0.8))
    settle(told, "yes")
    assert told.latest("r", "early").reward == pytest.approx(0.96)
    told.submit("r", forecast("late", 0.8))
    told.submit("q", forecast("late", 0.8))
    told.rest()
    for run in ("r", "q"):
        record = told.latest(run, "late")
        assert why(record) == (None, "registered_late")
        assert record.evidence == () or Tier.LAB not in record.tiers
    settle(told, "no")
    assert told.latest("r", "early").reward == pytest.approx(0.36)
    assert why(told.latest("r", "late")) == (None, "registered_late")


def test_a_forecast_after_the_close_waits_for_nothing(told: Story) -> None:
    told.submit("r", forecast("late", 0.8, close=SHUT))
    told.rest()
    record = told.latest("r", "late")
    assert why(record) == (None, "registered_late")
    assert record.reason is not None
    assert (record.reason.code, record.reason.retryable) == (RewardCode.UNVERIFIABLE, False)
    settle(told, "yes")
    assert why(told.latest("r", "late")) == (None, "registered_late")


def test_the_close_passes_between_two_trajectories_with_one_forecast(told: Story) -> None:
    with told.service.store.read() as tx:
        shuts = tx.now() + patience(4.0)
    close = moment(shuts)
    wait(told, forecast("early", 0.8, close=close))
    told.submit("r", {**forecast("grown", 0.8, close=close), "answer": None, "finished": False})

    def closed() -> bool:
        with told.service.store.read() as tx:
            return tx.now() > shuts

    told.until(closed, patience(60.0))
    told.submit("q", forecast("late", 0.8, close=close))
    answer = forecast("grown")["answer"]
    told.service.grow(PROJECT, "r", "grown", index=0, turns=(), answer=answer, finished=True)
    told.rest()
    settle(told, "yes")
    assert told.latest("r", "early").reward == pytest.approx(0.96)
    assert why(told.latest("q", "late")) == (None, "registered_late")
    assert why(told.latest("r", "grown")) == (None, "registered_late")


def test_a_settlement_between_two_looks_at_a_waiting_forecast(told: Story) -> None:
    """Accepted before the actual was known, decided after: it counts, and at once."""
    told.submit("r", forecast("a", 0.8))
    sent(told, f"{HEADER}rain,yes,\n")
    told.rest()
    assert told.latest("r", "a").reward == pytest.approx(0.96)


def test_numbers_and_outcomes_are_scored_by_their_rules(told: Story) -> None:
    number = event("gdp", "numeric", low=0.0, high=10.0)
    cup = event("cup", "categorical", outcomes=["A", "B", "C"])
    answers: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "point": (number, {"event": "gdp", "value": 3.0}),
        "normal": (number, {"event": "gdp", "value": 4.0, "sigma": 1.0}),
        "quantiles": (number, {"event": "gdp", "quantiles": {"0.1": 2, "0.5": 3.0, "0.9": 5}}),
        "cup": (cup, {"event": "cup", "probabilities": {"A": 0.5, "B": 0.25, "C": 0.25}}),
    }
    items = [
        {"id": name, "ladder": "forecast", "problem": {"inputs": {"event": asked}}, "answer": answer}
        for name, (asked, answer) in answers.items()
    ]
    wait(told, *items)
    done = sent(told, "event;actual\ngdp;4,5\ncup;A\n")
    assert statuses(done) == {2: "accepted", 3: "accepted"}
    told.rest()
    assert told.latest("r", "point").reward == pytest.approx(0.85)
    assert 0.9 < (told.latest("r", "normal").reward or 0.0) < 1.0
    assert 0.8 < (told.latest("r", "quantiles").reward or 0.0) < 1.0
    assert told.latest("r", "cup").reward == pytest.approx(1 - 0.5 * (0.25 + 2 * 0.0625))


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"event": "rain", "probability": 1.2}, "not_a_probability"),
        ({"event": "snow", "probability": 0.2}, "unknown_event"),
        ("rain: 80 %", "not_json"),
        (None, "empty_answer"),
    ],
)
def test_what_is_no_forecast_is_rejected_at_once(told: Story, answer: Any, code: str) -> None:
    told.submit("r", {**forecast("a"), "answer": answer})
    told.rest()
    record = told.latest("r", "a")
    assert (why(record), record.status) == ((0.0, code), RewardStatus.FINAL)


def test_a_task_without_an_event_is_nobodys_fault(told: Story) -> None:
    told.submit("r", {**forecast("a"), "problem": {"inputs": {"event": {"id": "rain"}}}})
    told.rest()
    record = told.latest("r", "a")
    assert record.reward is None
    assert record.reason is not None
    assert (record.reason.code, record.reason.detail) == (RewardCode.TASK_ERROR, "bad_event")


@pytest.mark.parametrize("horizon", [True, False])
def test_without_an_actual_by_the_horizon_there_is_no_reward(told: Story, horizon: bool) -> None:
    """The horizon of the task, or the deadline of the ladder, whichever comes first."""
    with told.service.store.read() as tx:
        now = tx.now()
    soon = patience(3.0)
    times = {"close": moment(now + soon), "settles_by": moment(now + soon + 1.0)} if horizon else {}
    document = {
        "name": "unguarded",
        "candidate": {"kind": "forecast", "format": "json", "from": "answer"},
        "outcome": {"use": "market.settlement"},
        "truth": "lab",
        "tiers": {"lab": [{"use": "market.settlement"}]},
        "deadline_s": 3_600.0 if horizon else 2.0,
    }
    told.put_ladder(document)
    told.submit("r", {**forecast("a", **times), "ladder": "unguarded"})
    told.rest()
    told.until(lambda: why(told.latest("r", "a"))[1] == "deadline", patience(60.0))
    assert told.latest("r", "a").reward is None
    settle(told, "yes")
    assert told.latest("r", "a").reward is None


def test_rows_that_say_nothing_of_an_event_are_refused(told: Story) -> None:
    wait(told, forecast("a"))
    done = sent(
        told,
        "event,actual,event_state,candidate\n"
        "rain,perhaps,,\nrain,yes,void,\nrain,,settled,\nrain,yes,open,\nrain,yes,,C\n../x,yes,,\n"
        "snow,yes,,\nsnow,no,,\nhail,,,\n,yes,,\nhail,,,C\n=1+1,yes,,\nfog,=A1,,\n",
    )
    found = {line: errors[0][0] for line, errors in codes(done).items()}
    assert found == {
        2: "actual_mismatch",
        3: "void_with_actual",
        4: "missing_value",
        5: "not_one_of",
        6: "two_targets",
        7: "bad_format",
        9: "duplicate_row",
        11: "missing_field",
        12: "two_targets",
        13: "formula",
        14: "formula",
    }
    assert trail(told) == []
    assert statuses(done)[10] == "empty"


def test_a_dry_run_and_a_death_half_way_settle_nothing(
    told: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait(told, forecast("a", 0.8), forecast("b", 0.3))
    sent(told, f"{HEADER}rain,yes,\n", dry_run=True)
    told.rest()
    assert trail(told) == []
    sent(told, f"{HEADER}rain,yes,\n")
    told.sweep._slow_due = 1e18  # the sweep dies before it tells anybody
    [due] = _due(told)
    followed = issuing.settle

    def dies(*args: Any, **kwargs: Any) -> Any:
        followed(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(events.settle, "settle", dies)
        with pytest.raises(KeyboardInterrupt):
            events.tell(told.service, due)
    assert told.latest("r", "a").reward is None
    assert _due(told) == [due]
    told.rest()
    assert told.latest("r", "a").reward == pytest.approx(0.96)
    issued = [one.status for one in told.feed("r") if one.trajectory == "a" and one.reward is not None]
    assert issued == [RewardStatus.PROVISIONAL, RewardStatus.FINAL]
    assert _due(told) == []


def _due(told: Story) -> list[Any]:
    with told.service.store.read() as tx:
        return tx.settlements.due(10)


def test_what_was_taken_back_is_asked_again_and_settles_again(told: Story) -> None:
    wait(told, forecast("a", 0.8))
    settle(told, "yes")
    retract(told, verifier="market.settlement", reverify=True)
    told.rest()
    record = told.latest("r", "a")
    assert (record.status, record.reward) == (RewardStatus.FINAL, pytest.approx(0.96))
    settle(told, "no")
    assert told.latest("r", "a").reward == pytest.approx(0.36)


def test_many_are_told_in_steps(told: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [forecast(f"t{at}", at / 10) for at in range(8)]
    wait(told, *items)
    wait(told, *items, run="q")
    told.sweep._slow_due = 1e18
    sent(told, f"{HEADER}rain,yes,\n")
    [due] = _due(told)
    monkeypatch.setattr(steps, "TRAJECTORIES_AT_ONCE", 5)
    taken = [events.tell(told.service, due) for _ in range(5)]
    assert taken == [True, True, True, True, False]
    told.rest()
    for run in ("r", "q"):
        assert told.latest(run, "t3").reward == pytest.approx(1 - 0.7**2)


def test_a_run_that_closes_waits_no_longer(told: Story) -> None:
    wait(told, forecast("a", 0.8))
    told.service.close_run(PROJECT, "r")
    told.until(lambda: told.run("r").state == "closed")
    assert why(told.latest("r", "a")) == (None, "run_closed")
    settle(told, "yes")
    assert why(told.latest("r", "a")) == (None, "run_closed")
    assert _due(told) == []


def test_one_item_that_cannot_be_judged_keeps_nothing_from_the_others(told: Story) -> None:
    wait(told, forecast("a", 0.8), forecast("b", 0.3))
    alter(told.service.store, "UPDATE checks SET item = '{' WHERE item LIKE '%0.3%' AND external")
    settle(told, "yes")
    assert told.latest("r", "a").reward == pytest.approx(0.96)
    assert why(told.latest("r", "b")) == (None, "verifier_error")


def test_a_run_with_a_budget_asks_as_well(told: Story) -> None:
    """What waits for an event costs nothing."""
    told.put_run("r", compute=1.0, human=0.0, audit_share=0.5)
    wait(told, *(forecast(f"t{at}", at / 10) for at in range(6)))
    settle(told, "yes")
    assert [told.latest("r", f"t{at}").status for at in range(6)] == [RewardStatus.FINAL] * 6


def test_who_asked_before_the_actual_was_seen_and_is_late_is_given_none(told: Story) -> None:
    """A demand that stands although its trajectory came after the actual loses it when checks are told."""
    wait(told, forecast("a", 0.8), forecast("b", 0.8))
    told.sweep._slow_due = 1e18
    sent(told, f"{HEADER}rain,yes,\n")
    alter(told.service.store, "UPDATE trajectories SET registered_at = 9e9 WHERE id = 'b'")
    told.rest()
    assert told.latest("r", "a").reward == pytest.approx(0.96)
    assert why(told.latest("r", "b")) == (None, "registered_late")


def test_a_purge_takes_the_waits_along_and_leaves_the_trail(told: Story) -> None:
    wait(told, forecast("a", 0.8))
    settle(told, "yes")
    told.service.close_run(PROJECT, "r")
    told.until(lambda: told.run("r").state == "closed")
    with told.service.store.begin() as tx:
        tx.retention.begin(PROJECT, "r")
        while tx.retention.drop_rewards(PROJECT, "r", 100) or tx.retention.drop_cases(PROJECT, "r", 100):
            continue
        tx.retention.finish(PROJECT, "r")
        assert tx.settlements.questions(PROJECT, ["rain"]) == {}
    assert [one.version for one in trail(told)] == [1]
    assert statuses(settle(told, "no")) == {2: "amended"}
    assert _due(told) == []


def test_a_file_without_actuals_says_nothing_of_events(told: Story) -> None:
    """A column that is called event had no meaning, and has none unless another says what became of it."""
    done = sent(told, "event,candidate,verdict\nrain,C,accept\n")
    assert (done.ignored_columns, codes(done)[2][0][0]) == (("event",), "unknown_check")
