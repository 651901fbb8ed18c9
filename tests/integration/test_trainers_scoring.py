"""The core that every trainer's adapter shares, on a real server in trouble."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.server import REVIEWED, fresh
from tests.support.trouble import FAILS, HANGS, OK, WRONG, Trouble, free_port, novel, troubled
from verifier_service.client import NotAuthenticated
from verifier_service.client.errors import Conflict
from verifier_service.trainers import connections
from verifier_service.trainers.chat import submission
from verifier_service.trainers.scoring import (
    UNREACHABLE,
    Misconfigured,
    Scored,
    Scoring,
    score,
    score_blocking,
)


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trouble]:
    with troubled(tmp_path_factory.mktemp("trouble")) as service:
        yield service


def asking(trouble: Trouble, **changes: Any) -> Scoring:
    fields = {"run": fresh(), "ladder": "spoken", "url": trouble.url, "key": trouble.key}
    return Scoring(**{**fields, **changes})


def rollouts(*answers: str) -> list[dict[str, Any]]:
    return [submission("spoken", prompt="act", completion=answer) for answer in answers]


def scores(scored: list[Scored]) -> list[float | None]:
    return [one.reward for one in scored]


def test_numbers_and_reasons_in_the_order_given(trouble: Trouble) -> None:
    scored = asyncio.run(score(asking(trouble), rollouts(OK, FAILS, WRONG, OK)))
    assert scores(scored) == [1.0, None, 0.0, 1.0]
    assert [one.code for one in scored] == [None, "unverifiable", None, None]
    assert scored[2].record is not None
    assert scored[2].record.reason is not None
    assert scored[2].record.reason.code == "rejected"


def test_threads_get_the_same(trouble: Trouble) -> None:
    scoring = asking(trouble)
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda text: score_blocking(scoring, rollouts(text)), [OK, WRONG] * 32))
    assert [scores(scored) for scored in answers] == [[1.0], [0.0]] * 32


def test_singles_of_one_loop_travel_together(trouble: Trouble) -> None:
    scoring = asking(trouble)
    before = trouble.requests

    async def all_at_once() -> list[list[Scored]]:
        return await asyncio.gather(*(score(scoring, rollouts(OK if n % 2 else WRONG)) for n in range(500)))

    answers = asyncio.run(all_at_once())
    assert [scores(scored) for scored in answers] == [[float(n % 2)] for n in range(500)]
    assert trouble.requests - before <= 10


def test_who_is_quick_does_not_wait_for_who_hangs(trouble: Trouble) -> None:
    scoring = asking(trouble)

    async def timed(text: str) -> tuple[float | None, float]:
        began = time.perf_counter()
        [one] = await score(scoring, rollouts(text))
        return one.reward, time.perf_counter() - began

    async def all_at_once() -> list[tuple[float | None, float]]:
        return await asyncio.gather(*(timed(HANGS if n == 3 else OK) for n in range(64)))

    answers = asyncio.run(all_at_once())
    hanging = answers.pop(3)
    assert hanging[0] is None
    assert all(reward == 1.0 for reward, _ in answers)
    # The hanging verifier is given 5 s an attempt.
    assert hanging[1] >= 5.0
    assert max(seconds for _, seconds in answers) < hanging[1]


def test_a_hanging_item_has_no_number_when_the_wait_is_over(trouble: Trouble) -> None:
    began = time.perf_counter()
    scored = asyncio.run(score(asking(trouble, seconds=1.5), rollouts(OK, HANGS)))
    assert scores(scored) == [1.0, None]
    assert scored[1].code == "pending"
    assert time.perf_counter() - began < 20.0


def test_a_spent_budget_is_no_number(trouble: Trouble) -> None:
    scoring = asking(trouble, run=trouble.broke(fresh()))
    scored = asyncio.run(score(scoring, rollouts(novel(), novel())))
    assert [one.code for one in scored] == ["budget_exhausted"] * 2


def test_every_request_twice_changes_nothing(trouble: Trouble) -> None:
    scoring = asking(trouble)
    trouble.duplicate()
    try:
        scored = asyncio.run(score(scoring, rollouts(OK, FAILS, WRONG)))
    finally:
        trouble.duplicate(False)
    assert scores(scored) == [1.0, None, 0.0]
    with trouble.client() as client:
        records = [record for record in client.rewards(scoring.run).records if record.reward is not None]
    assert [record.multiplicity for record in records] == [1, 1]


def test_a_service_that_comes_back_is_waited_for(trouble: Trouble) -> None:
    scoring = asking(trouble, url=trouble.direct_url)

    async def steps() -> list[list[float | None]]:
        found = []
        ends = time.monotonic() + 12
        while time.monotonic() < ends:
            found.append(scores(await score(scoring, rollouts(OK, FAILS, WRONG))))
            await asyncio.sleep(0.2)
        return found

    stopped = trouble.stop_for(5, after=1)
    found = asyncio.run(steps())
    stopped.join()
    assert found
    assert all(step == [1.0, None, 0.0] for step in found)


def test_a_service_that_stays_away_is_a_reason() -> None:
    scoring = Scoring(run="r", ladder="spoken", url=f"http://127.0.0.1:{free_port()}", key="k", retry_s=0.5)
    for scored in (asyncio.run(score(scoring, rollouts(OK))), score_blocking(scoring, rollouts(OK))):
        assert scores(scored) == [None]
        assert scored[0].code == UNREACHABLE


def test_nobody_waits_for_a_person(trouble: Trouble) -> None:
    with trouble.client() as client:
        client.put_ladder("reviewed", REVIEWED)
    item = submission("reviewed", prompt="", completion="CCO", reference={"smiles": "OCC"})
    began = time.perf_counter()
    [one] = asyncio.run(score(asking(trouble, ladder="reviewed", seconds=120), [item]))
    assert one.reward == 1.0
    assert one.record is not None
    assert one.record.status == "provisional"
    assert time.perf_counter() - began < 60


def test_a_service_that_fails_is_a_reason(trouble: Trouble) -> None:
    scoring = asking(trouble)
    trouble.break_down()
    try:
        found = [asyncio.run(score(scoring, rollouts(OK))), score_blocking(scoring, rollouts(OK))]
    finally:
        trouble.break_down(False)
    for scored in found:
        assert scores(scored) == [None]
        assert scored[0].code == UNREACHABLE
        assert "500" in scored[0].message


def test_what_only_a_person_can_mend_is_raised(trouble: Trouble) -> None:
    with pytest.raises(NotAuthenticated):
        asyncio.run(score(asking(trouble, key="wrong"), rollouts(OK)))
    with pytest.raises(Misconfigured, match="no ladder is called 'nowhere'"):
        asyncio.run(score(asking(trouble), [submission("nowhere", prompt="", completion=OK)]))
    closed = asking(trouble)
    with trouble.client() as client:
        client.put_run(closed.run, {})
        client.close_run(closed.run)
    with pytest.raises(Conflict):
        asyncio.run(score(closed, rollouts(OK)))


def test_one_refused_rollout_disturbs_nobody(trouble: Trouble) -> None:
    bad = {**rollouts(OK)[0], "group_size": -1}
    scored = asyncio.run(score(asking(trouble), [*rollouts(OK), bad, *rollouts(WRONG)]))
    assert scores(scored) == [1.0, None, 0.0]
    assert scored[1].code == "invalid"
    assert "group_size" in scored[1].message


def test_one_caller_that_gives_up_disturbs_nobody(trouble: Trouble) -> None:
    scoring = asking(trouble)

    async def both() -> list[Scored]:
        leaving = asyncio.create_task(score(scoring, rollouts(HANGS)))
        staying = asyncio.create_task(score(scoring, rollouts(OK)))
        await asyncio.sleep(0.5)
        leaving.cancel()
        return await staying

    assert scores(asyncio.run(both())) == [1.0]


def test_settings_travel_to_other_processes(trouble: Trouble) -> None:
    scoring = asking(trouble)
    assert pickle.loads(pickle.dumps(scoring)) == scoring


def test_a_forked_process_has_connections_of_its_own(trouble: Trouble) -> None:
    scoring = asking(trouble)
    assert scores(score_blocking(scoring, rollouts(OK))) == [1.0]
    read, write = os.pipe()
    with connections._here.making:  # another thread makes a client in the moment of the fork
        child = os.fork()
    if child == 0:
        try:
            found = [score_blocking(scoring, rollouts(OK)), asyncio.run(score(scoring, rollouts(WRONG)))]
            os.write(write, json.dumps([one.reward for [one] in found]).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        assert json.loads(told.read()) == [1.0, 0.0]
    os.waitpid(child, 0)


def test_the_key_is_not_shown(trouble: Trouble) -> None:
    scoring = asking(trouble)
    assert trouble.key not in repr(scoring) + repr(scoring.address)
