"""An independent oracle: sympy rewrites expressions, and what it calls equal must be accepted."""

from __future__ import annotations

import random

import pytest
import sympy

from tests.unit.test_math_answer import boxed, code

X, Y = sympy.symbols("x y")
REWRITES = (sympy.expand, sympy.factor, sympy.together, sympy.radsimp, sympy.cancel)


def constant(choose: random.Random) -> sympy.Expr:
    kinds = (
        sympy.Integer(choose.randint(1, 9)),
        sympy.Rational(choose.randint(-9, 9), choose.randint(2, 9)),
        sympy.sqrt(choose.randint(2, 12)),
        sympy.cbrt(choose.randint(2, 9)),
        sympy.pi,
        sympy.log(choose.randint(2, 9)),
        sympy.sin(sympy.pi / choose.choice((3, 4, 5, 6, 8, 12))),
        sympy.atan(sympy.Rational(1, choose.randint(1, 4))),
    )
    return choose.choice(kinds)


def expression(choose: random.Random, depth: int, variables: list[sympy.Expr]) -> sympy.Expr:
    if not depth:
        return choose.choice([constant(choose), *variables * 2])
    left, right = (expression(choose, depth - 1, variables) for _ in range(2))
    kind = choose.randrange(6)
    if kind < 2:
        return left + right
    if kind < 4:
        return left * right
    if kind == 4:
        return left / right if right != 0 else left
    return left**2


def written(value: sympy.Expr) -> list[str]:
    """Three ways in which sympy writes an expression."""
    return [
        sympy.latex(value, ln_notation=True),
        sympy.latex(value, ln_notation=True, mul_symbol="dot", root_notation=False),
        str(value).replace("log", "ln"),
    ]


@pytest.mark.parametrize("seed", range(60))
def test_what_sympy_rewrites_is_equal_and_a_little_more_is_not(seed: int) -> None:
    choose = random.Random(seed)
    variables = choose.choice([[], [X], [X, Y]])
    drawn = (expression(choose, choose.choice((1, 2, 3)), variables) for _ in range(100))
    value = next(each for each in drawn if not each.has(sympy.zoo, sympy.nan))
    gold = sympy.latex(value, ln_notation=True)
    for rewrite in REWRITES:
        other = rewrite(value)
        assert {code(boxed(gold, text)) for text in written(other)} == {None}, (gold, other)
        little = sympy.Rational(1, 10 ** choose.randint(1, 60))
        assert code(boxed(gold, sympy.latex(other + little, ln_notation=True))) == "wrong_answer"
