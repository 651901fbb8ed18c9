"""Events that a source settles: asked once however many wait, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.markets import (
    Market,
    done,
    feed_of,
    forecast,
    hurry,
    market,
    polling,
    polls,
    settle,
    trail,
    why,
)
from tests.support.story import Story
from verifier_service.bootstrap import settlements as events
from verifier_service.bootstrap.settlements import LONGEST_PAUSE_S, pause_s
from verifier_service.worker.markets import MarketPoller

LADDER: dict[str, Any] = {
    "name": "forecast",
    "candidate": {"kind": "forecast", "format": "json", "from": "answer"},
    "outcome": {"use": "market.settlement"},
    "truth": "lab",
    "tiers": {
        "fast": [{"use": "forecast.validity", "gate": "hard"}],
        "lab": [{"use": "market.settlement", "params": {"source": "m"}}],
    },
    "deadline_s": 3_600,
}


@pytest.fixture
def there() -> Iterator[Market]:
    with market() as made:
        yield made


@pytest.fixture
def asking(told: Story, there: Market) -> MarketPoller:
    told.put_ladder(LADDER)
    for run, chance in (("r", 0.8), ("q", 0.8), ("q", 0.4)):
        told.submit(run, forecast(f"t{chance}", chance))
    told.rest()
    return polling(told, feed_of(m=there.source()))


def rewards(told: Story) -> list[float | None]:
    return [told.latest(run, name).reward for run, name in (("r", "t0.8"), ("q", "t0.8"), ("q", "t0.4"))]


def test_a_source_is_asked_once_for_all_and_not_before_the_close(
    told: Story, there: Market, asking: MarketPoller
) -> None:
    assert asking.step() == 0
    hurry(told)
    there.answers["rain"] = {"state": "open"}
    assert asking.step() == 1
    assert [(row.event, row.failures, row.error) for row in polls(told)] == [("rain", 0, None)]
    there.answers["rain"] = done("yes")
    hurry(told)
    asking.step()
    told.rest()
    assert there.count("rain") == 2
    assert rewards(told) == [pytest.approx(0.96), pytest.approx(0.96), pytest.approx(0.64)]
    [settlement] = trail(told)
    assert (settlement.source, settlement.by, settlement.import_id) == ("m", None, None)
    assert polls(told) == []
    hurry(told)
    assert asking.step() == 0
    settle(told, "no")
    assert rewards(told) == [pytest.approx(0.36), pytest.approx(0.36), pytest.approx(0.84)]


def test_a_void_event_gives_null(told: Story, there: Market, asking: MarketPoller) -> None:
    there.answers["rain"] = {"state": "void"}
    hurry(told)
    asking.step()
    told.rest()
    assert why(told.latest("r", "t0.8")) == (None, "event_void")


def test_what_fits_no_question_is_not_stored(told: Story, there: Market, asking: MarketPoller) -> None:
    there.answers["rain"] = done("4.5")
    hurry(told)
    asking.step()
    assert trail(told) == []
    assert [(row.failures, row.error) for row in polls(told)] == [(1, "actual_mismatch")]


def test_failures_are_put_off_longer_each_time(told: Story, there: Market, asking: MarketPoller) -> None:
    there.answers["rain"] = 500
    for times in (1, 2, 3):
        hurry(told)
        assert asking.step() == 1
        assert asking.step() == 0
        assert [(row.failures, row.error) for row in polls(told)] == [(times, "http_500")]
    there.answers["rain"] = done("yes")
    hurry(told)
    asking.step()
    told.rest()
    assert rewards(told)[0] == pytest.approx(0.96)


def test_a_busy_source_is_left_alone_for_as_long_as_it_says(
    told: Story, there: Market, asking: MarketPoller
) -> None:
    told.submit("r", forecast("snow", 0.5, id="snow"))
    told.rest()
    there.answers |= {"rain": 429, "snow": {"state": "open"}}
    there.headers["retry-after"] = "3000"
    hurry(told)
    asking.step()
    with told.service.store.read() as tx:
        now = tx.now()
    assert all(row.next_at > now + 2_900 for row in polls(told))
    assert asking.step() == 0


def test_pauses_double_up_to_an_hour_or_the_interval() -> None:
    assert [pause_s(60.0, times, None) for times in (0, 1, 2, 3)] == [60.0, 60.0, 120.0, 240.0]
    assert pause_s(60.0, 500, None) == LONGEST_PAUSE_S
    assert pause_s(7_200.0, 9, None) == 7_200.0
    assert pause_s(60.0, 1, 900.0) == 900.0
    assert pause_s(60.0, 1, 1e12) == 86_400.0


def test_who_dies_between_the_answer_and_the_commit_settles_once(
    told: Story, there: Market, asking: MarketPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.answers["rain"] = done("yes")
    hurry(told)

    def dies(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(events.settlements, "polled", dies)
        with pytest.raises(KeyboardInterrupt):
            asking.step()
    assert trail(told) == []
    assert len(polls(told)) == 1
    hurry(told)
    again = MarketPoller(told.service)
    assert again.step() == 1
    told.rest()
    hurry(told)
    assert again.step() == 0
    assert len(trail(told)) == 1
    issued = [one for one in told.feed("r") if one.reward is not None]
    assert [one.reward for one in issued] == [pytest.approx(0.96)] * len(issued)
    assert len({one.revision for one in issued}) == len(issued) == 2


def test_an_import_ends_the_poll_and_nobody_overrides_it(
    told: Story, there: Market, asking: MarketPoller
) -> None:
    settle(told, "no")
    there.answers["rain"] = done("yes")
    hurry(told)
    assert asking.step() == 0
    assert rewards(told)[0] == pytest.approx(0.36)


def test_when_nobody_waits_any_more_nobody_asks(told: Story, there: Market, asking: MarketPoller) -> None:
    for run, name in (("r", "t0.8"), ("q", "t0.8"), ("q", "t0.4")):
        told.service.cancel("default", run, name)
    hurry(told)
    assert asking.step() == 0
    assert polls(told) == []
    assert there.asked == []
