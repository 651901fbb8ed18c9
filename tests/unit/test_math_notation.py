"""Notations that careful graders know, each beside what looks like it and is something else."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.unit.test_math_answer import VERIFIER, boxed, code, judge
from tiers.fast.math_answer import MathAnswerParams
from tiers.mathematics.judging import BROKE_OFF
from verifier_service.domain.evidence import Failure
from verifier_service.domain.verifiers import CheckInput

OK, NO = None, "wrong_answer"
Row = tuple[object, str, dict[str, Any], str | None]
NUMBER, SET, POINT = {"answer_type": "number"}, {"answer_type": "set"}, {"answer_type": "point"}
INTERVAL, MATRIX, CHOICE = {"answer_type": "interval"}, {"answer_type": "matrix"}, {"answer_type": "choice"}
UNIT_MATRIX = r"\begin{pmatrix}1&0\\0&1\end{pmatrix}"

TABLE: dict[str, list[Row]] = {
    "sums and products": [
        (r"\sum_{k=1}^{10}k^2", "385", {}, OK),
        (r"\sum_{k=1}^{10}k^2", "384", {}, NO),
        ("55", r"\sum_{i=1}^{10} i", {}, OK),
        ("25", r"\sum_{i=1}^{3}\sum_{j=1}^{i} ij", {}, OK),
        ("1024", r"\sum_{k=0}^{10}\binom{10}{k}", {}, OK),
        ("13", r"2\sum_{k=1}^{3}k+1", {}, OK),
        (r"\frac45", r"\sum\limits_{n=1}^{4}\frac{1}{n(n+1)}", {}, OK),
        (r"1+x+x^2+x^3", r"\sum_{k=0}^3 x^k", {}, OK),
        (r"3+\sqrt2+\sqrt3+\sqrt5", r"\sum_{k=1}^{5}\sqrt{k}", {}, OK),
        (r"\prod_{k=1}^{5}k", "120", {}, OK),
        ("1/6", r"\prod_{k=1}^{5}\left(1-\frac{1}{k+1}\right)", {}, OK),
        ("12", r"\prod_{k=1}^{3}k\cdot 2", {}, "unparsable"),
        ("5", r"\sum_{k=1}^{n}k", {}, "unparsable"),
        ("2", r"\sum_{k=0}^{\infty}2^{-k}", {}, "unparsable"),
        ("0", r"\sum_{k=1}^{0}k", {}, "unparsable"),
        ("0", r"\sum_{k=-1}^{1}\frac1k", {}, "undefined"),
        ("3", r"\sum_{k=1}^{2}\sum_{k=1}^{2}k", {}, "unparsable"),
        ("3", r"\sum 3", {}, "unparsable"),
    ],
    "brackets that group": [
        ("3", r"\tfrac{1}{2}\left[3+\left(4-1\right)\right]", NUMBER, OK),
        ("3", r"\tfrac{1}{2}\left[3+\left(4-1\right)\right]", {}, OK),
        ("-7", "-[3+4]", {}, OK),
        ("7", "[3+4]", NUMBER, OK),
        ("7", "[7]", {}, NO),
        ("7", "[3,4]", NUMBER, NO),
    ],
    "open intervals that point outwards": [
        ("(1,3)", "]1,3[", {}, OK),
        ("[1,3)", "[1,3[", {}, OK),
        ("(1,3]", "]1,3]", {}, OK),
        ("[1,3]", "]1,3[", {}, NO),
        (r"[1,3)\cup(4,5]", r"[1,3[\cup]4,5]", {}, OK),
        (r"(-\infty,3)", r"\left]-\infty,3\right[", {}, OK),
        ("]0,1[", "0<x<1", INTERVAL, OK),
        ("(1,3)", "]1,3[", POINT, NO),
        ("5", "]5[", {}, "unparsable"),
        ("(1,2,3)", "]1,2,3[", {}, "unparsable"),
        ("(1,3)", "]3,1[", {}, "unparsable"),
    ],
    "distances": [
        ("-1<x<3", "|x-1|<2", {}, OK),
        ("|x-1|<2", "(-1,3)", INTERVAL, OK),
        ("-1<x<3", "2>|1-x|", {}, OK),
        (r"(-\infty,-1]\cup[2,\infty)", r"|2x-1|\ge 3", {}, OK),
        (r"x\ne 0", "|x|>0", {}, OK),
        (r"-1\le x\le 1", "|x|<1", {}, NO),
        ("-1<x<3", "|x|<2", {}, NO),
        (r"-1\le x\le1", r"|x^2|\le 1", {}, NO),
        (r"\mathbb{R}", "|x|>-1", {}, OK),
        (r"(-1,1)", "|x|>-1", {}, NO),
    ],
    "points and vectors": [
        ("(3,4)", "P(3,4)", POINT, OK),
        ("(3,4)", "A'(3,4)", POINT, OK),
        ("(3,4)", "P_1(3,4)", POINT, OK),
        ("(3,4)", "P(4,3)", POINT, NO),
        ("(3,4)", "P(3,4)", INTERVAL, "unparsable"),
        ("12", "P(3,4)", {}, "unparsable"),
        (r"\mathbf{v}=\langle 3,4\rangle", r"\langle 3,4\rangle", {}, OK),
        (r"\mathbf{v}=\langle 3,4\rangle", r"\vec v=\langle 3,4\rangle", {}, NO),
        (r"\mathbf{v}=\langle 3,4\rangle", r"\langle 4,3\rangle", {}, NO),
    ],
    "matrices": [
        (r"\begin{pmatrix}\frac12&0\\0&\frac12\end{pmatrix}", r"\frac12" + UNIT_MATRIX, {}, OK),
        (r"\begin{pmatrix}-1&0\\0&-1\end{pmatrix}", "-" + UNIT_MATRIX, {}, OK),
        (r"\begin{pmatrix}3&0\\0&3\end{pmatrix}", r"3\cdot" + UNIT_MATRIX, {}, OK),
        (
            r"\begin{pmatrix}x&0\\0&x\end{pmatrix}",
            r"x\left(\begin{array}{cc}1&0\\0&1\end{array}\right)",
            {},
            OK,
        ),
        (r"\begin{pmatrix}-1&0\\0&-1\end{pmatrix}", UNIT_MATRIX, {}, NO),
        (UNIT_MATRIX, r"\begin{pmatrix}1&0\\[4pt]0&1\end{pmatrix}", MATRIX, OK),
        (UNIT_MATRIX, UNIT_MATRIX + UNIT_MATRIX, {}, "unparsable"),
        (UNIT_MATRIX, UNIT_MATRIX + "^2", {}, "unparsable"),
        (UNIT_MATRIX, UNIT_MATRIX + "+0", {}, "unparsable"),
    ],
    "layout and letters": [
        ("86,400", r"86\!,400", {}, OK),
        ("86,400", r"86\!,401", {}, NO),
        ("5", r"\large 5", {}, OK),
        (r"\frac{\hbar\omega}{2}", r"\frac12\hbar\omega", {}, OK),
        (r"\frac{\hbar\omega}{2}", r"\frac12 h\omega", {}, NO),
        (r"{10 \choose 3}", "120", {}, OK),
        ("3{:}4", "3:4", {}, OK),
        ("10{:}45", "10:45", {"answer_type": "text"}, OK),
        ("10{:}45", "10:54", {"answer_type": "text"}, NO),
    ],
    "words for numbers": [
        ("7", "seven", {}, OK),
        ("7", r"\text{Seven}", {}, OK),
        ("seven", "7", {}, OK),
        ("7", "eight", {}, NO),
        ("27", "twenty seven", {}, "unparsable"),
        ("3:2", "3 to 2", {}, OK),
        ("3:2", r"3\text{ to }2", {}, OK),
        ("3:2", "2 to 3", {}, NO),
        (r"\{3,5,7\}", "[3,5,7]", SET, OK),
        (r"\{3,5,7\}", "[3,5]", SET, NO),
        (r"\{3,5\}", "[3,5]", SET, NO),
        (r"\{3,5,7\}", "[3,5,7]", {}, NO),
    ],
    "units": [
        ("45", r"45^\circ", {"unit": "degrees"}, OK),
        (r"22.5^\circ", r"22\frac12^\circ", {}, OK),
        (r"\pi", r"\pi^\circ", {}, NO),
        (r"\frac{\pi}{3}", r"60^\circ", {}, OK),
        (r"60^\circ", "60", {}, OK),
        ("5", r"5\text{ per cent}", {}, NO),
        ("0.05", r"5\text{ per cent}", {}, OK),
        ("2", r"2\text{ pairs}", {"unit": "shoes"}, "wrong_unit"),
        (r"2\text{ shoes}", r"2\text{ pairs}", {}, "wrong_unit"),
        ("2", r"2\text{ Shoe}", {"unit": "shoes"}, OK),
        ("18", "18''", {}, OK),
        (r"18\text{ inches}", "18''", {}, OK),
        (r"18\text{ inches}", "18'", {}, NO),
        (r"5\text{ cm}", r"5\text{ cm}=5\text{ m}", {}, "hedged_answer"),
        (r"5\text{ cm}", r"5\text{ cm}=0.05\text{ m}", {}, OK),
        (r"28\%", r"28\%=28", {}, "hedged_answer"),
        (r"28\%", r"28\%=0.28", {}, OK),
    ],
    "about": [
        ("42", r"x\approx 42", {}, NO),
        ("x=42", r"x\approx 42", {}, NO),
        ("42", "x=42", {}, OK),
        ("3.5", r"x\approx 3.5", {}, OK),
        (r"\frac13", r"x=\frac13\approx 0.33", {}, OK),
        (r"\sqrt2", r"x\approx 1.41421356", {}, OK),
        (r"x\approx 42", r"x\approx 42", {}, OK),
        ("42", r"\infty=42", {}, "hedged_answer"),
        ("42", r"42=\infty", {}, "hedged_answer"),
    ],
    "choices": [
        ("B", r"\text{B if A is wrong, else A}", CHOICE, "hedged_answer"),
        ("B", r"\text{B unless A}", CHOICE, "hedged_answer"),
        ("B", r"\text{B) 12}", CHOICE, OK),
        ("B", r"\text{B) 12, otherwise 13}", CHOICE, "hedged_answer"),
        ("B", r"\text{(B) twelve}", CHOICE, OK),
        ("B", r"\text{B twelve}", CHOICE, "unparsable"),
    ],
    "bases": [
        ("1011_2", "11", {}, OK),
        ("1011_2", "1011", {}, NO),
        (["1011_2", "1011"], "1011", {}, OK),
    ],
    "decimals": [
        ("2681.6757", "2681.6758", {}, NO),
        ("1234567.89", "1234567.88", {}, NO),
        ("12345678.0", "12345679.0", {}, NO),
        ("3.14159", "3.1415901", {}, OK),
        ("0.3", "0.30000000000000004", {}, OK),
        ("1e-400", "2e-400", {}, NO),
    ],
}


@pytest.mark.parametrize("kind", TABLE)
def test_notations(kind: str) -> None:
    found = [
        (gold, answer, inputs, code(boxed(gold, answer, **inputs)))
        for gold, answer, inputs, _ in TABLE[kind]
    ]
    assert found == TABLE[kind]


def test_what_stands_in_square_brackets_after_the_marker_is_no_answer() -> None:
    assert code(judge("42", r"\boxed[42]{7}", **NUMBER)) == "empty_answer"


def test_a_larger_tolerance_holds_between_decimals() -> None:
    loose = MathAnswerParams(relative_tolerance=0.01)
    assert code(judge("12.50", "\\boxed{12.51}", loose)) is None
    assert code(judge("12.50", "\\boxed{12.51}")) == NO


SUMS = [
    *(r"\sum_{k=1}^{3000}k^k", r"\sum_{k=1}^{3000}\binom{20000}{k}\bmod 7", r"\sum_{k=1}^{3000}k!/k!"),
    *(r"\sum_{i=1}^{3000}\sum_{j=1}^{3000}1", r"\sum_{k=1}^{3000}\frac{2^{9999}}{2^{9999}}"),
    *(r"\prod_{k=1}^{3000}k^k", r"\sum_{k=1}^{3000}\sin(k\pi/7)", r"\sum_{k=1}^{3000}\frac{1}{2^k+1}"),
    *(r"\sum_{k=1}^{10^{9}}1", r"\sum_{k=-10^{99}}^{10^{99}}k", r"\sum_{k=1}^{3000}" + "9" * 1_900 + "k"),
    *(r"\sum_{a=1}^{50}\sum_{b=1}^{50}\sum_{c=1}^{50}abc", "20000!+" * 500 + "1", "9^{9999}+" * 600 + "1"),
]


@pytest.mark.parametrize("text", SUMS)
def test_large_sums_end_at_once(text: str) -> None:
    for gold in ("42", r"\sqrt2", "x+1"):
        began = time.process_time()
        assert code(boxed(gold, text)) == "too_large"
        assert time.process_time() - began < 20.0


@pytest.mark.parametrize(
    ("gold", "inputs"),
    [
        ("nan", NUMBER),
        ("NaN", {}),
        ("null", {}),
        ("lambda: 42", NUMBER),
        ("2x", NUMBER),
        ("x=y", NUMBER),
        (r"\text{}", {"answer_type": "text"}),
        (r"\text{ }", {}),
        (float("nan"), {}),
        (float("inf"), {}),
        (r"\sqrt{-1-x^2}", {}),
        (r"\sum_{k=1}^{n}k", {}),
    ],
)
def test_references_that_are_none(gold: object, inputs: dict[str, Any]) -> None:
    for answer in (str(gold), "42", ""):
        item = CheckInput.model_construct(
            candidate=f"\\boxed{{{answer}}}", inputs=inputs, reference={"answer": gold}, prompt="", turns=()
        )
        outcome = VERIFIER.attempt(item, MathAnswerParams())
        assert isinstance(outcome, Failure), (gold, answer)
        assert (outcome.kind, outcome.code) == ("task_error", "bad_reference")


@pytest.mark.parametrize(
    "gold",
    [
        *(r"\arcsin(10x)+C", r"\ln(x-100)", r"\sqrt{x-1000}", r"\sqrt{(x-1)(2-x)}", r"n^{n^{n}}"),
        *(
            r"\binom{n}{k}",
            r"\sqrt{1-x^2-y^2-z^2}",
            r"\ln(\ln x)",
            r"(-1)^n",
            "x = 5",
            "na",
        ),
        *("42", "3.5", "[42]"),
    ],
)
def test_references_that_are_some(gold: str) -> None:
    assert code(boxed(gold, gold)) is None
    assert code(boxed(gold, "43")) is not None


@pytest.mark.parametrize("gold", [42, 3.5, [42], ["42", 7], 0])
def test_finite_numbers_of_json_are_references(gold: Any) -> None:
    for each in gold if isinstance(gold, list) else [gold]:
        assert code(boxed(gold, str(each))) is None
    assert code(boxed(gold, "43")) == NO


@pytest.mark.parametrize(
    "text", [r"3.\overline", r"\cos^\begin{pmatrix}1&2\end{pmatrix}x", "10^{30}^1,000"]
)
def test_nothing_breaks_off_the_comparison(text: str) -> None:
    for gold in ("10^{30}", r"\frac{3}{2(x-1)}"):
        finding = boxed(gold, text)
        assert finding.reason is not None
        assert BROKE_OFF not in finding.reason.message


def test_an_answer_that_does_is_refused_and_not_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    from tiers.mathematics import judging

    def broken(*_: object, **__: object) -> object:
        raise KeyError("what nobody foresaw")

    assert code(boxed("3.25", "1")) == NO
    monkeypatch.setattr(judging, "same_answer", broken)
    finding = boxed("3.25", "1")
    assert code(finding) == "undecided"
    assert finding.reason is not None
    assert "foresaw" not in finding.reason.message
