"""What came back: errors, failed commands and repeats in vain."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tiers.fast.turns_errors import WINDOW, TurnsErrors
from tiers.fast.turns_tool_calls import TurnsToolCalls
from verifier_service.domain.evidence import Finding, Verdict
from verifier_service.domain.trajectories import Observation, ToolCall, Turn
from verifier_service.domain.verifiers import CheckInput, Params

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: bad\n'


def judge(*turns: Turn) -> Finding:
    return TurnsErrors().verify(CheckInput(turns=turns), Params())


def step(name: str = "run", arguments: Any = None, **observation: Any) -> Turn:
    return Turn(
        calls=(ToolCall(name=name, arguments=arguments),), observations=(Observation(**observation),)
    )


def kinds(finding: Finding) -> list[tuple[int | None, str]]:
    return [(hint.turn, hint.kind) for hint in finding.hints]


@pytest.mark.parametrize(
    ("observation", "kind"),
    [
        ({"text": "no such file", "is_error": True}, "error"),
        ({"data": {"error": "quota"}}, "error"),
        ({"data": {"error": True}}, "error"),
        ({"data": {"exit_code": 1}}, "exit_code"),
        ({"data": {"returncode": -9}, "text": "killed"}, "exit_code"),
        ({"data": {"exitCode": "127"}}, "exit_code"),
        ({"text": TRACEBACK}, "traceback"),
        ({"text": "step 1\n" + TRACEBACK + "[exit code: 1]"}, "traceback"),
        ({"text": "make: *** [all] Error 2\nexit code 2"}, "exit_code"),
        ({"text": "Process exited with code 137"}, "exit_code"),
        ({"text": "Exit status: 2\nls: cannot access"}, "exit_code"),
        ({"text": "KeyError: 'smiles'"}, "exception"),
        ({"text": "loading\nrdkit.Chem.rdchem.AtomValenceException: bad valence"}, "exception"),
        ({"text": "Error: connection refused"}, "exception"),
        ({"text": "output\nKeyboardInterrupt"}, "exception"),
        ({"text": "x" * 200_000 + "\n" + TRACEBACK}, "traceback"),
        ({"text": TRACEBACK + "x" * 200_000}, "traceback"),
    ],
)
def test_failures_are_found(observation: dict[str, Any], kind: str) -> None:
    finding = judge(step(**observation))
    assert kinds(finding) == [(0, kind)]
    assert finding.per_turn == (0.0,)
    assert finding.score is None


@pytest.mark.parametrize(
    "observation",
    [
        {"text": "ok"},
        {"text": ""},
        {},
        {"text": "exit code 0"},
        {"text": TRACEBACK + "retried\nexit code: 0"},
        {"data": {"exit_code": 0}, "text": TRACEBACK},
        {"data": {"error": None, "rows": 3}},
        {"data": {"error": 0.03}},
        {"data": {"exit_code": None}},
        {"data": [1, 2]},
        {"text": "An Error is raised when the key is missing."},
        {"text": "Exit: north, south"},
        {"text": "#!/bin/sh\nset -e\nexit 1\n"},
        {"text": "The log says 'Traceback (most recent call last):' when it fails."},
        {"text": "0 errors, 0 warnings"},
        {"text": "Standard Error: 0.1\nmean 3"},
    ],
)
def test_ordinary_results_pass(observation: dict[str, Any]) -> None:
    finding = judge(step(**observation))
    assert finding.hints == ()
    assert finding.per_turn == (1.0,)


def test_turns_without_calls_or_observations_have_no_opinion() -> None:
    finding = judge(Turn(message="hm"), step(text="ok"))
    assert finding.per_turn == (None, 1.0)
    assert judge(Turn(message="hm")).verdict is Verdict.INCONCLUSIVE


def test_a_failure_counts_in_the_turn_that_made_the_call() -> None:
    finding = judge(
        Turn(calls=(ToolCall(id="a", name="run"),)),
        Turn(message="waiting", observations=(Observation(call="a", is_error=True),)),
    )
    assert kinds(finding) == [(0, "error")]
    assert finding.per_turn == (0.0, None)


def test_a_turn_is_scored_by_the_share_of_its_calls() -> None:
    turn = Turn(
        calls=tuple(ToolCall(id=each, name="run", arguments={"n": each}) for each in "abcd"),
        observations=tuple(Observation(call=each, is_error=each == "b") for each in "abcd"),
    )
    assert judge(turn).per_turn == (0.75,)


def test_repeats_are_found_whatever_the_key_order_and_spacing() -> None:
    finding = judge(
        step(arguments='{"a": 1, "b": 2}', text="same"),
        step(arguments={"b": 2, "a": 1}, text="same"),
        step(arguments='{"b":2,"a":1}', text="same"),
    )
    assert kinds(finding) == [(1, "repeated_call"), (2, "repeated_call")]
    assert finding.per_turn == (1.0, 0.0, 0.0)


def test_empty_missing_and_object_arguments_are_the_same() -> None:
    finding = judge(*(step(arguments=each, text="t") for each in (None, "", "{}", {}, " { } ")))
    assert [kind for _, kind in kinds(finding)] == ["repeated_call"] * 4


def test_polling_that_brings_news_is_no_repeat() -> None:
    finding = judge(*(step(name="status", text=f"{percent}%") for percent in (10, 50, 100)))
    assert finding.hints == ()
    other = judge(
        step(name="a", text="x"), step(name="b", text="x"), step(name="a", arguments={"n": 1}, text="x")
    )
    assert other.hints == ()


def test_a_failed_call_repeated_unchanged_is_named_and_a_successful_retry_is_not() -> None:
    finding = judge(step(is_error=True), step(is_error=True, text="again"), step(text="fine"))
    assert kinds(finding) == [(0, "error"), (1, "repeated_failure")]
    assert finding.per_turn == (0.0, 0.0, 1.0)


def test_malformed_arguments_are_compared_as_text() -> None:
    finding = judge(step(arguments="{bad", text="x"), step(arguments="{bad", text="x"))
    assert kinds(finding) == [(1, "repeated_call")]
    deep = "[" * 15_000
    assert kinds(judge(step(arguments=deep, text="x"), step(arguments=deep, text="x"))) == [
        (1, "repeated_call")
    ]


def test_long_texts_are_read_at_both_ends_and_labelled() -> None:
    middle = "x" * (2 * WINDOW) + "\n" + TRACEBACK + "x" * (2 * WINDOW)
    finding = judge(step(text=middle))
    assert finding.labels == {"truncated": "true"}
    assert finding.per_turn == (1.0,)
    assert judge(step(text="short")).labels == {}


def test_traj_07_ten_thousand_turns_take_linear_time() -> None:
    def trajectory(length: int) -> CheckInput:
        return CheckInput(
            turns=tuple(step(arguments=f'{{"q": "a{number}"}}', text="o") for number in range(length))
        )

    item = trajectory(10_000)
    started = time.perf_counter()
    for check in (TurnsErrors(), TurnsToolCalls()):
        finding = check.verify(item, Params())
        assert finding.per_turn == (1.0,) * 10_000
    assert time.perf_counter() - started < 20.0


def test_traj_07_an_enormous_observation_is_not_scanned_through() -> None:
    turn = step(arguments={"f": "big"}, text="x" * 50_000_000)
    started = time.perf_counter()
    finding = judge(turn, turn)
    assert time.perf_counter() - started < 20.0
    assert finding.labels == {"truncated": "true"}
    assert kinds(finding) == [(1, "repeated_call")]


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 32_000,
        " " * 32_000,
        "a." * 16_000,
        "w" * 32_000 + "Error",
        "exit code " * 3_000,
        "exit " * 6_000,
    ],
)
def test_hostile_texts_cost_linear_time(text: str) -> None:
    started = time.perf_counter()
    judge(step(text=text), step(text=text + "!"))
    assert time.perf_counter() - started < 20.0
