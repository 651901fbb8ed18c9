"""The reference loop's ladders on a real service with its plugin: who is measured, and who pays."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from examples.train import service
from examples.train.quality import Judge
from examples.train.service import Service
from verifier_service.domain.evidence import Tier
from verifier_service.domain.rewards import RewardRecord
from verifier_service.trainers import chat
from verifier_service.trainers.scoring import Scoring, score_blocking

PROMISED = "O=C=NCO"
HOPELESS = "C=CCO"
BROKEN = "C1CC"


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with service.running(sys.executable) as one:
        yield one


def records(running: Service, condition: str, *texts: str) -> tuple[list[RewardRecord], float]:
    """The record of each text on a condition's ladder, and what the run spent."""
    ladder = f"train-{condition}"
    asked = [chat.submission(ladder, prompt="p", completion=text, id=text.encode().hex()) for text in texts]
    scoring = Scoring(
        run=condition, ladder=ladder, until="simulation", seconds=60, url=running.url, key=running.key
    )
    found = [scored.record for scored in score_blocking(scoring, asked)]
    with running.client() as client:
        spent = sum(account.spent for account in client.run(condition).run.accounts)
    assert all(record is not None for record in found)
    return [record for record in found if record is not None], spent


def test_the_three_conditions(running: Service) -> None:
    texts = (PROMISED, HOPELESS, BROKEN)
    ladder, ladder_spent = records(running, "ladder", *texts)
    fast, fast_spent = records(running, "fast-only", *texts)
    assert [record.tier for record in ladder] == [Tier.SIMULATION, Tier.FAST, Tier.FAST]
    assert ladder[0].reward == 0.0, "what the estimate promised is not there"
    assert fast[0].reward is not None
    assert fast[0].reward > 0.6, "and fast-only pays for it"
    assert ladder[1].reward == fast[1].reward is not None
    assert [record.reward for record in (ladder[2], fast[2])] == [0.0, 0.0]
    top, _ = records(running, "all-at-top", HOPELESS, "C=CCCO", BROKEN)
    assert [record.tier for record in top] == [Tier.SIMULATION, Tier.SIMULATION, Tier.FAST]
    assert 0.0 <= fast_spent < 0.1 < ladder_spent
    assert top[1].credits > ladder[1].credits, "top pays for what the ladder leaves alone"


def test_hints_travel(running: Service) -> None:
    (record,), _ = records(running, "ladder", "C=CCC")
    assert "gap_too_high" in {hint.kind for hint in record.hints}


def test_true_quality_is_that_of_the_top_tier_and_charged_to_nobody_else(running: Service) -> None:
    found = Judge(running).quality([PROMISED, PROMISED, BROKEN])
    assert (found.mean, found.unscored) == (0.0, 0)
    again = Judge(running).quality(["S=C=C1C=C1"])
    assert again.mean > 0.9


def test_a_service_that_does_not_start_says_why() -> None:
    with pytest.raises(RuntimeError, match="did not start"), service.running("/bin/false"):
        pass
