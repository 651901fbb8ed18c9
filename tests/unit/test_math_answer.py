"""``math.answer``: the cases of area 2, its tables of right and wrong answers, its policies."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.math_pairs import RIGHT, WRONG
from tiers.fast.math_answer import MathAnswer, MathAnswerParams
from verifier_service.domain.evidence import Failure, Finding, Verdict
from verifier_service.domain.verifiers import CheckInput

VERIFIER = MathAnswer()


def judge(gold: object, answer: object, params: MathAnswerParams | None = None, **inputs: Any) -> Finding:
    """The finding on a whole response."""
    item = CheckInput.model_validate({"candidate": answer, "reference": {"answer": gold}, "inputs": inputs})
    return VERIFIER.verify(item, params or MathAnswerParams())


def boxed(gold: object, answer: str, **inputs: Any) -> Finding:
    return judge(gold, f"The answer is \\boxed{{{answer}}}.", **inputs)


def code(finding: Finding) -> str | None:
    """The named rejection; ``None`` for an accepted answer."""
    assert (finding.score == 1.0) is (finding.verdict is Verdict.ACCEPT)
    assert (finding.score == 0.0) is (finding.verdict is Verdict.REJECT)
    return finding.reason.code if finding.reason else None


def pairs(table: dict[str, list[tuple[str, list[str]]]]) -> list[tuple[str, str, str]]:
    return [
        (kind, gold, answer) for kind, rows in table.items() for gold, answers in rows for answer in answers
    ]


def test_the_tables_are_large() -> None:
    assert len(pairs(RIGHT)) >= 400
    assert len(pairs(WRONG)) >= 250


@pytest.mark.parametrize("kind", RIGHT)
def test_right_answers_in_every_style(kind: str) -> None:
    refused = [
        (gold, answer, code(boxed(gold, answer)))
        for gold, answers in RIGHT[kind]
        for answer in [gold, *answers]
        if code(boxed(gold, answer)) is not None
    ]
    assert refused == []


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_answers_of_every_kind(kind: str) -> None:
    taken = [
        (gold, answer)
        for gold, answers in WRONG[kind]
        for answer in answers
        if code(boxed(gold, answer)) is None
    ]
    assert taken == []


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"$\frac{1}{2004!}$", r"\boxed{\frac{1}{2006!}}"),
        (r"$\frac{1}{2^{99}}$", r"\boxed{\frac{1}{2^{98}}}"),
        ("$10^{-20}$", r"\boxed{10^{-21}}"),
        (r"$\frac{2^{2005}+1}{3\cdot 2^{2006}}$", r"\boxed{\frac{1}{3\cdot 2^{2006}}}"),
    ],
)
def test_math_01_tiny_values_are_values(gold: str, answer: str) -> None:
    finding = judge(gold, answer)
    assert code(finding) == "wrong_answer"
    assert finding.labels["method"] == "exact"
    assert code(judge(gold, f"\\boxed{{{gold}}}")) is None


def test_math_04_off_the_main_thread() -> None:
    codes: list[object] = []

    def work() -> None:
        for answer in (r"\frac12", r"\sqrt{\frac14}", r"\frac{\sin x}{2\sin x}"):
            codes.append(code(boxed("0.5", answer)))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [None] * 48


@pytest.mark.parametrize(
    ("gold", "answer", "inputs", "expected"),
    [
        ("42", "I considered 42 but the final answer is 7.", {}, "no_final_answer"),
        ("42", "I considered 42 but the final answer is 7.", {"unboxed": "accept"}, "no_final_answer"),
        ("42", "42", {}, "no_final_answer"),
        ("42", "42", {"unboxed": "accept"}, None),
        ("42", " $42$. ", {"unboxed": "accept"}, None),
        ("42", "x = 42", {"unboxed": "accept"}, None),
        ("42", "43", {"unboxed": "accept"}, "wrong_answer"),
        ("42", "42 or 43", {"unboxed": "accept"}, "hedged_answer"),
        ("42", "The answer is 42", {"unboxed": "accept"}, "no_final_answer"),
        ("42", "\\boxed{}", {}, "empty_answer"),
        ("42", "\\boxed{ $ $ }", {}, "empty_answer"),
        ("42", "#### ", {}, "empty_answer"),
        ("42", "", {}, "empty_answer"),
        ("42", None, {}, "empty_answer"),
        ("42", "   ", {"unboxed": "accept"}, "empty_answer"),
        ("42", "\\boxed{42", {}, "unparsable"),
        ("42", 42, {"unboxed": "accept"}, None),
        ("42", {"answer": 42}, {}, "unparsable"),
        ("42", True, {"unboxed": "accept"}, "unparsable"),
    ],
)
def test_math_06_without_a_marker_there_is_no_answer(
    gold: str, answer: object, inputs: dict[str, Any], expected: str | None
) -> None:
    assert code(judge(gold, answer, **inputs)) == expected


def test_the_ladder_may_allow_bare_answers_and_the_task_decides() -> None:
    allowing = MathAnswerParams(unboxed="accept")
    assert code(judge("42", "42", allowing)) is None
    assert code(judge("42", "42", allowing, unboxed="reject")) == "no_final_answer"


@pytest.mark.parametrize(
    ("gold", "answer", "inputs", "expected"),
    [
        (r"28\%", "0.28", {}, None),
        (r"28\%", "28", {"unit": "percent"}, None),
        (r"28\%", r"28\%", {"unit": "percent"}, None),
        ("28", r"28\%", {"unit": "percent"}, None),
        (r"28\%", "0.28", {"unit": "percent"}, "wrong_answer"),
        (r"28\%", "28", {"answer_type": "percent"}, None),
        (r"28\%", "28", {}, "wrong_answer"),
        ("0.28", "28", {}, "wrong_answer"),
        (r"50\%", r"\frac12", {}, None),
        (r"150\%", "1.5", {}, None),
        (r"0.5\%", "0.5", {}, "wrong_answer"),
        (r"\frac{1}{3}", r"33.33333333\%", {}, None),
    ],
)
def test_math_08_percent(gold: str, answer: str, inputs: dict[str, Any], expected: str | None) -> None:
    assert code(boxed(gold, answer, **inputs)) == expected


def test_math_08_off_by_a_hundred_is_told() -> None:
    assert [hint.kind for hint in boxed(r"28\%", "28").hints] == ["percent"]


MATH_10 = [
    ("(0,12.5)", "0<x<12.5", None, True),
    ("x<3", r"(-\infty,3)", None, True),
    (r"(-\infty,3)", "x<3", None, True),
    ("[1,3]", "(1,3)", None, False),
    (r"\{1,3\}", r"\{3,1\}", None, True),
    ("(1,3)", "(3,1)", "point", False),
    ("2x+4y-3=0", r"y=-\frac12 x+\frac34", None, True),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&3\\2&4\end{pmatrix}", None, False),
    ("[1,3]", r"1\le x\le 3", None, True),
    ("(1,3)", "1<x<3", "interval", True),
    ("[1,3]", "(1,3)", "point", True),
    (r"x\le-1\text{ or }x>2", r"(-\infty,-1]\cup(2,\infty)", None, True),
    (r"\{1,2,2\}", r"\{1,2\}", None, True),
    ("1,2,2", "1,2", None, False),
    ("(1,2)", "1,2", "tuple", True),
    ("(1,2)", "2,1", "tuple", False),
    ("1,2", "2,1", "set", True),
]


@pytest.mark.parametrize(("gold", "answer", "kind", "right"), MATH_10)
def test_math_10_sets_intervals_order_both_ways(
    gold: str, answer: str, kind: str | None, right: bool
) -> None:
    inputs = {} if kind is None else {"answer_type": kind}
    assert (code(boxed(gold, answer, **inputs)) is None) is right
    assert (code(boxed(answer, gold, **inputs)) is None) is right


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("2+40=42\n#### 42\n" + " and the check above agrees." * 20, None),
        ("\\boxed{42}" + " and the check above agrees." * 2_000, None),
        ("\\boxed{42}\n\nAs a check, 7 is not the answer." + "\n" * 500, None),
        ("x" * 50_000 + " \\boxed{42}", None),
        ("#### 42\n#### Check\n\\boxed{42}\n#### Remarks", None),
        ("#### 7\n so it is\n#### 42", None),
        ("#### 42\n so it is\n#### 7", "wrong_answer"),
        ("42 #### 7", "no_final_answer"),
        ("<think>\\boxed{7} or \\boxed{8}</think> \\boxed{42}", None),
        ("<think>\\boxed{42}</think> It is 42.", "no_final_answer"),
        ("\\fbox{42}", None),
        ("\\boxed 42", None),
        ("\\boxed{\\boxed{42}}", None),
        ("$$\\boxed{\\text{42}}$$", None),
        ("\\boxedx{42}", "no_final_answer"),
    ],
)
def test_math_12_what_stands_around_the_answer_does_not_matter(response: str, expected: str | None) -> None:
    assert code(judge("42", response)) == expected


@pytest.mark.parametrize(
    ("gold", "response", "expected"),
    [
        ("5", "\\boxed{3} or \\boxed{5}", "hedged_answer"),
        ("3", "\\boxed{3} or \\boxed{5}", "hedged_answer"),
        ("3", "\\boxed{3}\n\nor\n\n\\boxed{5}", "hedged_answer"),
        ("5", "\\boxed{3}, \\boxed{5}", "hedged_answer"),
        ("5", "\\boxed{3}\\boxed{5}", "hedged_answer"),
        ("5", "Either \\boxed{3}; alternatively, reading it otherwise, \\boxed{5}", "hedged_answer"),
        ("5", "The leg is \\boxed{3}, so the hypotenuse is \\boxed{5}.", None),
        ("3", "The leg is \\boxed{3}, so the hypotenuse is \\boxed{5}.", "wrong_answer"),
        ("5", "\\boxed{3}\n\nWait, that is wrong. The answer is \\boxed{5}", None),
        ("5", "\\boxed{5} and again \\boxed{5}", None),
        ("0.5", "\\boxed{\\frac12} or \\boxed{0.5}", None),
        (r"\{3,5\}", "\\boxed{3} and \\boxed{5}", None),
        ("3, 5", "x=\\boxed{5} or x=\\boxed{3}", None),
        ("3, 5", "x=\\boxed{5}", "wrong_answer"),
        ("(B)", "\\boxed{A} or \\boxed{B}", "hedged_answer"),
        ("even", "\\boxed{odd} or \\boxed{even}", "hedged_answer"),
    ],
)
def test_several_boxes(gold: str, response: str, expected: str | None) -> None:
    assert code(judge(gold, response)) == expected


def test_one_response_never_matches_two_golds() -> None:
    golds = ["3", "5", "3/5", "35", r"\{3,5\}", "(3,5)", "[3,5]", "x=3y+5", "3x+5", r"\text{odd}"]
    responses = [
        *(f"\\boxed{{{gold}}}" for gold in golds),
        *("\\boxed{3} or \\boxed{5}", "\\boxed{3}\n\n\\boxed{5}", "\\boxed{3}, so \\boxed{5}"),
        *(
            "\\boxed{3 or 5}",
            "#### 3\n#### 5",
            "\\boxed{3}\n#### 5",
            "\\boxed{x=3=5}",
            "\\boxed{3\\approx5}",
        ),
    ]
    for response in responses:
        taken = [gold for gold in golds if code(judge(gold, response)) is None]
        assert len(taken) <= 1, (response, taken)


@pytest.mark.parametrize(
    ("inputs", "answer", "expected"),
    [
        ({"form": "fraction"}, r"\frac{1}{2}", None),
        ({"form": "fraction"}, r"\frac{2}{4}", "wrong_form"),
        ({"form": "fraction"}, "0.5", "wrong_form"),
        ({"form": "fraction"}, "1/2", None),
        ({"form": "decimal"}, "0.5", None),
        ({"form": "decimal"}, r"\frac12", "wrong_form"),
        ({"form": "decimal"}, "0.6", "wrong_answer"),
        ({}, r"\frac{2}{4}", None),
    ],
)
def test_a_form_counts_only_where_it_is_asked_for(
    inputs: dict[str, Any], answer: str, expected: str | None
) -> None:
    assert code(boxed("1/2", answer, **inputs)) == expected


@pytest.mark.parametrize(
    ("gold", "inputs", "answer", "expected"),
    [
        ("12", {"unit": "cm"}, "12", None),
        ("12", {"unit": "cm"}, r"12\text{ cm}", None),
        ("12", {"unit": "cm"}, r"0.12\text{ m}", None),
        ("12", {"unit": "cm"}, r"12\text{ kg}", "wrong_unit"),
        ("12", {"unit": "cm"}, r"12\text{ m}", "wrong_answer"),
        ("3,5", {"decimal_mark": ","}, "3,5", None),
        ("3,5", {"decimal_mark": ","}, r"\frac72", None),
        ("1.000", {"decimal_mark": ","}, "1000", None),
    ],
)
def test_units_and_marks_are_declared(
    gold: str, inputs: dict[str, Any], answer: str, expected: str | None
) -> None:
    assert code(boxed(gold, answer, **inputs)) == expected


CHOICES = {"A": "12", "B": r"\frac{1}{2}", "C": "none of these"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("B", None),
        ("(B)", None),
        (r"\frac{1}{2}", None),
        (r"B. \frac{1}{2}", None),
        ("A", "wrong_answer"),
        ("12", "wrong_answer"),
        (r"A. \frac{1}{2}", "hedged_answer"),
        ("B. 12", "hedged_answer"),
        ("A or B", "hedged_answer"),
        ("7", "unparsable"),
    ],
)
def test_choices_with_their_texts(answer: str, expected: str | None) -> None:
    assert code(boxed("B", answer, choices=CHOICES)) == expected
    assert code(boxed(r"\text{(B)}", answer, answer_type="choice", choices=CHOICES)) == expected


def test_alternatives() -> None:
    gold = [r"\frac12", "50"]
    assert code(boxed(gold, "0.5")) is None
    assert code(boxed(gold, "50")) is None
    assert code(boxed(gold, "5")) == "wrong_answer"


@pytest.mark.parametrize(
    "gold",
    [
        *(
            "",
            "  ",
            None,
            [],
            {},
            True,
            ["1", None],
            r"\frac{1}{",
            "(1,2",
            "\\boxed{}",
            "{",
            r"\foo{3}",
            "1 2",
        ),
        *(
            "1/0",
            "9^{9^{9^9}}",
            r"10^{10}!!",
            "x" * 7_000,
            r"\sum_{i=1}^n i",
            r"\begin{pmatrix}1&2\\3\end{pmatrix}",
        ),
        *(r"\frac{1}{2}garbage3", "((((" * 100, "3 or", r"\sqrt{2}=\sqrt{3}", r"\ln 0"),
    ],
)
@pytest.mark.parametrize("answer", ["\\boxed{1}", "", "garbage", None])
def test_a_bad_reference_is_nobodys_score(gold: object, answer: object) -> None:
    item = CheckInput.model_validate({"candidate": answer, "reference": {"answer": gold}})
    outcome = VERIFIER.attempt(item, MathAnswerParams())
    assert isinstance(outcome, Failure), outcome
    assert (outcome.kind, outcome.code, outcome.retryable) == ("task_error", "bad_reference", False)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"answer_type": "anything"}, "bad_answer_type"),
        ({"answer_type": ["number"]}, "bad_answer_type"),
        ({"unboxed": "maybe"}, "bad_inputs"),
        ({"unit": 3}, "bad_inputs"),
        ({"choices": {}}, "bad_inputs"),
        ({"choices": {"first": "1"}}, "bad_inputs"),
        ({"form": "nice"}, "bad_inputs"),
        ({"decimal_mark": ";"}, "bad_inputs"),
    ],
)
def test_bad_declarations_are_task_errors(inputs: dict[str, Any], expected: str) -> None:
    item = CheckInput.model_validate(
        {"candidate": "\\boxed{1}", "reference": {"answer": "1"}, "inputs": inputs}
    )
    outcome = VERIFIER.attempt(item, MathAnswerParams())
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.code) == ("task_error", expected)
