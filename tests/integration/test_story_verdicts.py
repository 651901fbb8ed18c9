"""A ladder whose truth is a verdict: the service learns how often a first opinion is right, and checks the
opinions that say least."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.integration.test_story_learning import HORIZON, TRUTH_CREDITS, items, play
from tests.support import noisy
from tests.support.noisy_story import PLUGINS
from tests.support.noisy_story import children as noisy_children
from tests.support.story import PROJECT, Story
from tiers.harness import ProcessHarness
from verifier_service.domain.evidence import Tier
from verifier_service.domain.models import LadderKey
from verifier_service.domain.runs import Horizon


@pytest.fixture(scope="module")
def children() -> Iterator[ProcessHarness]:
    with noisy_children() as harness:
        yield harness


@pytest.fixture
def told(tmp_path: Path, children: ProcessHarness) -> Iterator[Story]:
    made = Story(tmp_path, children, noisy.JUDGING, plugins=PLUGINS)
    yield made
    made.close()


def opinions(n: int, seed: int) -> list[dict[str, str]]:
    return [item | {"ladder": "opinions"} for item in items(n, seed)]


def test_opinions_are_worth_what_they_were_worth_so_far(told: Story) -> None:
    first = opinions(96, seed=1)
    known = play(told, "first", first)
    good = {item["id"]: noisy.is_good(item["answer"]) for item in first}
    checked = [record for record in known.values() if record.tier is Tier.HIGH_FIDELITY]
    assert all(record.reward is not None for record in known.values())
    assert len(checked) >= 20, "without a limit, what is uncertain is checked"
    assert all(record.reward == float(good[record.trajectory]) for record in checked)
    with told.service.store.read() as tx:
        model = tx.models.current(LadderKey(PROJECT, "opinions", 1))
    assert model is not None

    new = opinions(96, seed=2)
    told.put_run("second", compute=0.2 * HORIZON * TRUTH_CREDITS, horizon=Horizon(trajectories=HORIZON))
    records = play(told, "second", new)
    believed = [one for one in records.values() if one.tier is Tier.FAST]
    bought = [one for one in records.values() if one.tier is Tier.HIGH_FIDELITY]
    assert 1 <= len(bought) <= 48
    assert len(believed) >= 48
    assert {str(one.status) for one in believed} <= {"provisional", "final"}
    truth = {item["id"]: float(noisy.is_good(item["answer"])) for item in new}
    p = np.array([one.reward for one in believed], dtype=np.float64)
    y = np.array([truth[one.trajectory] for one in believed])
    assert ((p >= 0) & (p <= 1)).all()
    assert np.mean((p - y) ** 2) < 0.6 * y.mean() * (1 - y.mean()), "better than the base rate"
    assert abs(p.mean() - y.mean()) < 0.12, "and right on average"
    assert all(one.reward == truth[one.trajectory] for one in bought)
