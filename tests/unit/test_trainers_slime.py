"""slime's samples without a reward: out of the loss, and out of the group's mean."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from verifier_service.domain.rewards import RewardRecord
from verifier_service.trainers import slime
from verifier_service.trainers.scoring import Misconfigured, Scored, Scoring, of_record


@dataclass
class Sample:
    """The fields of slime/utils/types.py that are read or written."""

    prompt: Any = "p"
    response: str = "r"
    label: Any = None
    reward: Any = None
    group_index: int | None = 0
    remove_sample: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)


def options(**changes: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{
            "advantage_estimator": "grpo",
            "rewards_normalization": True,
            "grpo_std_normalization": True,
            "n_samples_per_prompt": 4,
            "reward_key": None,
            "verifier_run": "run",
            "verifier_ladder": "ladder",
            **changes,
        }
    )


def group(*rewards: Any, index: int | None = 0) -> list[Sample]:
    return [Sample(reward=one, group_index=index) for one in rewards]


def record(reward: float) -> RewardRecord:
    return RewardRecord.model_validate(
        {
            "seq": 1,
            "run": "run",
            "trajectory": "t",
            "ladder": "ladder",
            "ladder_version": 1,
            "revision": 1,
            "status": "final",
            "reward": reward,
            "tier": "fast",
            "credits": 0.5,
            "issued_at": "2026-01-01T00:00:00Z",
        }
    )


NOTHING = Scored("t", None, "unverifiable", "by hand")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Submissions; ``yes`` scores 1, anything else has no reward."""
    seen: list[Any] = []

    async def score(scoring: Scoring, submissions: Any) -> list[Scored]:
        seen.append((scoring, list(submissions)))
        return [of_record(record(1.0)) if one["answer"] == "yes" else NOTHING for one in submissions]

    monkeypatch.setattr(slime, "score", score)
    return seen


def test_one_sample_gets_a_number_or_none(asked: list[Any]) -> None:
    good, bad = Sample(response="yes<|im_end|>"), Sample(response="no", metadata={"mine": 1})
    assert asyncio.run(slime.reward(options(), good)) == 1.0
    assert asyncio.run(slime.reward(options(), bad)) is None
    assert (good.remove_sample, bad.remove_sample) == (False, True)
    assert good.metadata == {"verifier": {"id": "t", "credits": 0.5, "tier": "fast"}}
    assert bad.metadata["mine"] == 1
    assert bad.metadata["verifier"] == {"id": "t", "code": "unverifiable", "message": "by hand"}


def test_a_list_gets_a_list(asked: list[Any]) -> None:
    samples = [Sample(response="yes"), Sample(response="no"), Sample(response="yes")]
    assert asyncio.run(slime.reward(options(), samples)) == [1.0, None, 1.0]
    assert len(asked) == 1
    assert asyncio.run(slime.reward(options(), [])) == []


def test_the_service_learns_group_reference_and_policy(asked: list[Any]) -> None:
    sample = Sample(response="yes", label='{"smiles": "C"}', group_index=7)
    sample.weight_versions = ["3", "4"]  # type: ignore[attr-defined]
    asyncio.run(slime.reward(options(), sample))
    [(scoring, [item])] = asked
    assert (scoring.run, scoring.ladder) == ("run", "ladder")
    assert item["problem"]["reference"] == {"smiles": "C"}
    assert (item["group"], item["group_size"], item["policy_version"]) == ("group-7", 4, "4")


@pytest.mark.parametrize(
    ("chosen", "answer"),
    [
        (None, "yes"),
        ("STOP", "yes<|im_end|>"),
        ("", "yes<|im_end|>"),
        (["STOP", "<|im_end|>"], "yes"),
    ],
)
def test_what_is_cut_off_may_be_chosen(asked: list[Any], chosen: Any, answer: str) -> None:
    asyncio.run(slime.reward(options(verifier_end=chosen), Sample(response="yes<|im_end|>")))
    [(_, [item])] = asked
    assert item["answer"] == answer


def test_a_reward_key_makes_objects(asked: list[Any]) -> None:
    args = options(reward_key="score")
    samples = [Sample(response="yes"), Sample(response="no")]
    assert asyncio.run(slime.reward(args, samples)) == [{"score": 1.0}, {"score": None}]
    for sample, told in zip(samples, [{"score": 1.0}, {"score": None}], strict=True):
        sample.reward = told
    assert not slime.all_scored(args, samples)
    raw, _ = slime.post_process(args, samples)
    assert raw[0] == 1.0
    assert math.isnan(raw[1])


def test_an_evaluation_gets_nan_in_place_of_none(asked: list[Any]) -> None:
    found = asyncio.run(slime.evaluation(options(), [Sample(response="yes"), Sample(response="no")]))
    assert found[0] == 1.0
    assert math.isnan(found[1])
    assert math.isnan(asyncio.run(slime.evaluation(options(), Sample(response="no"))))


def test_nothing_is_asked_without_a_run(monkeypatch: pytest.MonkeyPatch, asked: list[Any]) -> None:
    monkeypatch.delenv("VERIFIER_RUN", raising=False)
    with pytest.raises(Misconfigured, match="VERIFIER_RUN"):
        asyncio.run(slime.reward(options(verifier_run=None), Sample()))
    monkeypatch.setenv("VERIFIER_RUN", "from-the-environment")
    asyncio.run(slime.reward(options(verifier_run=None), Sample()))
    assert asked[0][0].run == "from-the-environment"


@pytest.mark.parametrize(
    ("rewards", "every", "some", "telling"),
    [
        ((1.0, 0.0), True, True, True),
        ((1.0, 1.0), True, True, False),
        ((1.0, 0.0, None), False, True, False),
        ((1.0, None), False, False, False),
        ((None, None), False, False, False),
        ((1.0, math.nan), False, False, False),
    ],
)
def test_filters(rewards: tuple[Any, ...], every: bool, some: bool, telling: bool) -> None:
    samples = group(*rewards)
    assert slime.all_scored(options(), samples) is every
    assert slime.some_scored(options(), samples) is some
    assert slime.informative(options(), samples) is telling
    fanned = [[one] for one in samples]
    assert slime.all_scored(options(), fanned) is every


def test_group_means_leave_out_what_has_no_reward() -> None:
    samples = group(1.0, 0.0, None, 1.0) + group(None, 0.5, 0.5, None, index=1)
    raw, normalised = slime.post_process(options(), samples)
    mean, std = 2 / 3, math.sqrt(1 / 3)
    expected = [(1 - mean) / (std + 1e-6), -mean / (std + 1e-6), 0.0, (1 - mean) / (std + 1e-6)]
    assert normalised[:4] == pytest.approx(expected)
    assert normalised[4:] == [0.0, 0.0, 0.0, 0.0]
    assert raw[:2] == [1.0, 0.0]
    assert [at for at, one in enumerate(raw) if math.isnan(one)] == [2, 4, 7]
    assert [at for at, one in enumerate(samples) if one.remove_sample] == [2, 4, 7]


def test_groups_without_an_index_are_counted_off() -> None:
    samples = group(1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, index=None)
    _, normalised = slime.post_process(options(grpo_std_normalization=False), samples)
    assert normalised == pytest.approx([0.75, -0.25, -0.25, -0.25, 0.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("estimator", ["ppo", "reinforce_plus_plus"])
def test_estimators_without_groups_get_raw_rewards(estimator: str) -> None:
    raw, rewards = slime.post_process(options(advantage_estimator=estimator), group(1.0, None))
    assert rewards == [1.0, 0.0]
    assert math.isnan(raw[1])


def test_one_scored_sample_has_no_advantage() -> None:
    _, normalised = slime.post_process(options(), group(1.0, None, None, None))
    assert normalised == [0.0, 0.0, 0.0, 0.0]
