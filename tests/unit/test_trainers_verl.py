"""verl's reward function: what it sends, what it makes of what comes back. verl itself is in
tests/trainers."""

from __future__ import annotations

import asyncio
import math
import pickle
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from verifier_service.domain.evidence import Tier
from verifier_service.domain.rewards import RewardCode, RewardReason, RewardRecord
from verifier_service.domain.states import RewardStatus
from verifier_service.trainers import verl
from verifier_service.trainers.scoring import Misconfigured, Scored, Scoring, of_record
from verifier_service.trainers.verl import NotVerified, compute_score, info, ladder_of, plain


def record(reward: float | None, **changes: Any) -> RewardRecord:
    return RewardRecord(
        seq=1,
        run="r",
        trajectory="t",
        ladder="math",
        ladder_version=1,
        revision=1,
        status=RewardStatus.FINAL if reward is not None else RewardStatus.UNSCORED,
        reward=reward,
        issued_at=datetime(2026, 1, 1, tzinfo=UTC),
        **changes,
    )


NUMBER = of_record(record(0.5, outcome=0.5, variance=0.01, tier=Tier.SIMULATION, credits=0.25))
FLOOR = of_record(record(0.0, outcome=0.0, reason=RewardReason(code=RewardCode.REJECTED)))
BROKE = of_record(record(None, reason=RewardReason(code=RewardCode.BUDGET_EXHAUSTED, message="no money")))
GONE = Scored("t", None, "unreachable", "no answer")


class Array:
    """What numpy's arrays and numbers have."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def tolist(self) -> Any:
        return self.value


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Scoring, Mapping[str, Any]]]:
    """What was sent; every rollout gets ``NUMBER``."""
    return answering(monkeypatch, NUMBER)


def answering(monkeypatch: pytest.MonkeyPatch, answer: Scored) -> list[tuple[Scoring, Mapping[str, Any]]]:
    kept: list[tuple[Scoring, Mapping[str, Any]]] = []

    async def score(scoring: Scoring, submissions: Sequence[Mapping[str, Any]]) -> list[Scored]:
        kept.extend((scoring, submission) for submission in submissions)
        return [answer] * len(submissions)

    monkeypatch.setattr(verl, "score", score)
    return kept


def call(ground_truth: object = "4", extra_info: Any = None, **options: Any) -> dict[str, Any]:
    """As verl 0.9.1 calls it."""
    return asyncio.run(
        compute_score(
            **{"run": "r", "ladder": "math", **options},
            data_source="gsm8k",
            solution_str="#### 4",
            ground_truth=ground_truth,
            extra_info={"num_turns": 2, "rollout_reward_scores": {}, **(extra_info or {})},
        )
    )


def test_a_number_comes_with_what_is_known(sent: list[Any]) -> None:
    assert call() == {
        "score": 0.5,
        "verified": 1.0,
        "code": "",
        "tier": "simulation",
        "variance": 0.01,
        "outcome": 0.5,
        "credits": 0.25,
        "trajectory": "t",
    }
    [(scoring, item)] = sent
    assert scoring == Scoring(run="r", ladder="math")
    assert item["answer"] == "#### 4"
    assert item["problem"]["reference"] == {"answer": "4"}
    assert item["metadata"] == {"data_source": "gsm8k"}


@pytest.mark.parametrize("answer", [BROKE, GONE])
def test_what_has_no_number_raises(monkeypatch: pytest.MonkeyPatch, answer: Scored) -> None:
    answering(monkeypatch, answer)
    with pytest.raises(NotVerified) as caught:
        call()
    assert caught.value.code == answer.code
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.id, again.code, again.message) == ("t", answer.code, answer.message)
    assert str(again) == f"trajectory t has no reward: {answer.code}: {answer.message}"


def test_keys_and_kinds_never_change() -> None:
    rows = [info(scored) for scored in (NUMBER, FLOOR, BROKE, GONE)]
    for row in rows:
        assert list(row) == list(rows[0])
        assert [type(value) for value in row.values()] == [type(value) for value in rows[0].values()]
    assert "acc" not in rows[0]
    assert [row["verified"] for row in rows] == [1.0, 1.0, 0.0, 0.0]
    assert [row["code"] for row in rows] == ["", "rejected", "budget_exhausted", "unreachable"]
    assert all(math.isnan(float(row["score"])) for row in rows[2:])
    assert rows[1]["score"] == 0.0


def test_reference_and_inputs_from_the_data_set(sent: list[Any]) -> None:
    call({"answer": "4", "tests": None})
    call(Array(["4", "four"]), {"inputs": {"kind": "number", "unit": None}, "reference": {"unit": "m"}})
    call(4, reference="value")
    call(None)
    problems = [item["problem"] for _, item in sent]
    assert [problem["reference"] for problem in problems] == [
        {"answer": "4"},
        {"unit": "m", "answer": ["4", "four"]},
        {"value": 4},
        {},
    ]
    assert problems[1]["inputs"] == {"kind": "number"}


def test_prompts_from_the_data_set(sent: list[Any]) -> None:
    messages = [{"role": "user", "content": "2 + 2?"}]
    call(extra_info={"prompt": "2 + 2?"})
    call(extra_info={"prompt": Array(messages)})
    call()
    assert [item["problem"]["prompt"] for _, item in sent] == ["2 + 2?", messages, ""]


def test_a_prompt_must_be_text_or_messages(sent: list[Any]) -> None:
    with pytest.raises(Misconfigured, match=r"extra_info\.prompt must be a text or messages, not dict"):
        call(extra_info={"prompt": {"role": "user"}})
    assert sent == []


def test_inputs_must_be_an_object(sent: list[Any]) -> None:
    with pytest.raises(Misconfigured, match=r"extra_info\.inputs must be an object, not str"):
        call(extra_info={"inputs": "kind"})
    assert sent == []


def test_a_ladder_for_each_data_source(sent: list[Any]) -> None:
    call(ladder={"gsm8k": "math", "lcb": "code"})
    assert sent[0][0].ladder == sent[0][1]["ladder"] == "math"
    with pytest.raises(Misconfigured, match="no ladder for data source 'other'; there are math"):
        ladder_of({"math": "math"}, "other")


def test_what_verl_adds_for_reward_models_is_taken_and_the_rest_is_not(sent: list[Any]) -> None:
    call(reward_router_address="10.0.0.1:80", reward_model_tokenizer=object(), seconds=3.0)
    assert sent[0][0].seconds == 3.0
    with pytest.raises(TypeError, match="secnods"):
        call(secnods=3.0)


def test_numpy_becomes_json() -> None:
    assert plain({1: Array([Array(2), (3,)])}) == {"1": [2, [3]]}


def test_the_manager_says_what_is_missing() -> None:
    with pytest.raises(
        ImportError, match=r"runs inside verl, which is not here \(tested with verl 0\.9\.1\)"
    ):
        import verifier_service.trainers.verl_manager  # noqa: F401
