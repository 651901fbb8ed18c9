"""How calls are written: every fault of model-written arguments is a finding about its turn."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tiers.fast.turns_answers import pair
from tiers.fast.turns_tool_calls import MAX_ARGUMENT_CHARS, MAX_HINTS, TurnsToolCalls
from verifier_service.domain.evidence import Finding, Verdict
from verifier_service.domain.trajectories import Observation, ToolCall, Turn
from verifier_service.domain.verifiers import CheckInput, Params

ANSWERED = Observation(text="ok")


def judge(*turns: Turn) -> Finding:
    return TurnsToolCalls().verify(CheckInput(turns=turns), Params())


def called(arguments: Any = None, *, name: str | None = "search", id_: str | None = None) -> Turn:
    return Turn(calls=(ToolCall(id=id_, name=name, arguments=arguments),), observations=(ANSWERED,))


def kinds(finding: Finding) -> list[tuple[int | None, str]]:
    return [(hint.turn, hint.kind) for hint in finding.hints]


def test_traj_01_each_malformed_call_has_its_name() -> None:
    calls = [
        ToolCall(id="c1", name="search", arguments='{"q": "benzene", "n": 5'),
        ToolCall(id="c2", name="search", arguments="[1,2]"),
        ToolCall(id="c3", arguments="{}"),
        ToolCall(id="c4", name="search", arguments='{"q":1}\n{"q":2}'),
        ToolCall(id="c5", name="noop", arguments=""),
    ]
    finding = judge(*(Turn(calls=(call,)) for call in calls))
    assert kinds(finding) == [
        (0, "invalid_json"),
        (1, "not_an_object"),
        (2, "missing_name"),
        (3, "extra_data"),
        (4, "missing_observation"),
    ]
    assert finding.verdict is Verdict.ACCEPT
    assert finding.per_turn == (0.0,) * 5
    assert finding.score is None


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ("{'q': 1}", "invalid_json"),
        ("{q: 1}", "invalid_json"),
        ('{"q": 1,}', "invalid_json"),
        ('```json\n{"q": 1}\n```', "invalid_json"),
        ('\ufeff{"q": 1}', "invalid_json"),
        ('{"q": "a\nb"}', "invalid_json"),
        ('{"n": ' + "9" * 5_000 + "}", "invalid_json"),
        ("q=1", "invalid_json"),
        ("5", "not_an_object"),
        ('"text"', "not_an_object"),
        ("null", "not_an_object"),
        ("true", "not_an_object"),
        ('"{\\"q\\": 1}"', "not_an_object"),
        ('{"q": 1} // done', "extra_data"),
        ('{"q": 1}}', "extra_data"),
        ("[1] [2]", "extra_data"),
        ('{"q": 1, "q": 2}', "duplicate_key"),
        ('{"a": {"q": 1, "q": 1}}', "duplicate_key"),
        ('{"q": NaN}', "non_finite"),
        ('{"q": [Infinity]}', "non_finite"),
        ('{"q": -Infinity}', "non_finite"),
        ('{"q": 1e999}', "non_finite"),
        ('{"q": ' + "[" * 100 + "]" * 100 + "}", "too_deep"),
        ("[" * 200_000, "too_deep"),
        ('{"a":' * 50_000, "too_deep"),
        ('{"q": "' + "x" * MAX_ARGUMENT_CHARS + '"}', "too_large"),
    ],
)
def test_faults_of_arguments(arguments: str, kind: str) -> None:
    finding = judge(called(arguments))
    assert kinds(finding) == [(0, kind)]
    assert finding.per_turn == (0.0,)


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        "",
        "  \n",
        "{}",
        {},
        {"q": 1},
        '{"q": "NaN, Infinity"}',
        ' {"q": [1, 2.5e3, null]} ',
        '{"q": "[[["}',
        *['{"q": "' + "[{" * 200 + '"}', '{"q": "' + '\\"[' * 200 + '"}'],
    ],
)
def test_well_formed_arguments(arguments: Any) -> None:
    finding = judge(called(arguments))
    assert finding.hints == ()
    assert finding.per_turn == (1.0,)


def test_turns_without_calls_have_no_opinion() -> None:
    finding = judge(Turn(message="thinking"), called("{}"), Turn(message="done"))
    assert finding.per_turn == (None, 1.0, None)
    silent = judge(Turn(message="thinking"))
    assert silent.verdict is Verdict.INCONCLUSIVE
    assert silent.per_turn == (None,)
    assert judge().per_turn == ()


def test_a_turn_is_scored_by_the_share_of_its_calls() -> None:
    calls = (
        ToolCall(id="a", name="x"),
        ToolCall(id="b", name="x", arguments="["),
        ToolCall(id="c", name=" "),
    )
    seen = tuple(Observation(call=each, text="ok") for each in "abc")
    finding = judge(Turn(calls=calls, observations=seen))
    assert finding.per_turn == (pytest.approx(1 / 3),)
    assert [kind for _, kind in kinds(finding)] == ["invalid_json", "missing_name"]


def test_observations_answer_by_id_or_in_order_and_may_come_later() -> None:
    by_id = Turn(
        calls=(ToolCall(id="a", name="x"), ToolCall(id="b", name="y")),
        observations=(Observation(call="b", text="1"),),
    )
    finding = judge(by_id)
    assert kinds(finding) == [(0, "missing_observation")]
    assert finding.per_turn == (0.5,)
    later = judge(Turn(calls=(ToolCall(name="x"),)), Turn(observations=(ANSWERED,)))
    assert later.hints == ()
    assert later.per_turn == (1.0, None)
    early = judge(Turn(observations=(Observation(call="a"),)), Turn(calls=(ToolCall(id="a", name="x"),)))
    assert kinds(early) == [(0, "unknown_call"), (1, "missing_observation")]


def test_unnamed_observations_belong_to_their_own_turn_first() -> None:
    unanswered = Turn(calls=(ToolCall(name="x"),))
    two = Turn(calls=(ToolCall(name="y"),), observations=(ANSWERED, ANSWERED))
    finding = judge(unanswered, two)
    assert kinds(finding) == [(0, "missing_observation")]
    assert finding.per_turn == (0.0, 1.0)


def test_ids_may_be_used_again_in_a_later_turn_but_not_in_the_same() -> None:
    again = Turn(calls=(ToolCall(id="0", name="x"),), observations=(Observation(call="0"),))
    assert judge(again, again).hints == ()
    unanswered = Turn(calls=(ToolCall(id="0", name="x"),))
    assert kinds(judge(unanswered, again)) == [(0, "missing_observation")]
    twice = Turn(
        calls=(ToolCall(id="0", name="x"), ToolCall(id="0", name="y")),
        observations=(Observation(call="0"), Observation(call="0")),
    )
    finding = judge(twice)
    assert kinds(finding) == [(0, "duplicate_id"), (0, "duplicate_id")]
    assert finding.per_turn == (0.0,)


def test_unknown_observations_are_named_and_cost_nothing() -> None:
    finding = judge(
        Turn(
            calls=(ToolCall(id="a", name="x"),),
            observations=(Observation(call="a"), Observation(call="zz")),
        )
    )
    assert kinds(finding) == [(0, "unknown_call")]
    assert finding.per_turn == (1.0,)


def test_hints_are_bounded_and_say_so() -> None:
    finding = judge(*(called("[") for _ in range(MAX_HINTS + 10)))
    assert len(finding.hints) == MAX_HINTS + 1
    assert finding.hints[-1].kind == "truncated"
    assert finding.hints[-1].text.startswith("10 ")
    assert finding.per_turn == (0.0,) * (MAX_HINTS + 10)


@pytest.mark.parametrize(
    "arguments",
    [
        '"' + '\\"' * 300_000 + "{" * 100,
        "{" * 500_000,
        '{"' * 300_000,
        '"' * 600_000,
        '{"a":"' + "\\" * 900_000,
        "[" + "1," * 400_000 + "1]",
        "9" * 900_000,
    ],
)
def test_hostile_arguments_cost_linear_time(arguments: str) -> None:
    started = time.perf_counter()
    judge(called(arguments))
    assert time.perf_counter() - started < 20.0


def test_pairing_keeps_every_call_and_observation() -> None:
    turns = [called("{}", id_=str(number % 3)) for number in range(20)]
    pairing = pair(turns)
    assert len(pairing.steps) == 20
    assert sum(len(step.observations) for step in pairing.steps) + len(pairing.stray) == 20
