"""Exact normal forms: quotients of sums of monomials with rational coefficients.

A monomial is a set of (atom, exponent). Atoms are prime numbers under a fractional exponent, ``π``, ``e``,
``i``, variables, logarithms of primes, and whatever could not be taken apart, as a key of its own
normal form. Equal forms are equal values; unequal forms are unequal values only where ``decisive``.
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from math import floor, gcd, lcm
from typing import NamedTuple

from tiers.mathematics.effort import spend_pairs
from tiers.mathematics.integers import certainly_prime, factors
from tiers.mathematics.nodes import Rational, absolute
from tiers.mathematics.refusals import MAX_BITS, MAX_TERMS, Refusal, too_large

Atom = int | tuple[Hashable, ...]
Monomial = frozenset[tuple[Atom, Rational]]
Poly = dict[Monomial, Rational]

UNIT: Monomial = frozenset()
PI: Atom = ("pi",)
E: Atom = ("e",)
I: Atom = ("i",)  # noqa: E741 - its name in mathematics
MAX_EXPANSION = 200
_POSITIVE = frozenset({"pi", "e", "abs"})


class Form(NamedTuple):
    """``top`` over ``bottom``; ``bottom`` is 1 or has at least two terms."""

    top: Poly
    bottom: Poly


ONE: Poly = {UNIT: 1}


def rational(value: Rational) -> Form:
    """The form of a rational number."""
    return Form({UNIT: value} if value else {}, ONE)


def atom(name: Atom, exponent: Rational = 1) -> Form:
    """The form of one atom to a power."""
    coefficient, monomial = _monomial({name: exponent})
    return Form({monomial: coefficient}, ONE)


def key(form: Form) -> Hashable:
    """A hashable that is equal for equal forms."""
    top = frozenset(form.top.items())
    return top if form.bottom is ONE else (top, frozenset(form.bottom.items()))


def plus(left: Form, right: Form) -> Form:
    """The sum."""
    if left.bottom is ONE and right.bottom is ONE:
        return Form(_sum(left.top, right.top), ONE)
    if left.bottom == right.bottom:
        return _over(_sum(left.top, right.top), left.bottom)
    crossed = _sum(_product(left.top, right.bottom), _product(right.top, left.bottom))
    return _over(crossed, _product(left.bottom, right.bottom))


def times(left: Form, right: Form) -> Form:
    """The product."""
    top = _product(left.top, right.top)
    if left.bottom is ONE and right.bottom is ONE:
        return Form(top, ONE)
    return _over(top, _product(left.bottom, right.bottom))


def minus(form: Form) -> Form:
    """The negative."""
    return Form({monomial: -value for monomial, value in form.top.items()}, form.bottom)


def inverse(form: Form) -> Form:
    """One over the form. Raises ``Refusal`` ``undefined`` for zero."""
    if not form.top:
        raise Refusal("undefined", "a division by zero")
    return _over(form.bottom, form.top)


def difference_is_zero(left: Form, right: Form) -> tuple[bool, bool]:
    """Whether the forms are equal by cross-multiplication, and whether a "no" is a proof."""
    if left.bottom is ONE and right.bottom is ONE:
        if left.top == right.top:
            return True, True
        rest = _sum(left.top, minus(right).top)
    else:
        rest = _sum(
            _product(left.top, right.bottom), minus(Form(_product(right.top, left.bottom), ONE)).top
        )
    return not rest, decisive(rest)


def decisive(poly: Poly) -> bool:
    """Whether the monomials are known to be linearly independent over the rationals.

    Products of fractional powers of distinct primes are (A. Besicovitch, J. London Math. Soc. 1940, 15,
    3), also with ``i``, with variables, and with one transcendental among ``π`` and ``e``.
    """
    transcendental = set()
    for monomial in poly:
        for name, exponent in monomial:
            if isinstance(name, int):
                if not isinstance(exponent, Fraction) or not certainly_prime(name):
                    return False  # a power too large to be worked out, or perhaps no prime
            elif name in (PI, E):
                transcendental.add(name)
                if len(transcendental) > 1 or not isinstance(exponent, int):
                    return False
            elif not (name == I or (name[0] == "v" and isinstance(exponent, int))):
                return False
    return True


def to_power(form: Form, exponent: Rational) -> Form:
    """A rational power; what cannot be taken apart becomes an atom."""
    if isinstance(exponent, int) or exponent.denominator == 1:
        return _integer_power(form, int(exponent))
    if not form.top:
        if exponent > 0:
            return form
        raise Refusal("undefined", "a division by zero")
    if form.bottom is ONE and len(form.top) == 1:
        ((monomial, value),) = form.top.items()
        return _root_of_term(value, monomial, exponent)
    return _root_of_sum(form, exponent)


def _root_of_term(value: Rational, monomial: Monomial, exponent: Rational) -> Form:
    outside: dict[Atom, Rational] = {}
    inside: dict[Atom, Rational] = {}
    for name, power in monomial:
        free = isinstance(name, int) or name[0] in _POSITIVE or (name[0] == "v" and power == 1)
        (outside if free else inside)[name] = power * exponent if free else power
    result = rational(1)
    if value < 0:
        value = -value
        if inside or any(not isinstance(name, int) and name[0] == "v" for name, _ in monomial):
            outside = {name: power for name, power in outside.items() if isinstance(name, int)}
            inside = {name: power for name, power in monomial if not isinstance(name, int)}
            inside[("-",)] = 1
        elif exponent.denominator % 2:
            result = rational(-1 if exponent.numerator % 2 else 1)
        elif exponent.denominator == 2:
            result = atom(I, exponent.numerator)
        else:
            inside[("-",)] = 1
    for number, sign in ((value.numerator, 1), (value.denominator, -1)):
        for prime, power in factors(number):
            outside[prime] = outside.get(prime, 0) + sign * power * exponent
    if inside:
        outside[("root", frozenset(inside.items()))] = exponent
    coefficient, found = _monomial(outside)
    return times(result, Form({found: coefficient}, ONE))


def _root_of_sum(form: Form, exponent: Rational) -> Form:
    content = _content(form.top)
    top = {monomial: value / content for monomial, value in form.top.items()}
    scale = _root_of_term(content, UNIT, exponent)
    name: Atom = ("sum", key(Form({m: _whole(v) for m, v in top.items()}, form.bottom)))
    return times(scale, atom(name, exponent))


def _content(poly: Poly) -> Fraction:
    top = gcd(*(value.numerator for value in poly.values()))
    return Fraction(top, lcm(*(value.denominator for value in poly.values())))


def _integer_power(form: Form, exponent: int) -> Form:
    if exponent < 0:
        return _integer_power(inverse(form), -exponent)
    if exponent == 0:
        return rational(1)
    if form.bottom is ONE and len(form.top) == 1:
        ((monomial, value),) = form.top.items()
        powers: dict[Atom, Rational] = {name: power * exponent for name, power in monomial}
        outside = rational(1)
        if value not in (1, -1) and _bits(value) * exponent > MAX_BITS:
            outside = _large_power(absolute(value), exponent)
            value = 1 if value > 0 else -1
        coefficient, found = _monomial(powers)
        return times(outside, Form({found: _whole(coefficient * value ** _parity(value, exponent))}, ONE))
    if exponent > MAX_EXPANSION:
        return atom(("sum", key(form)), exponent)
    result, square = rational(1), form
    while exponent:
        if exponent & 1:
            result = times(result, square)
        exponent >>= 1
        square = times(square, square) if exponent else square
    return result


def _large_power(value: Rational, exponent: int) -> Form:
    powers: dict[Atom, Rational] = {}
    for number, sign in ((value.numerator, 1), (value.denominator, -1)):
        for prime, power in factors(number):
            powers[prime] = powers.get(prime, 0) + sign * power * exponent
    coefficient, monomial = _monomial(powers)
    return Form({monomial: coefficient}, ONE)


def _parity(value: Rational, exponent: int) -> int:
    return exponent % 2 if value in (1, -1) else exponent


def _sum(left: Poly, right: Poly) -> Poly:
    result = dict(left)
    for monomial, value in right.items():
        total = result.get(monomial, 0) + value
        if total:
            result[monomial] = total
        else:
            result.pop(monomial, None)
    if len(result) > MAX_TERMS:
        raise too_large(f"more than {MAX_TERMS} terms")
    return result


def _product(left: Poly, right: Poly) -> Poly:
    if left is ONE:
        return right
    if right is ONE:
        return left
    spend_pairs(len(left) * len(right))
    result: Poly = {}
    for one, first in left.items():
        for two, second in right.items():
            value = _whole(first * second)
            if one and two:
                coefficient, monomial = _join(one, two)
                value = _whole(value * coefficient)
            else:
                monomial = one or two
            if _bits(value) > 2 * MAX_BITS:
                raise too_large("a coefficient of too many digits")
            total = result.get(monomial, 0) + value
            if total:
                result[monomial] = total
            else:
                result.pop(monomial, None)
        if len(result) > MAX_TERMS:
            raise too_large(f"more than {MAX_TERMS} terms")
    return result


def _join(one: Monomial, two: Monomial) -> tuple[Rational, Monomial]:
    powers: dict[Atom, Rational] = dict(one)
    for name, power in two:
        powers[name] = powers.get(name, 0) + power
    return _monomial(powers)


def _monomial(powers: dict[Atom, Rational]) -> tuple[Rational, Monomial]:
    """Fold what is rational into the coefficient: whole powers of primes, and of ``i``."""
    coefficient: Rational = 1
    kept: list[tuple[Atom, Rational]] = []
    for name, power in powers.items():
        power = _whole(power)
        if isinstance(name, int):
            whole = floor(power)
            if whole and abs(whole) * name.bit_length() <= MAX_BITS:
                coefficient *= Fraction(name) ** whole if whole < 0 else name**whole
                power = _whole(power - whole)
        elif name == I and isinstance(power, int):
            coefficient *= -1 if power % 4 in (2, 3) else 1
            power %= 2
        if power:
            kept.append((name, power))
    return _whole(coefficient), frozenset(kept)


def _over(top: Poly, bottom: Poly) -> Form:
    if not bottom:
        raise Refusal("undefined", "a division by zero")
    if bottom is ONE:
        return Form(top, ONE)
    if len(bottom) > 1:
        return Form(top, bottom)
    ((monomial, value),) = bottom.items()
    coefficient, inverted = _monomial({name: -power for name, power in monomial})
    return Form(_product(top, {inverted: _whole(Fraction(coefficient) / value)}), ONE)


def _bits(value: Rational) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()


def _whole(value: Rational) -> Rational:
    if type(value) is int:
        return value
    return value.numerator if value.denominator == 1 else value
