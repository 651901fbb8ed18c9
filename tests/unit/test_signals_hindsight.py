"""Hindsight records, and the samples made of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.records import scored, unscored
from verifier_service.domain.cases import Body
from verifier_service.domain.evidence import Hint
from verifier_service.domain.hindsight import HindsightRecord, hindsight, teaches
from verifier_service.domain.rewards import RewardCode, RewardReason
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.trajectories import Observation, ToolCall, Turn
from verifier_service.trainers.hindsight import (
    Correction,
    NotVerified,
    chain,
    context,
    dpo,
    mistake,
    retry,
    sft,
)

REJECTED = RewardReason(code=RewardCode.REJECTED, detail="wrong_answer", message="not the value asked for")


def turn(n: int, message: str | None = None) -> Turn:
    call = ToolCall(id=f"c{n}", name="look", arguments={"n": n})
    seen = Observation(call=f"c{n}", text=f"result {n}")
    return Turn(message=f"step {n}" if message is None else message, calls=(call,), observations=(seen,))


def body(*turns: Turn, answer: Any = "42", reference: dict[str, Any] | None = None) -> Body:
    return Body(prompt="What is it?", turns=turns, answer=answer, reference=reference or {})


def wrong(*hints: Hint, **changes: Any) -> Any:
    return scored(0.0, reason=REJECTED, hints=hints, **changes)


def test_what_teaches() -> None:
    hint = Hint(turn=0, kind="error", text="read it")
    assert teaches(wrong())
    assert teaches(unscored(hints=(hint,)))
    assert teaches(scored(1.0, hints=(hint,)))
    assert not teaches(scored(0.3))
    assert not teaches(unscored())
    assert not teaches(unscored(status=RewardStatus.RETRACTED, hints=(hint,)))


def test_the_first_turn_that_a_hint_names_is_the_mistake() -> None:
    hints = [Hint(turn=n, kind="error", text=f"about {n}") for n in (2, 1)]
    made = hindsight(
        wrong(*hints, Hint(kind="sign", text="The sign is wrong.")), body(turn(0), turn(1), turn(2))
    )
    assert made.mistake == 1
    assert made.turns == (turn(0), turn(1))
    assert made.answer is None
    assert [hint.kind for hint in made.hints] == ["error", "sign", "wrong_answer"]
    assert made.hints[0].text == "about 1"


def test_a_hint_on_a_turn_that_is_not_there_is_one_on_the_whole() -> None:
    for at in (-1, 3):
        made = hindsight(wrong(Hint(turn=at, kind="error", text="x")), body(turn(0)))
        assert made.mistake is None
        assert made.hints[0] == Hint(kind="error", text="x")


GOLDS: list[tuple[dict[str, Any], str, str, bool]] = [
    ({"answer": "98765"}, "x", "it is 98765", True),
    ({"answer": 98765}, "x", "it is 98765", True),
    ({"tests": [{"expected": [{"deep": "secret"}]}]}, "x", "say secret", True),
    ({"answer": "7"}, "x", "7 of 9 tests failed", False),
    ({"answer": "7"}, "reviewer_rejected", "it is 7", True),
    ({"answer": "7"}, "reviewer_rejected", "17 reasons", False),
    ({"answer": "4"}, "reviewer_rejected", "it is 4", True),
    ({"answer": "42"}, "reviewer_rejected", "why 42?", False),
    ({"smiles": "CCO"}, "reviewer_rejected", "it should be CCO.", True),
    ({"answer": "What is"}, "x", "What is it? was asked", False),
    ({"answer": True}, "reviewer_rejected", "true", False),
    ({}, "x", "anything", False),
]


@pytest.mark.parametrize(("reference", "kind", "text", "withheld"), GOLDS)
def test_hints_that_repeat_the_reference_are_withheld(
    reference: dict[str, Any], kind: str, text: str, withheld: bool
) -> None:
    made = hindsight(unscored(hints=(Hint(kind=kind, text=text),)), body(reference=reference))
    assert (made.withheld, len(made.hints)) == ((1, 0) if withheld else (0, 1))
    assert "reference" not in made.model_dump()


@pytest.mark.parametrize("golds", [["42424", "98765"], ["98765", "42424"]])
def test_one_secret_that_was_known_does_not_excuse_another(golds: list[str]) -> None:
    """The agent wrote one alternative itself; the hint says the other, too."""
    hint = Hint(kind="x", text="either 42424 or 98765")
    made = hindsight(unscored(hints=(hint,)), body(answer="42424", reference={"answer": golds}))
    assert made.withheld == 1


def test_what_the_agent_wrote_itself_may_be_said() -> None:
    hint = Hint(kind="x", text="\\frac{9}{16} is not simplified")
    made = hindsight(
        unscored(hints=(hint,)),
        body(answer="\\boxed{\\frac{9}{16}}", reference={"answer": "\\frac{9}{16}"}),
    )
    assert made.withheld == 0


def exported(
    *hints: Hint, turns: tuple[Turn, ...] = (), answer: Any = "42", **changes: Any
) -> HindsightRecord:
    return hindsight(wrong(*hints, **changes), body(*turns, answer=answer))


def test_a_wrong_answer_as_samples() -> None:
    record = exported(Hint(kind="sign", text="The sign is wrong."))
    better = Correction([{"role": "assistant", "content": "-42"}], scored(1.0, "b"))
    asked = [{"role": "user", "content": "What is it?"}]
    said = [{"role": "assistant", "content": "42"}]
    assert sft(record, better) == {"prompt": asked, "completion": better.messages}
    assert dpo(record, better) == {"prompt": asked, "chosen": better.messages, "rejected": said}
    told = retry(record)
    assert told[:2] == [*asked, *said]
    assert told[2]["role"] == "user"
    assert "The sign is wrong." in told[2]["content"]
    assert chain(record, better) == {"prompt": told, "completion": better.messages}


def test_a_wrong_turn_as_samples() -> None:
    record = exported(Hint(turn=1, kind="error", text="read it"), turns=(turn(0), turn(1), turn(2)))
    assert [message["role"] for message in context(record)] == ["user", "assistant", "tool"]
    assert [message["role"] for message in mistake(record)] == ["assistant", "tool"]
    made = dpo(record, Correction([{"role": "assistant", "content": "other"}], scored(0.5, "b")))
    assert [message["content"] for message in made["rejected"]] == ["step 1"]
    assert made["rejected"][0]["tool_calls"][0]["function"] == {"name": "look", "arguments": {"n": 1}}
    assert made["prompt"][-1] == {"role": "tool", "tool_call_id": "c0", "content": "result 0"}


@pytest.mark.parametrize(
    ("sent", "written"),
    [
        ('{"n": 1}', {"n": 1}),
        ('{"n": ', '{"n": '),
        ("[1]", "[1]"),
        (None, {}),
        ({"n": 1}, {"n": 1}),
        ("", ""),
    ],
)
def test_arguments_are_objects_where_they_can_be(sent: Any, written: Any) -> None:
    wrong_call = Turn(calls=(ToolCall(arguments=sent),), observations=(Observation(data={"a": 1}),))
    record = exported(Hint(turn=0, kind="error", text="read it"), turns=(wrong_call,))
    spoken, reply = mistake(record)
    assert spoken["tool_calls"] == [{"type": "function", "function": {"name": "", "arguments": written}}]
    assert reply == {"role": "user", "content": '{"a": 1}'}


def test_a_chat_whose_last_turn_is_the_answer() -> None:
    """Adapters submit chats so: the answer must not be said twice."""
    record = exported(turns=(turn(0), Turn(message="42")))
    assert [message["content"] for message in context(record)] == ["What is it?", "step 0", "result 0"]
    assert mistake(record) == [{"role": "assistant", "content": "42"}]


def test_answers_that_are_objects_or_missing() -> None:
    assert mistake(exported(answer={"xyz": "H"}))[0]["content"] == '{"xyz": "H"}'
    silent = exported(answer=None)
    assert mistake(silent) == []
    with pytest.raises(ValueError, match="no answer to reject"):
        dpo(silent, Correction([{"role": "assistant", "content": "x"}], scored(1.0, "b")))


def test_only_what_was_verified_and_is_better_is_a_correction() -> None:
    record = exported()
    said = [{"role": "assistant", "content": "43"}]
    for other, why in (
        (unscored("b"), "b has no reward: it is unscored"),
        (scored(0.0, "b"), "b has 0, the mistake 0"),
        (scored(0.2, "b", outcome=0.0, process=(1.0,), process_weight=0.2), "b was rejected"),
    ):
        for make in (sft, dpo, chain):
            with pytest.raises(NotVerified, match=why):
                make(record, Correction(said, other))
    with pytest.raises(NotVerified, match="says nothing"):
        sft(record, Correction([], scored(1.0, "b")))
