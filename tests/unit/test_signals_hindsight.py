"""Hindsight records, and the samples made of them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import scored, unscored
from verifier_service.domain.cases import Body
from verifier_service.domain.disclosure import repeated, shown, stands_in
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
    ({"answer": "7"}, "x", "7 of 9 tests failed", True),
    ({"answer": "7"}, "x", "17 of 70 tests failed: 0.7, x7 and 7.5", False),
    ({"answer": "7"}, "reviewer_rejected", "it is 7", True),
    ({"answer": "7"}, "reviewer_rejected", "17 reasons", False),
    ({"answer": "4"}, "reviewer_rejected", "it is 4", True),
    ({"answer": "42"}, "reviewer_rejected", "why 42?", False),
    ({"smiles": "CCO"}, "reviewer_rejected", "it should be CCO.", True),
    ({"answer": "What is"}, "x", "What is it? was asked", False),
    ({"answer": True}, "reviewer_rejected", "true", False),
    ({}, "x", "anything", False),
    ({"answer": ["", " "]}, "x", "anything", False),
    ({"answer": "4271"}, "x", "is 4271", True),
    ({"k": "N2O"}, "x", "is N2O", True),
    ({"k": "N2O"}, "x", "is N₂O", True),
    ({"answer": "Aspirin"}, "x", "use aspirin", True),
    ({"answer": "acetylsalicylic  acid"}, "x", "Acetylsalicylic\nacid.", True),
    ({"answer": "acetylsalicylic acid"}, "x", "an acid", False),
    ({"answer": 1234567.0}, "x", "should be 1234567", True),
    ({"answer": 0.1234}, "x", "use 0.12340", True),
    ({"answer": 0.5}, "x", "use .5", True),
    ({"answer": 1e22}, "x", "use 1E22", True),
    ({"answer": 1000}, "x", "it is 1,000.00, is it not", True),
    ({"answer": "1 000"}, "x", "it is 1000", True),
    ({"answer": "345"}, "x", "between (12,345)", True),
    ({"answer": "12,345"}, "x", "it is 12.345", False),
    ({"answer": "-98765"}, "x", "98765, but negative", True),
    ({"answer": "98765"}, "x", "not \u221298765", True),
    ({"answer": "98765 kJ"}, "x", "it is 98765", True),
    ({"answer": "98765"}, "x", "it is 98765kJ", True),
    ({"answer": "a long text about nothing, but with 98765"}, "x", "it is 98765", False),
    ({"answer": "between 98765 and 43210"}, "x", "it is 98765", False),
    ({"answer": ">="}, "x", "the sign is >=.", True),
    ({"answer": "."}, "x", "The sign is wrong.", False),
    ({"answer": "secret"}, "secret", "say something else", True),
    ({"answer": "9" * 5_000}, "x", "it is " + "9" * 5_000, True),
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


SAYS = Hint(turn=0, kind="x", text="the value should be 42371")


@pytest.mark.parametrize(
    ("seen", "withheld"),
    [
        ({"turns": (turn(0), Turn(message="so 42371")), "answer": "42371"}, 1),
        ({"turns": (turn(0),), "answer": "42371"}, 1),
        ({"turns": (turn(0),), "inputs": {"hidden": "42371"}}, 1),
        ({"turns": (turn(0),), "metadata": {"hidden": "42371"}}, 1),
        ({"turns": (turn(0, "so 42371"),)}, 0),
        ({"turns": (turn(0, "so -42371"),)}, 1),
        ({"turns": (turn(0, "so 42371.5 and 1.42371 and x42371"),)}, 1),
        ({"turns": (Turn(calls=(ToolCall(arguments={"n": 42371}),)),)}, 0),
        ({"turns": (turn(0),), "prompt": [{"role": "user", "content": "Is it 42371?"}]}, 0),
    ],
)
def test_only_what_the_export_shows_may_be_said_again(seen: dict[str, Any], withheld: int) -> None:
    """Not later turns, nor the answer after them, nor inputs: the reader has none of these."""
    whole = Body(**({"prompt": "What is it?", "reference": {"answer": "42371"}} | seen))
    made = hindsight(unscored(hints=(SAYS,)), whole)
    assert (made.withheld, len(made.hints)) == (withheld, 1 - withheld)
    assert made.turns == whole.turns[:1]


def test_what_was_shown_excuses_only_what_it_shows() -> None:
    """The agent had the number with the other sign, and one of two names in another case."""
    for text, excused in (("it is -42", False), ("42 has the wrong sign", True)):
        made = hindsight(unscored(hints=(Hint(kind="x", text=text),)), body(reference={"answer": "-42"}))
        assert made.withheld == (not excused)
    hint = Hint(kind="x", text="not cco but CCO")
    assert hindsight(unscored(hints=(hint,)), body(answer="cco", reference={"s": "CCO"})).withheld == 1


def test_a_rejections_reason_is_checked_as_hints_are() -> None:
    reason = RewardReason(code=RewardCode.REJECTED, detail="wrong_answer", message="expected 7.0")
    made = hindsight(scored(0.0, reason=reason), body(reference={"answer": 7}))
    assert (made.hints, made.withheld) == ((), 1)


@given(st.text(), st.text(), st.text(alphabet="-+.,'_ 0123456789eE٣²½", max_size=12))
def test_a_text_repeats_itself_whatever_it_is_made_of(before: str, text: str, number: str) -> None:
    for value in (text, number):
        [found, _] = repeated([f"{before} {value} ", before], {"a": [value, before]})
        if any(map(str.isalnum, value)):
            assert found
        assert all(isinstance(stands_in(said, shown([before])), bool) for said in found)


def test_a_large_reference_is_looked_through_quickly() -> None:
    reference = {"tests": [{"expected": n, "text": f"row {n} " * 20} for n in range(20_000)]}
    hints = tuple(Hint(kind="x", text=f"row {n} is not in order") for n in range(-100, 0))
    began = time.process_time()
    assert hindsight(unscored(hints=hints), body(reference=reference)).withheld == 100
    assert time.process_time() - began < 20.0


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


def test_what_was_not_verified_is_never_rejected() -> None:
    """A check that failed gave no number: its sample is no worse than another for that."""
    hint = Hint(kind="style", text="too long")
    better = Correction([{"role": "assistant", "content": "43"}], scored(0.05, "b"))
    for code in (RewardCode.INFRASTRUCTURE, RewardCode.PENDING, RewardCode.REJECTED):
        record = hindsight(unscored(code=code, hints=(hint,)), body())
        with pytest.raises(NotVerified, match="t, to be rejected, has no reward: it is unscored"):
            dpo(record, better)
        assert sft(record, better)["completion"] == better.messages
    assert dpo(exported(hint), better)["rejected"] == [{"role": "assistant", "content": "42"}]


def test_a_pair_has_one_judge_and_one_prompt() -> None:
    said = [{"role": "assistant", "content": "43"}]
    record, alone = exported(), exported(group=None)
    assert (record.ladder, record.ladder_version) == ("l", 1)
    for mistaken, correction, why in (
        (
            record,
            Correction(said, scored(1.0, "b", ladder="other")),
            "by other version 1, the mistake by l",
        ),
        (
            record,
            Correction(said, scored(1.0, "b", ladder_version=2)),
            "version 2, the mistake by l version 1",
        ),
        (record, Correction(said, scored(1.0, "b", group="h")), "b is not of the mistake's group"),
        (record, Correction(said, scored(1.0, "b", group=None)), "b is not of the mistake's group"),
        (record, Correction(said, scored(1.0, "b", run="s")), "b is not of the mistake's group"),
        (alone, Correction(said, scored(1.0, "b", group=None)), "b is not of the mistake's group"),
        (record, Correction(said, scored(1.0, "b"), prompt="What was it?"), "b answers another prompt"),
    ):
        for make in (sft, dpo, chain):
            with pytest.raises(NotVerified, match=why):
                make(mistaken, correction)
    same: tuple[Any, ...] = ("What is it?", [{"role": "user", "content": "What is it?"}])
    for prompt in same:
        elsewhere = Correction(said, scored(1.0, "b", group=None, run="s"), prompt=prompt)
        assert dpo(alone, elsewhere)["chosen"] == said


def test_only_of_what_was_rejected_it_is_said_that_it_was_wrong() -> None:
    hint = Hint(kind="style", text="too long")
    for record, wrongly in ((scored(1.0, hints=(hint,)), False), (unscored(hints=(hint,)), False)):
        made = hindsight(record, body())
        assert made.rejected is wrongly
        assert retry(made)[-1]["content"] == "This was remarked:\n- too long\nTry again."
    assert retry(exported(hint))[-1]["content"].startswith("That was not right:\n- too long\n")


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
