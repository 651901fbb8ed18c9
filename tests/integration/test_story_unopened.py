"""A review that cannot be opened: the others are, and it does not come back at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.story import LADDER, PROJECT, Story, story_harness
from verifier_service.domain.checks import Claim
from verifier_service.domain.evidence import Tier
from verifier_service.domain.ports.catalog import Catalog
from verifier_service.domain.ports.policy import Tariff
from verifier_service.domain.ports.store import Transaction
from verifier_service.domain.states import CheckState
from verifier_service.services import desk

ANSWERS = {"t": "CCCC", "u": "CCCCC", "v": "CCCCCC"}


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Story]:
    harness = story_harness()
    one = Story(tmp_path, harness)
    one.put_ladder(
        LADDER | {"tiers": {name: LADDER["tiers"][name] for name in ("fast", "lab")}, "truth": "lab"}
    )
    yield one
    one.close()
    harness.close()


def states(told: Story) -> list[CheckState | None]:
    with told.service.store.read() as tx:
        cases = tx.trajectories.cases([told.standing("r", name).pk for name in ANSWERS])
    reviews = [demand.check for case in cases for demand in case.of_role("review")]
    return [None if check is None else check.state for check in reviews]


def test_one_that_cannot_be_opened_leaves_the_others_open(
    told: Story, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told.submit("r", *({"id": name, "answer": answer} for name, answer in ANSWERS.items()))
    with monkeypatch.context() as patch:
        patch.setattr(told.sweep, "_open_reviews", lambda: None)
        for _ in range(5):
            told.fast()
            told.sweep.tick()
    assert states(told) == [CheckState.QUEUED] * 3
    opened: list[str] = []
    real = desk.open_review

    def fails(tx: Transaction, catalog: Catalog, tariff: Tariff, owner: str, claim: Claim) -> bool:
        """Once it has written something, the second fails."""
        done = real(tx, catalog, tariff, owner, claim)
        opened.append(claim.key)
        if len(opened) == 2:
            raise RuntimeError("a case that nobody can show")
        return done

    monkeypatch.setattr(desk, "open_review", fails)
    told.sweep._open_reviews()
    assert len(opened) == 3
    assert sorted(map(str, states(told))) == ["running", "waiting_external", "waiting_external"]
    with told.service.store.read() as tx:
        assert len(desk.listed(tx, PROJECT, queue=None, state="open", limit=10)) == 2
    assert f"the review of check {opened[1]} cannot be opened" in caplog.text
    assert not told.service.take(Tier.LAB, 32, "again").claims
