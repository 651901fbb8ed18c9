"""A scalar tree to its normal form (``forms``), with the values of functions at known arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from math import floor, gcd, lcm

from tiers.mathematics.forms import (
    ONE,
    PI,
    UNIT,
    E,
    Form,
    I,
    atom,
    inverse,
    key,
    minus,
    plus,
    rational,
    times,
    to_power,
)
from tiers.mathematics.integers import bounded_binomial, bounded_factorial, factors
from tiers.mathematics.nodes import (
    Call,
    Const,
    Degrees,
    Node,
    Num,
    Power,
    Product,
    Quotient,
    Rational,
    Sum,
    Sym,
    absolute,
)
from tiers.mathematics.refusals import MAX_BITS, Refusal, too_large

_CONSTANTS = {"pi": PI, "e": E, "i": I}


def normal(node: Node) -> Form:
    """The normal form. Raises ``Refusal`` ``undefined`` or ``too_large``."""
    kind = type(node)
    if kind is Num:
        return rational(node.value)  # type: ignore[attr-defined]
    return _MAKERS[kind](node)


def as_rational(form: Form) -> Rational | None:
    """The rational number that the form is, or ``None``."""
    if form.bottom is not ONE or len(form.top) > 1:
        return None
    return form.top.get(UNIT) if form.top else 0


def _const(node: Const) -> Form:
    if node.name == "inf":
        raise Refusal("undefined", "arithmetic with infinity")
    return atom(_CONSTANTS[node.name])


def _sym(node: Sym) -> Form:
    return atom(("v", node.name))


def _sum(node: Sum) -> Form:
    total = normal(node.terms[0])
    for term in node.terms[1:]:
        total = plus(total, normal(term))
    return total


def _product(node: Product) -> Form:
    result = normal(node.factors[0])
    for factor in node.factors[1:]:
        result = times(result, normal(factor))
    return result


def _quotient(node: Quotient) -> Form:
    return times(normal(node.top), inverse(normal(node.bottom)))


def _degrees(node: Degrees) -> Form:
    return times(normal(node.value), times(rational(Fraction(1, 180)), atom(PI)))


def _power(node: Power) -> Form:
    exponent = normal(node.exponent)
    base = normal(node.base)
    known = as_rational(exponent)
    if known is not None:
        if abs(known) > 2 ** min(MAX_BITS, 4_096):
            raise too_large("an exponent beyond the bound")
        return to_power(base, known)
    if not base.top:
        raise Refusal("undefined", "zero to a power that may not be positive")
    if exponent.bottom is not ONE:
        return atom(("power", key(base), key(exponent)))
    result = rational(1)
    for monomial, coefficient in exponent.top.items():
        if monomial == UNIT:
            result = times(result, to_power(base, coefficient))
        else:
            result = times(result, _power_of(base, monomial, coefficient))
    return result


def _power_of(base: Form, monomial: frozenset[tuple[object, Rational]], coefficient: Rational) -> Form:
    """``base`` to ``coefficient`` × ``monomial``, the base taken apart where that is safe."""
    if base == atom(E):
        if monomial == frozenset({(PI, 1), (I, 1)}):
            angle = Fraction(coefficient)
            return plus(cosine(angle), times(atom(I), sine(angle)))
        if len(monomial) == 1:
            ((name, power),) = monomial
            if isinstance(name, tuple) and name[0] == "ln" and power == 1 and isinstance(name[1], int):
                return to_power(rational(name[1]), coefficient)
        return atom(("exp", monomial), coefficient)
    value = as_rational(base)
    if value is None or value < 0:
        return atom(("power", key(base), monomial), coefficient)
    result = rational(1)
    for number, sign in ((value.numerator, 1), (value.denominator, -1)):
        for prime, times_in in factors(number):
            result = times(result, atom(("power", prime, monomial), sign * times_in * coefficient))
    return result


def logarithm(form: Form) -> Form:
    """The natural logarithm, a product of positive atoms taken apart. Raises ``Refusal`` for ln 0."""
    if not form.top:
        raise Refusal("undefined", "the logarithm of zero")
    if form.bottom is ONE and len(form.top) == 1:
        ((monomial, value),) = form.top.items()
        if value > 0 and all(isinstance(name, int) or name in (PI, E) for name, _ in monomial):
            total = rational(0)
            for number, sign in ((value.numerator, 1), (value.denominator, -1)):
                for prime, power in factors(number):
                    total = plus(total, times(rational(sign * power), atom(("ln", prime))))
            for name, exponent in monomial:
                inner = rational(1) if name == E else atom(("ln", name))
                total = plus(total, times(rational(exponent), inner))
            return total
    return atom(("ln", key(form)))


def turns_of(form: Form) -> Fraction | None:
    """The argument as a multiple of π, if it is a rational one."""
    if not form.top:
        return Fraction(0)
    if form.bottom is ONE and len(form.top) == 1:
        ((monomial, value),) = form.top.items()
        if monomial == frozenset({(PI, 1)}):
            return Fraction(value)
    return None


def sine(turns: Fraction) -> Form:
    """sin(``turns`` × π), in surds for multiples of π/12, else an atom with its angle in (0, π/2)."""
    turns %= 2
    if turns > 1:
        return minus(sine(turns - 1))
    if turns > Fraction(1, 2):
        turns = 1 - turns
    known = _SINES.get(turns)
    if known is None:
        return atom(("sin π", turns))
    result = rational(0)
    for coefficient, radicand in known:
        result = plus(result, times(rational(coefficient), to_power(rational(radicand), Fraction(1, 2))))
    return result


def cosine(turns: Fraction) -> Form:
    """cos(``turns`` × π), as ``sine`` of the complement."""
    return sine(turns + Fraction(1, 2))


_Q, _H = Fraction(1, 4), Fraction(1, 2)
_SINES: Mapping[Fraction, tuple[tuple[Rational, int], ...]] = {
    Fraction(0): (),
    Fraction(1, 12): ((_Q, 6), (-_Q, 2)),
    Fraction(1, 10): ((_Q, 5), (-_Q, 1)),
    Fraction(1, 6): ((_H, 1),),
    Fraction(1, 4): ((_H, 2),),
    Fraction(3, 10): ((_Q, 5), (_Q, 1)),
    Fraction(1, 3): ((_H, 3),),
    Fraction(5, 12): ((_Q, 6), (_Q, 2)),
    Fraction(1, 2): ((1, 1),),
}


def _call(node: Call) -> Form:
    args = tuple(normal(arg) for arg in node.args)
    known = _KNOWN.get(node.name)
    result = known(*args) if known else None
    return atom(("call", node.name, tuple(key(arg) for arg in args))) if result is None else result


def _trigonometric(name: str, form: Form) -> Form | None:
    turns = turns_of(form)
    if turns is None:
        return None
    if name == "sin":
        return sine(turns)
    if name == "cos":
        return cosine(turns)
    if name in ("tan", "sec"):
        top = sine(turns) if name == "tan" else rational(1)
        return times(top, inverse(cosine(turns)))
    top = cosine(turns) if name == "cot" else rational(1)
    return times(top, inverse(sine(turns)))


def _inverse_trigonometric(name: str, form: Form) -> Form | None:
    table = _ARCS[name]
    turns = table.get(key(form))
    if turns is None:
        turns = table.get(key(minus(form)))
        if turns is None:
            return None
        turns = 1 - turns if name == "arccos" else -turns
    return times(rational(turns), atom(PI))


def _arcs() -> Mapping[str, Mapping[object, Fraction]]:
    sines = {key(sine(turns)): turns for turns in _SINES}
    tangents = {
        key(times(sine(turns), inverse(cosine(turns)))): turns
        for turns in _SINES
        if turns != Fraction(1, 2)
    }
    cosines = {key(cosine(turns)): turns for turns in _SINES}
    return {"arcsin": sines, "arccos": cosines, "arctan": tangents}


def _absolute(form: Form) -> Form | None:
    value = as_rational(form)
    return None if value is None else rational(absolute(value))


def _rounded(direction: int, form: Form) -> Form | None:
    value = as_rational(form)
    return None if value is None else rational(direction * floor(direction * value))


def _whole(form: Form) -> int | None:
    value = as_rational(form)
    return value if isinstance(value, int) else None


def _factorial(step: int, form: Form) -> Form | None:
    number = as_rational(form)
    if number is None:
        return None
    if not isinstance(number, int) or number < 0:
        raise Refusal("undefined", "the factorial of what is not a whole number")
    result = bounded_factorial(number, step)
    if result is None:
        return None
    return rational(result)


def _binomial(upper: Form, lower: Form) -> Form | None:
    above, below = _whole(upper), _whole(lower)
    if above is None or below is None:
        return None
    result = bounded_binomial(above, below)
    return None if result is None else rational(result)


def _of_integers(pick: Callable[..., int], *args: Form) -> Form | None:
    numbers = [_whole(arg) for arg in args]
    if any(number is None for number in numbers):
        return None
    return rational(pick(*numbers))


def _of_rationals(pick: Callable[..., Rational], *args: Form) -> Form | None:
    numbers = [as_rational(arg) for arg in args]
    if any(number is None for number in numbers):
        return None
    return rational(pick(*numbers))


def _mod(left: Form, right: Form) -> Form | None:
    number, divisor = as_rational(left), as_rational(right)
    if number is None or divisor is None:
        return None
    if not divisor:
        raise Refusal("undefined", "a remainder of a division by zero")
    return rational(number % divisor)


_KNOWN: Mapping[str, Callable[..., Form | None]] = {
    "ln": logarithm,
    "abs": _absolute,
    "floor": partial(_rounded, 1),
    "ceil": partial(_rounded, -1),
    "factorial": partial(_factorial, 1),
    "factorial2": partial(_factorial, 2),
    "binomial": _binomial,
    "gcd": partial(_of_integers, gcd),
    "lcm": partial(_of_integers, lcm),
    "max": partial(_of_rationals, max),
    "min": partial(_of_rationals, min),
    "mod": _mod,
    **{name: partial(_trigonometric, name) for name in ("sin", "cos", "tan", "cot", "sec", "csc")},
    **{name: partial(_inverse_trigonometric, name) for name in ("arcsin", "arccos", "arctan")},
}
_MAKERS: Mapping[type[Node], Callable[..., Form]] = {
    Const: _const,
    Sym: _sym,
    Sum: _sum,
    Product: _product,
    Quotient: _quotient,
    Degrees: _degrees,
    Power: _power,
    Call: _call,
}
_ARCS = _arcs()
