"""Hostile text: decided by name, within a second, whatever the reference."""

from __future__ import annotations

import time

import pytest

from tiers.fast.math_answer import MathAnswer, MathAnswerParams
from verifier_service.domain.errors import TaskError
from verifier_service.domain.evidence import Finding
from verifier_service.domain.verifiers import CheckInput

VERIFIER = MathAnswer()
GOLDS = [
    "42",
    r"\sqrt2",
    "x^2+1",
    r"\{1,2\}",
    "(1,2)",
    "x<3",
    "2x=y",
    r"\text{even}",
    "(B)",
    r"60^\circ",
    r"\sin x",
]
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)

HOSTILE = [
    *(
        "{" * 100_000 + "}" * 100_000,
        "(" * 100_000 + "1" + ")" * 100_000,
        "-" * 5_000 + "1",
        "2^" * 2_000 + "2",
    ),
    *(
        "9^9^9^9",
        "10^{10}!!",
        "((((10!)!)!)!)!",
        "9" * 100_000,
        "9" * 2_500,
        r"9^{9^{9}}",
        "e^{e^{e^{e^{10}}}}",
    ),
    *(
        "\\frac" * 1_000,
        "\\sqrt" * 1_000 + "2",
        "\\sqrt{" * 30 + "2" + "}" * 30,
        "\\sin" * 1_000 + "x",
        "x!" * 500,
    ),
    *(
        "\\begin{pmatrix}" + "1&" * 100_000 + "1\\end{pmatrix}",
        "\\begin{array}{" + "c" * 5_000 + "}1\\end{array}",
    ),
    "\\begin{pmatrix}" + "\\\\".join("&".join(["1"] * 60) for _ in range(60)) + "\\end{pmatrix}",
    *("٤٢", "４２", "𝟒𝟐", "4\x002", "4\u200b2", "4\u202e2", "х+1", "４2", "42\ufffe"),
    *(
        r"\input{/etc/passwd}",
        "__import__('os').system('id')",
        "Symbol('x')",
        "lambda: 42",
        r"\write18{id}",
        "42;id",
    ),
    *(
        r"\def\x{\x\x}\x",
        r"\newcommand{\a}{42}\a",
        r"\catcode`\{=1",
        "%42\n43",
        r"\operatorname{system}(1)",
    ),
    *(
        r"\underbrace{42}_{43}",
        r"\phantom{43}42",
        r"\cancel{43}42",
        r"\not=42",
        "{42}_{43}",
        r"42\\43",
        "42 43",
    ),
    *("\\{" + ",".join(map(str, range(10**6))) + "\\}", "\\{" + ",".join(map(str, range(1_000))) + "\\}"),
    *("(x+y+z+w+a+b)^{50}", "(x+1)^{1000000}", "(1+1/x)^{x}" * 50, "1/" * 1_000 + "1", "x/" * 1_000 + "x"),
    *(
        "10^{1000000000}",
        "0.1^{10000000}",
        "1e999999999",
        "1e-9999999",
        r"\frac{1}{10^{10^{10}}}",
        "0^0",
        "0^{-1}",
    ),
    *(
        r"\infty-\infty",
        r"42^{\infty}",
        r"\frac{\infty}{\infty}",
        r"\binom{10^9}{5\cdot 10^8}",
        r"\binom{10^{1000}}{2}",
    ),
    *(
        r"\gcd(10^{5000},3)",
        r"\cos{10^{100000}}",
        r"\sin(10^{30})",
        r"\tan\frac{\pi}{2}",
        r"\log_1 5",
        r"\ln 0",
    ),
    *(
        r"\lfloor 10^{50}\pi\rfloor",
        r"\lfloor\pi^{\pi^{\pi^{\pi}}}\rfloor",
        r"\sqrt[0]{2}",
        r"\sqrt[-3]{2}",
    ),
    *(
        "x_{" * 2_000,
        "\\text{" * 1_000,
        "|" * 3_000,
        "|x|" * 500,
        "ab" * 2_900,
        "1+" * 2_400 + "1",
        "\\" * 5_000,
    ),
    *("\\sqrt{2}+" * 600 + "1", "x^{1/3}+" * 300 + "1", "\\sqrt{2}\\sqrt{3}" * 300, "\\pm" * 1_000 + "1"),
    "(" + "+".join(f"\\sqrt{{{prime}}}" for prime in PRIMES) + ")^{30}",
    "+".join(f"\\sqrt[{prime}]{{{prime}}}" for prime in PRIMES),
    "\\{" + ",".join("\\{" * 20 + "1" + "\\}" * 20 for _ in range(40)) + "\\}",
    r"\mathbb{R}\setminus\{" + ",".join(f"\\sin{{{n}}}" for n in range(300)) + r"\}",
    *(
        r"\cosh(\binom{\pi}{10}-\cosh 7)",
        r"e^{\ln i}",
        r"\cosh(\ln i)",
        r"\binom{\pi}{299}^{99}",
        r"(\sin(\pi))!!",
    ),
    *(r"\sum_{i=1}^{10^9} 1", r"\int_0^1 x dx", r"\lim_{x\to0}x", "(-8)^{1/3}", "x^{y^{z^{w}}}"),
    *("42 \\text{ or } 43", "\\text{42 or 43}", "1000000007^{1/2}" * 20, "\\left(" * 1_000, "$" * 5_000),
]


def outcome(gold: str, response: str) -> Finding:
    item = CheckInput(candidate=response, reference={"answer": gold}, inputs={"unboxed": "accept"})
    found = VERIFIER.attempt(item, MathAnswerParams())
    assert isinstance(found, Finding), (gold, response[:80], found)
    return found


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    VERIFIER.warm()


@pytest.mark.parametrize("gold", GOLDS)
def test_hostile_answers_are_rejected_by_name_and_at_once(gold: str) -> None:
    for text in HOSTILE:
        for response in (f"\\boxed{{{text}}}", f"#### {text}", text):
            began = time.process_time()
            found = outcome(gold, response)
            took = time.process_time() - began
            assert found.score == 0.0, (gold, text[:80])
            assert found.reason is not None
            assert took < 20.0, (gold, text[:80], took)


@pytest.mark.parametrize(
    "response",
    [
        "\\boxed{" * 100_000,
        "\\boxed{1}" * 50_000,
        "\\boxed" * 100_000,
        "#### 7\n" * 100_000,
        "{" * 500_000,
        "}" * 500_000 + "\\boxed{7}",
        "\\boxed{" + "\\boxed{" * 1_000 + "7" + "}" * 1_000 + "}",
        "<think>" * 100_000,
        "a" * 2_000_000,
        "\\boxed{7" + "\\" * 100_001 + "}",
    ],
)
def test_hostile_responses_are_searched_in_linear_time(response: str) -> None:
    began = time.process_time()
    assert outcome("42", response).score == 0.0
    assert time.process_time() - began < 20.0


def test_a_message_never_quotes_the_reference() -> None:
    gold = r"\frac{123457}{765431}"
    for text in HOSTILE:
        finding = outcome(gold, f"\\boxed{{{text}}}")
        assert "123457" not in finding.model_dump_json()


def slow_sets(count: int) -> list[str]:
    """Sets whose members only numerical evaluation can tell apart."""
    members = [[f"\\sin({n}+\\sqrt{{{k + 2}}})" for n in range(1, 60)] for k in range(count)]
    return ["\\{" + ",".join(each) + "\\}" for each in members]


def test_references_that_take_too_long_together_are_the_task_s_fault() -> None:
    def judged(gold: list[str], answer: str) -> Finding:
        item = CheckInput(candidate=answer, reference={"answer": gold})
        return MathAnswer().verify(item, MathAnswerParams())

    for answer in ("\\boxed{5}", "5", ""):
        with pytest.raises(TaskError, match="too_large") as raised:
            judged(slow_sets(32), answer)
        assert raised.value.code == "bad_reference"
    assert judged([*slow_sets(1), "5"], "\\boxed{5}").score == 1.0
    assert judged([str(n) for n in range(32)], "\\boxed{31}").score == 1.0
