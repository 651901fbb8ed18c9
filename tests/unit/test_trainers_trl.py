"""TRL's reward function: what it sends, what it makes of what comes back. TRL itself is in
tests/trainers."""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from verifier_service.domain.evidence import TIERS, Tier
from verifier_service.domain.rewards import RewardCode, RewardReason, RewardRecord
from verifier_service.domain.states import RewardStatus
from verifier_service.trainers import trl
from verifier_service.trainers.scoring import Scored, Scoring, of_record
from verifier_service.trainers.trl import (
    REASONS,
    ColumnMissing,
    details,
    metrics,
    reward_function,
    with_others,
)


class Service:
    """Answers every submission in turn with one of ``answers`` and keeps what it was sent."""

    def __init__(self, *answers: Scored) -> None:
        self.answers = answers
        self.sent: list[dict[str, Any]] = []
        self.scoring: Scoring | None = None

    async def score(self, scoring: Scoring, submissions: Sequence[dict[str, Any]]) -> list[Scored]:
        self.scoring = scoring
        self.sent.extend(submissions)
        return [self.answers[place % len(self.answers)] for place in range(len(submissions))]


def record(reward: float | None = 0.5, **changes: Any) -> RewardRecord:
    fields: dict[str, Any] = {
        "seq": 1,
        "run": "r",
        "trajectory": "t",
        "ladder": "math",
        "ladder_version": 1,
        "revision": 1,
        "status": RewardStatus.FINAL if reward is not None else RewardStatus.UNSCORED,
        "reward": reward,
        "issued_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return RewardRecord(**{**fields, **changes})


NUMBER = of_record(record(0.5, tier=Tier.FAST, credits=0.25))
FLOOR = of_record(
    record(0.0, tier=Tier.FAST, reason=RewardReason(code=RewardCode.REJECTED, detail="valence"))
)
BROKE = of_record(record(None, credits=1.0, reason=RewardReason(code=RewardCode.BUDGET_EXHAUSTED)))
GONE = Scored("t", None, "unreachable", "no answer")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    made = Service(NUMBER)
    monkeypatch.setattr(trl, "score", made.score)
    return made


def call(function: Any, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> Any:
    """As TRL 1.16.0 calls it."""
    state = SimpleNamespace(global_step=columns.pop("step", 7))
    ids = [[1]] * len(prompts)
    return asyncio.run(
        function(
            prompts=list(prompts),
            completions=list(completions),
            completion_ids=ids,
            trainer_state=state,
            **columns,
        )
    )


def asking(**options: Any) -> Any:
    return reward_function(run="r", ladder="math", **options)


def test_is_a_coroutine_function_with_a_name_and_survives_pickling() -> None:
    function = pickle.loads(pickle.dumps(asking(reference={"smiles": "target"}, seconds=5.0)))
    assert inspect.iscoroutinefunction(function)
    assert isinstance(function, functools.partial)
    assert function.func.__name__ == "reward"
    assert function.keywords["scoring"] == Scoring(run="r", ladder="math", seconds=5.0)


def test_an_option_that_is_misspelt_is_refused() -> None:
    with pytest.raises(TypeError, match="secnods"):
        asking(secnods=3)


def test_what_has_no_number_is_none(service: Service) -> None:
    service.answers = (NUMBER, BROKE, FLOOR, GONE)
    assert call(asking(), ["p"] * 4, list("abcd")) == [0.5, None, 0.0, None]


def test_prompts_completions_and_versions_are_sent(service: Service) -> None:
    call(asking(), ["one", "two"], ["1", "2"], step=3)
    assert [item["problem"]["prompt"] for item in service.sent] == ["one", "two"]
    assert [item["answer"] for item in service.sent] == ["1", "2"]
    assert [item["ladder"] for item in service.sent] == ["math"] * 2
    assert [item["policy_version"] for item in service.sent] == ["3"] * 2


def test_conversations_become_turns(service: Service) -> None:
    call_of_tool = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    completion = [
        {"role": "assistant", "content": "", "tool_calls": [call_of_tool]},
        {"role": "tool", "name": "add", "content": "2"},
        {"role": "assistant", "content": "it is 2"},
    ]
    call(asking(), [[{"role": "user", "content": "add"}]], [completion])
    [item] = service.sent
    assert item["problem"]["prompt"] == [{"role": "user", "content": "add"}]
    assert item["answer"] == "it is 2"
    assert [turn["message"] for turn in item["turns"]] == ["", "it is 2"]
    assert item["turns"][0]["calls"][0]["arguments"] == {"a": 1}
    assert item["turns"][0]["observations"][0]["text"] == "2"


def test_identical_prompts_of_a_step_are_a_group(service: Service) -> None:
    function = asking()
    call(function, ["p", "p", "q"], list("abc"), step=1)
    call(function, ["p"], ["d"], step=2)
    first, second, other, later = (item["group"] for item in service.sent)
    assert first == second
    assert len({first, other, later}) == 3


def test_a_prompt_with_another_reference_is_another_group(service: Service) -> None:
    call(asking(), ["p"] * 4, list("abcd"), answer=["1", "1", "2", "1"], inputs=[{}, {}, {}, {"unit": "m"}])
    groups = [item["group"] for item in service.sent]
    assert groups[0] == groups[1]
    assert len(set(groups)) == 3


def test_without_a_step_every_call_is_a_group_of_its_own(service: Service) -> None:
    function = asking()
    for _ in range(2):
        asyncio.run(function(prompts=["p", "p"], completions=["a", "b"], completion_ids=[[1], [2]]))
    groups = [item["group"] for item in service.sent]
    assert groups[0] == groups[1] != groups[2] == groups[3]
    assert "policy_version" not in service.sent[0]


@pytest.mark.parametrize(
    ("options", "columns", "reference"),
    [
        ({}, {"answer": ["4"]}, {"answer": "4"}),
        ({}, {"solution": ["4"], "ground_truth": ["5"]}, {"answer": "5"}),
        ({}, {"reference": [{"answer": "4", "tests": None}], "answer": ["5"]}, {"answer": "4"}),
        ({}, {"other": ["4"]}, {}),
        ({"reference": "gold"}, {"gold": ["4"], "answer": ["5"]}, {"answer": "4"}),
        ({"reference": {"smiles": "target"}}, {"target": ["CCO"]}, {"smiles": "CCO"}),
        ({"reference": {"smiles": "target"}}, {"target": [None]}, {}),
    ],
)
def test_references_come_from_columns(
    service: Service, options: dict[str, Any], columns: dict[str, Any], reference: dict[str, Any]
) -> None:
    call(asking(**options), ["p"], ["c"], **columns)
    assert service.sent[0]["problem"]["reference"] == reference


def test_inputs_come_from_columns(service: Service) -> None:
    call(asking(), ["p"], ["c"], inputs=[{"kind": "number", "unit": None}])
    call(asking(inputs="charge"), ["p"], ["c"], charge=[1])
    call(asking(inputs={"charge": "q"}), ["p"], ["c"], q=[2])
    inputs = [item["problem"]["inputs"] for item in service.sent]
    assert inputs == [{"kind": "number"}, {"charge": 1}, {"charge": 2}]


def test_a_column_that_is_not_there_is_an_error(service: Service) -> None:
    with pytest.raises(ColumnMissing, match="no column 'gold'; it has answer"):
        call(asking(reference="gold"), ["p"], ["c"], answer=["4"])


def test_metrics_are_always_the_same_and_shares_add_up(service: Service) -> None:
    service.answers = (NUMBER, BROKE, FLOOR, GONE)
    logged: dict[str, float] = {}
    call(asking(), ["p"] * 4, list("abcd"), log_metric=logged.__setitem__)
    assert logged["verifier/math/credits"] == 1.25
    assert logged["verifier/math/unscored"] == 0.5
    assert logged["verifier/math/unscored/budget_exhausted"] == 0.25
    assert logged["verifier/math/unscored/unreachable"] == 0.25
    assert logged["verifier/math/tier/fast"] == 0.5
    assert sum(logged[f"verifier/math/unscored/{reason}"] for reason in REASONS) == 0.5
    tiers = sum(logged[f"verifier/math/tier/{tier}"] for tier in TIERS)
    assert tiers + logged["verifier/math/unscored"] == 1.0
    assert metrics([NUMBER]).keys() == metrics([GONE]).keys() == metrics([]).keys()


def short(completions: list[str], **_: Any) -> list[float]:
    return [1.0 if len(text) < 2 else 0.0 for text in completions]


async def graded(completions: list[str], **_: Any) -> list[float]:
    return [0.0 if text == "a" else 1.0 for text in completions]


def test_other_rewards_are_added_only_to_verified_ones(service: Service) -> None:
    service.answers = (NUMBER, BROKE, FLOOR)
    function = pickle.loads(pickle.dumps(with_others(asking(), (short, 0.5), (graded, 2.0))))
    assert inspect.iscoroutinefunction(function)
    assert call(function, ["p"] * 3, ["a", "b", "cc"]) == [1.0, None, 2.0]


class Ladders:
    """Answers each ladder's submissions in turn with its own answers."""

    def __init__(self, **answers: Sequence[Scored]) -> None:
        self.answers = answers

    async def score(self, scoring: Scoring, submissions: Sequence[dict[str, Any]]) -> list[Scored]:
        answers = self.answers[scoring.ladder]
        return [answers[place] for place in range(len(submissions))]


@pytest.mark.parametrize("swapped", [False, True])
def test_no_part_that_failed_counts_as_zero(monkeypatch: pytest.MonkeyPatch, swapped: bool) -> None:
    ladders = Ladders(math=[NUMBER, NUMBER, BROKE, NUMBER], style=[NUMBER, BROKE, NUMBER, FLOOR])
    monkeypatch.setattr(trl, "score", ladders.score)
    first, second = reward_function(run="r", ladder="math"), reward_function(run="r", ladder="style")
    if swapped:
        first, second = second, first
    rewards = call(with_others(first, (second, 1.0)), ["p"] * 4, list("abcd"))
    assert rewards == [1.0, None, None, 0.5]


@pytest.mark.parametrize("missing", [None, float("nan")])
@pytest.mark.parametrize("weight", [0.5, 0.0])
def test_a_part_that_says_nothing_is_no_reward(
    service: Service, missing: float | None, weight: float
) -> None:
    def silent(completions: list[str], **_: Any) -> list[float | None]:
        return [missing if text == "a" else 1.0 for text in completions]

    function = with_others(asking(), (silent, weight), (short, 1.0))
    assert call(function, ["p"] * 2, ["a", "b"]) == [None, 1.5 + weight]


def test_every_reason_has_its_metric() -> None:
    codes = {str(code) for code in RewardCode} - {"rejected"}
    assert codes | {"invalid", "conflict", "unreachable"} == set(REASONS)


def test_details_tell_the_id_the_tier_and_the_reason(service: Service) -> None:
    service.answers = (NUMBER, BROKE, FLOOR, GONE)
    logged: dict[str, list[Any]] = defaultdict(list)
    call(asking(), ["p"] * 4, list("abcd"), log_extra=logged.__setitem__)
    assert logged["math/id"] == ["t"] * 4
    assert logged["math/tier"] == ["fast", None, "fast", None]
    assert logged["math/reason"] == [None, "budget_exhausted", "rejected: valence", "unreachable"]
    assert details([]) == {"id": [], "tier": [], "reason": []}
