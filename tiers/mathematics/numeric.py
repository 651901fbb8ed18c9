"""Numbers for trees: to refute equality, and to confirm it where the precision proves it.

For constants made of rationals by ``+ − × ÷``, roots and trigonometric functions of rational angles
there is a separation bound: a value that is not zero cannot be nearer to zero (C. Burnikel,
R. Fleischer, K. Mehlhorn, S. Schirra, Algorithmica 2000, 27, 87, divisions gathered at the top). Computing
beyond it decides equality exactly. For anything else two values count as equal when they agree to a
precision that grows with everything the expressions hold: the digits of their numerals and the
magnitudes of all their parts, so that no difference that can be written in them is below it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import lcm, log2
from typing import Any

from tiers.mathematics.effort import spend_evaluation
from tiers.mathematics.integers import bounded_factorial, factors
from tiers.mathematics.nodes import (
    Call,
    Const,
    Degrees,
    Node,
    Num,
    Power,
    Product,
    Quotient,
    Sum,
    Sym,
    bits,
    walk,
)
from tiers.mathematics.refusals import Refusal, too_large

MAX_PRECISION = 24_000  # bits
MAX_MAGNITUDE = 20_000  # bits of the argument of a function that is not algebraic
SPARE = 64
_ROUNDING = frozenset(
    {"sin", "cos", "tan", "cot", "sinh", "cosh", "ln", "arccos", "arcsin", "arctan", "mod"}
)
_ALGEBRAIC = frozenset({"sin", "cos", "tan", "cot", "sec", "csc"})


_local = threading.local()


def _context() -> Any:
    """This thread's own mpmath context: making one costs more than most evaluations."""
    if not hasattr(_local, "context"):
        from mpmath import MPContext  # type: ignore[import-untyped]

        _local.context = MPContext()
    return _local.context


class NotReal(Exception):
    """A part is not a real number, or not defined, at this point."""


class Evaluator:
    """Evaluates trees at one precision (bits) and remembers the magnitudes that it met.

    ``real``: parts that are not real raise ``NotReal``. ``weight`` sums |log2| of all parts, ``peak`` is
    the largest, ``steps`` counts the parts, ``cancelled`` tells that a sum vanished at this precision.
    """

    def __init__(self, precision: int, values: Mapping[str, Any], *, real: bool) -> None:
        spend_evaluation(precision)
        self.mp: Any = _context()
        self.mp.prec = precision
        self.values = {name: self.number(value) for name, value in values.items()}
        self.real = real
        self.weight = 0
        self.peak = 0
        self.steps = 0
        self.cancelled = False

    def number(self, value: int | Fraction) -> Any:
        """A rational at this precision."""
        return self.mp.mpf(value.numerator) / value.denominator

    def value(self, node: Node) -> Any:
        """The value of a tree. Raises ``NotReal``, and ``Refusal`` for what is undefined or too large."""
        self.steps += 1
        try:
            result = self._value(node)
        except ZeroDivisionError as error:
            if self.cancelled:
                raise Refusal("undecided", "a division by what may be zero") from error
            raise Refusal("undefined", "a division by zero") from error
        except (ValueError, OverflowError) as error:
            raise NotReal from error
        if self.real and isinstance(result, self.mp.mpc):
            raise NotReal
        if not self.mp.isfinite(result):
            raise NotReal
        if result:
            magnitude = int(self.mp.mag(result))
            self.weight += abs(magnitude)
            self.peak = max(self.peak, abs(magnitude))
        return result

    def _value(self, node: Node) -> Any:
        if isinstance(node, Num):
            return self.number(node.value)
        if isinstance(node, Sum):
            terms = [self.value(term) for term in node.terms]
            return self._cleaned(self.mp.fsum(terms), terms)
        if isinstance(node, Product):
            result = self.mp.mpf(1)
            for factor in node.factors:
                result *= self.value(factor)
            return result
        if isinstance(node, Quotient):
            return self.value(node.top) / self.value(node.bottom)
        if isinstance(node, Power):
            return self._power(node)
        if isinstance(node, Sym):
            return self.values[node.name]
        if isinstance(node, Degrees):
            return self.value(node.value) * self.mp.pi / 180
        if isinstance(node, Const):
            return self._const(node.name)
        if isinstance(node, Call):
            return self._call(node)
        raise NotReal

    def _const(self, name: str) -> Any:
        if name == "pi":
            return +self.mp.pi
        if name == "e":
            return +self.mp.e
        if name == "i" and not self.real:
            return self.mp.mpc(0, 1)
        raise NotReal

    def _power(self, node: Power) -> Any:
        base = self.value(node.base)
        exponent = node.exponent
        if isinstance(exponent, Num):
            value = exponent.value
            if not base and value <= 0:
                raise Refusal("undefined", "zero to a power that is not positive")
            if isinstance(value, int):
                if abs(value) > 10**9:
                    raise too_large("an exponent beyond the bound")
                return base**value
            if value.denominator % 2 and isinstance(base, self.mp.mpf) and base < 0:
                size = self.mp.power(-base, self.number(value))
                return -size if value.numerator % 2 else size
            return (
                self.mp.sqrt(base) ** value.numerator
                if value.denominator == 2
                else base ** self.number(value)
            )
        raised = self.value(exponent)
        if not base:
            raise NotReal
        if self.mp.isint(raised) and abs(raised) < 10**6:
            return base ** int(raised.real)
        self._within(raised * self.mp.log(base))
        return base**raised

    def _within(self, argument: Any) -> None:
        if argument and self.mp.mag(argument) > 20:
            raise too_large("an argument beyond the bound")

    def _call(self, node: Call) -> Any:
        args = [self.value(arg) for arg in node.args]
        for arg in args:
            self._within_call(node.name, arg)
        result = _FUNCTIONS[node.name](self, *args)
        return self._cleaned(result, args) if node.name in _ROUNDING else result

    def _cleaned(self, result: Any, parts: list[Any]) -> Any:
        """What is left of parts that cancel is zero as far as this precision can tell."""
        if result and any(parts):
            scale = max(int(self.mp.mag(part)) for part in parts if part)
            if self.mp.mag(result) < scale - self.mp.prec + SPARE // 2:
                self.cancelled = True
                return self.mp.mpf(0)
        return result

    def _within_call(self, name: str, argument: Any) -> None:
        bound = {"exp": 20, "sinh": 20, "cosh": 20, "factorial": 12, "factorial2": 12}.get(
            name, MAX_MAGNITUDE
        )
        if argument and self.mp.mag(argument) > bound:
            raise too_large("an argument beyond the bound")

    def whole(self, value: Any) -> int:
        """An argument that must be an integer."""
        if isinstance(value, self.mp.mpc) or not self.mp.isint(value):
            raise NotReal
        return int(value)

    def rounded(self, value: Any, direction: int) -> Any:
        """Floor (1) or ceiling (-1); too near to an integer to tell is no value."""
        if isinstance(value, self.mp.mpc):
            raise NotReal
        nearest = self.mp.nint(value)
        if value != nearest and abs(value - nearest) < self.mp.ldexp(1, -self.mp.prec // 2):
            raise NotReal
        return self.mp.floor(value) if direction > 0 else self.mp.ceil(value)


def _named(name: str) -> Callable[..., Any]:
    return lambda at, *args: getattr(at.mp, name)(*args)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, *args: function(*args)


def _binomial(at: Evaluator, upper: Any, lower: Any) -> Any:
    below = at.whole(lower)
    if not 0 <= below <= 300:
        raise NotReal
    result = at.mp.mpf(1)
    for step in range(below):
        result *= (upper - step) / (step + 1)
    return result


def _gcd(at: Evaluator, *args: Any) -> Any:
    from math import gcd

    return at.mp.mpf(gcd(*(at.whole(arg) for arg in args)))


def _lcm(at: Evaluator, *args: Any) -> Any:
    return at.mp.mpf(lcm(*(at.whole(arg) for arg in args)))


def _log(at: Evaluator, argument: Any) -> Any:
    if not argument:
        raise Refusal("undefined", "the logarithm of zero")
    return at.mp.log(argument)


def _factorial(at: Evaluator, argument: Any) -> Any:
    return _bounded(at, argument, 1)


def _factorial2(at: Evaluator, argument: Any) -> Any:
    return _bounded(at, argument, 2)


def _bounded(at: Evaluator, argument: Any, step: int) -> Any:
    """Only of whole numbers: the gamma function takes seconds at the precisions that are used here."""
    result = bounded_factorial(at.whole(argument), step)
    if result is None:
        raise NotReal
    return at.mp.mpf(result)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: _named(name) for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh")},
    "arcsin": _named("asin"),
    "arccos": _named("acos"),
    "arctan": _named("atan"),
    "ln": _log,
    "abs": _plain(abs),
    "floor": lambda at, x: at.rounded(x, 1),
    "ceil": lambda at, x: at.rounded(x, -1),
    "max": _plain(max),
    "min": _plain(min),
    "mod": lambda at, x, y: x - y * at.rounded(x / y, 1),
    "factorial": _factorial,
    "factorial2": _factorial2,
    "binomial": _binomial,
    "gcd": _gcd,
    "lcm": _lcm,
}


def height(*nodes: Node) -> int:
    """Bits of all numerals and one per node: how much the trees hold."""
    return sum(
        1 + (bits(here.value) if isinstance(here, Num) else 0) for node in nodes for here in walk(node)
    )


class Separation:
    """Collects what the separation bound of a constant needs: conjugate bounds and the degree."""

    def __init__(self) -> None:
        self.degree = 1
        self.angles = 1
        self.roots = 0

    def bound(self, node: Node) -> tuple[float, float] | None:
        """log2 of the bounds (u, l) of numerator and denominator, ``None`` if not algebraic."""
        if isinstance(node, Num):
            return log2(abs(node.value.numerator) or 1), log2(node.value.denominator)
        if isinstance(node, Const) and node.name == "i":
            self.angles = lcm(self.angles, 4)
            return 0.0, 0.0
        if isinstance(node, Sum):
            return self._fold(node.terms, self._add)
        if isinstance(node, Product):
            return self._fold(node.factors, lambda a, b: (a[0] + b[0], a[1] + b[1]))
        if isinstance(node, Quotient):
            return self._fold((node.top, node.bottom), lambda a, b: (a[0] + b[1], a[1] + b[0]))
        if isinstance(node, Power) and isinstance(node.exponent, Num):
            return self._power(node.base, node.exponent.value)
        if isinstance(node, Call) and node.name in _ALGEBRAIC:
            return self._angle(node)
        return None

    def total_degree(self) -> int:
        """Degree of a field that holds every value met so far, or an upper bound of it."""
        return self.degree * (1 if self.angles == 1 else _totient(lcm(self.angles, 4)))

    def _fold(
        self, nodes: tuple[Node, ...], join: Callable[..., tuple[float, float]]
    ) -> tuple[float, float] | None:
        total: tuple[float, float] | None = None
        for node in nodes:
            here = self.bound(node)
            if here is None:
                return None
            total = here if total is None else join(total, here)
        return total

    @staticmethod
    def _add(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
        return max(a[0] + b[1], a[1] + b[0]) + 1, a[1] + b[1]

    def _power(self, base: Node, exponent: int | Fraction) -> tuple[float, float] | None:
        here = self.bound(base)
        if here is None or exponent.numerator.bit_length() > 60:
            return None
        upper, lower = (here[1], here[0]) if exponent < 0 else here
        upper, lower = upper * abs(exponent.numerator), lower * abs(exponent.numerator)
        order = exponent.denominator
        if order == 1:
            return upper, lower
        self.degree *= order
        if self.degree > 10**6:
            return None
        if upper >= lower:
            return (upper + (order - 1) * lower) / order, lower
        return upper, ((order - 1) * upper + lower) / order

    def _angle(self, node: Call) -> tuple[float, float] | None:
        (argument,) = node.args
        from tiers.mathematics.normal import normal, turns_of

        turns = turns_of(normal(argument))
        if turns is None or turns.denominator > 10_000:
            return None
        self.angles = lcm(self.angles, 2 * turns.denominator)
        return (1.0, 1.0) if self.angles <= 10_000 else None


def _totient(number: int) -> int:
    result = 1
    for prime, power in factors(number):
        result *= (prime - 1) * prime ** (power - 1)
    return result
