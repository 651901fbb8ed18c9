"""``math.answer``: hints, what a finding says of its method, tolerance, declaration."""

from __future__ import annotations

import json

import pytest

from tests.unit.test_math_answer import VERIFIER, boxed, code, judge
from tiers.fast.math_answer import MathAnswerParams


@pytest.mark.parametrize(
    ("gold", "answer", "kind"),
    [
        ("7919", "-7919", "sign"),
        (r"\frac{7919}{2}", r"\frac{2}{7919}", "reciprocal"),
        ("79.19", "7919", "percent"),
        (r"7919\text{ cm}", r"7919\text{ kg}", "unit"),
        ("[7,19]", "(7,19)", "brackets"),
        ("(7,19)", "(19,7)", "order"),
        ("7,9,19", "7,9", "members"),
    ],
)
def test_hints_name_the_mistake_and_not_the_reference(gold: str, answer: str, kind: str) -> None:
    finding = boxed(gold, answer)
    assert [hint.kind for hint in finding.hints] == [kind]
    other = boxed("x+123456", "\\frac{1}{x+123456}+1")
    assert "123456" not in other.model_dump_json()


def test_a_finding_says_how_it_was_decided() -> None:
    finding = boxed(r"\frac13", "0.3333333")
    assert finding.labels == {"answer_type": "number", "method": "tolerance", "marker": "boxed"}
    assert any("tolerance" in text for text in finding.assumptions)
    assert boxed(r"\sin^2 x", r"1-\cos^2x").labels["method"] == "points"
    assert boxed(r"1+\sqrt2", r"\sqrt{3+2\sqrt2}").labels["method"] == "exact"
    assert boxed(r"\pi", r"16\arctan\frac15-4\arctan\frac1{239}").labels["method"] == "precision"


def test_the_tolerance_is_relative_and_a_parameter() -> None:
    loose = MathAnswerParams(relative_tolerance=0.01)
    assert code(judge(r"\frac13", "\\boxed{0.333}", loose)) is None
    assert code(judge(r"10^{-30}", "\\boxed{0.0000000000000000000000000000011}", loose)) == "wrong_answer"
    assert code(judge("28", "\\boxed{28.001}", loose)) == "wrong_answer", "28 has an exact decimal"
    strict = MathAnswerParams(relative_tolerance=0.0)
    assert code(judge(r"\frac13", "\\boxed{0.33333333333}", strict)) == "wrong_answer"


def test_the_declaration() -> None:
    info = VERIFIER.info
    assert (info.name, info.on_limit, info.deterministic) == ("math.answer", "reject", True)
    assert VERIFIER.unavailable() is None
    json.dumps(MathAnswerParams.model_json_schema())
