"""What holds for every answer: no surprise, reflexivity, symmetry, and styles that change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.math_pairs import RIGHT, WRONG
from tiers.fast.math_answer import MathAnswer, MathAnswerParams
from tiers.mathematics.judging import BROKE_OFF
from verifier_service.domain.evidence import Failure, Finding
from verifier_service.domain.verifiers import CheckInput

VERIFIER = MathAnswer()

PIECES = [
    *(
        "0",
        "1",
        "2",
        "3",
        "10",
        "0.5",
        "x",
        "y",
        "n",
        "e",
        "i",
        r"\pi",
        r"\infty",
        "+",
        "-",
        "*",
        "/",
        "^",
        "_",
        "!",
    ),
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        r"\{",
        r"\}",
        ",",
        ";",
        ":",
        "=",
        "<",
        r"\le",
        r"\ne",
        r"\approx",
        "|",
        "%",
        "°",
    ),
    *(
        r"\frac",
        r"\sqrt",
        r"\sin",
        r"\ln",
        r"\log_2",
        r"\binom",
        r"\pm",
        r"\cup",
        r"\in",
        r"\text{or}",
        r"\text{cm}",
    ),
    *(
        r"\left(",
        r"\right)",
        r"\begin{pmatrix}",
        r"\end{pmatrix}",
        "&",
        r"\\",
        r"\emptyset",
        r"\mathbb{R}",
        r"\circ",
    ),
    *(
        "½",
        "√",
        "²",
        " ",
        "$",
        r"\overline",
        r"\boxed{",
        "####",
        "and",
        r"\lfloor",
        r"\rfloor",
        r"\cdot",
        "e5",
        "\n",
    ),
]
SHORT = settings(max_examples=300, deadline=None)
answers = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


def outcome(gold: str, response: str) -> Finding | Failure:
    item = CheckInput(candidate=response, reference={"answer": gold}, inputs={"unboxed": "accept"})
    return VERIFIER.attempt(item, MathAnswerParams())


def right(gold: str, answer: str) -> bool:
    found = outcome(gold, f"\\boxed{{{answer}}}")
    assert isinstance(found, Finding), (gold, answer, found)
    return found.score == 1.0


@SHORT
@given(
    st.text(max_size=60) | answers, st.sampled_from(["42", "x+1", r"\{1,2\}", "(0,1)", "x<3", "yes", "(B)"])
)
def test_any_text_is_judged(text: str, gold: str) -> None:
    for response in (text, f"\\boxed{{{text}}}"):
        assert isinstance(outcome(gold, response), Finding)


GOLDS = sorted({gold for table in (RIGHT, WRONG) for rows in table.values() for gold, _ in rows})
TRIED = sorted(
    {answer for table in (RIGHT, WRONG) for rows in table.values() for _, some in rows for answer in some}
)
JOINTS = st.sampled_from(["=", "+", "-", ",", "/", r"\approx", "<", " or ", "^", ""])


@settings(max_examples=1_500, deadline=None)
@given(st.sampled_from(GOLDS), JOINTS, st.sampled_from(TRIED) | answers, st.booleans())
def test_no_answer_makes_a_good_reference_bad(gold: str, joint: str, text: str, beside: bool) -> None:
    """A wrong answer must never become a missing reward."""
    if not isinstance(outcome(gold, f"\\boxed{{{gold}}}"), Finding):
        return
    found = outcome(gold, f"\\boxed{{{gold if beside else ''}{joint}{text}}}")
    assert isinstance(found, Finding), (gold, joint, text)
    assert found.reason is None or BROKE_OFF not in found.reason.message, (gold, joint, text)


@SHORT
@given(answers | st.text(max_size=30), answers)
def test_any_reference_is_read_or_named_as_bad(gold: str, answer: str) -> None:
    found = outcome(gold, f"\\boxed{{{answer}}}")
    assert isinstance(found, Finding) or (found.kind, found.code) == ("task_error", "bad_reference"), found


@SHORT
@given(answers)
def test_what_can_be_read_is_equal_to_itself(text: str) -> None:
    found = outcome(text, text)
    if isinstance(found, Finding) and "boxed" not in text and "####" not in text:
        assert found.score == 1.0, (text, found)


def styles(value: Fraction) -> list[str]:
    """Ways to write one rational."""
    sign, top, bottom = ("-" if value < 0 else ""), abs(value.numerator), value.denominator
    ways = [
        f"{sign}\\frac{{{top}}}{{{bottom}}}",
        f"\\dfrac{{{sign}{top}}}{{{bottom}}}",
        f"{sign}{top}/{bottom}",
        f"${sign}{{{top * 3} \\over {bottom * 3}}}$",
        f"x = {sign}\\tfrac{{{top}}}{{{bottom}}}",
        f"\\left({sign}\\frac{{{top}}}{{{bottom}}}\\right)",
        f"{sign}{top}\\cdot {bottom}^{{-1}}",
        f"{sign}\\frac{{{top * 100}}}{{{bottom}}}\\%",
        f"{sign}{top} \\div {bottom}",
    ]
    if bottom == 1:
        ways += [f"{sign}{top}", f"{sign}{top}.0", f"{sign}{top:,}", f"{sign}{top:,}".replace(",", "{,}")]
    whole, rest = divmod(top, bottom)
    if whole and rest:
        ways += [f"{sign}{whole}\\frac{{{rest}}}{{{bottom}}}", f"{sign}{whole} {rest}/{bottom}"]
    return ways


rationals = st.fractions(min_value=-10_000, max_value=10_000, max_denominator=500)


@SHORT
@given(rationals, st.data())
def test_styles_change_nothing(value: Fraction, data: st.DataObject) -> None:
    gold, answer = (data.draw(st.sampled_from(styles(value))) for _ in range(2))
    assert right(gold, answer), (gold, answer)


@SHORT
@given(rationals, rationals, st.data())
def test_other_values_are_other_values(one: Fraction, two: Fraction, data: st.DataObject) -> None:
    gold, answer = (data.draw(st.sampled_from(styles(value))) for value in (one, two))
    assert right(gold, answer) is (one == two), (gold, answer)


ends = st.sampled_from(["0", "1", r"\frac12", r"\sqrt2", "2", r"\pi", "3.5", "-1", r"-\frac{1}{2}", "10"])
members = st.lists(ends, min_size=2, max_size=5, unique=True)


@SHORT
@given(members, st.randoms())
def test_sets_have_no_order(items: list[str], random: object) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for gold in (f"\\{{{','.join(items)}\\}}", ", ".join(items)):
        for answer in (
            f"\\{{{', '.join(shuffled)}\\}}",
            r" \text{ and } ".join(shuffled),
            ", ".join(shuffled),
        ):
            assert right(gold, answer)
            assert right(answer, gold)


def spellings(low: str, high: str, left: bool, right_: bool) -> Sequence[str]:
    """One interval in brackets and as an inequality."""
    return (
        f"{'[' if left else '('}{low},{high}{']' if right_ else ')'}",
        f"{low} {'≤' if left else '<'} x {'<=' if right_ else '<'} {high}",
        f"{high} {'≥' if right_ else '>'} x {'>=' if left else '>'} {low}",
    )


@SHORT
@given(ends, ends, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_intervals_are_compared_the_same_both_ways(
    one: str, two: str, a: bool, b: bool, c: bool, d: bool
) -> None:
    low, high = ("-7", one) if one != two else (one, "11")
    for gold in spellings(low, high, a, b):
        for answer in spellings(low, high, c, d):
            same = (a, b) == (c, d)
            if gold[0] in "([" and answer[0] in "([":
                same = gold == answer
            assert right(gold, answer) is same, (gold, answer)
            assert right(answer, gold) is same, (gold, answer)


coefficients = st.integers(min_value=-9, max_value=9)


@SHORT
@given(coefficients, coefficients, coefficients, coefficients, st.integers(min_value=1, max_value=5))
def test_polynomials_multiplied_out(a: int, b: int, c: int, d: int, scale: int) -> None:
    factored = f"({a}x+({b}))({c}x+({d}))"
    expanded = f"{a * c}x^2+({a * d + b * c})x+({b * d})"
    assert right(factored, expanded)
    assert right(expanded, factored)
    assert not right(factored, expanded + "+1")
    if a * c:
        equation = f"{scale}({factored})=0"
        assert right(f"{expanded}=0", equation)
        assert not right(f"{expanded}=1", equation)


@SHORT
@given(st.integers(min_value=2, max_value=200), st.integers(min_value=1, max_value=9), st.integers(2, 60))
def test_surds_and_what_is_almost_a_surd(radicand: int, factor: int, digits: int) -> None:
    gold = f"{factor}\\sqrt{{{radicand}}}"
    assert right(gold, f"\\sqrt{{{radicand * factor**2}}}")
    assert right(gold, f"\\frac{{{factor * radicand}}}{{\\sqrt{{{radicand}}}}}")
    assert not right(gold, f"{gold}+10^{{-{digits}}}")
    assert not right(gold, f"\\sqrt{{{radicand * factor**2}+10^{{-{digits}}}}}")
