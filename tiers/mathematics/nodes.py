"""What was read: a small tree, rational arithmetic already done where it is cheap.

Nodes are compared by what they mean (``normal``, ``numeric``), never by ``==``: identity is their
only equality. They are not frozen, because freezing triples the cost of building one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from tiers.mathematics.effort import spend_bits
from tiers.mathematics.refusals import MAX_BITS, Refusal

Rational = int | Fraction


class Node:
    """Base of everything that can be read."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class Num(Node):
    """An exact rational; ``decimal`` when a decimal point or an exponent stood in its text."""

    value: Rational
    decimal: bool = False


@dataclass(slots=True, eq=False)
class Sym(Node):
    """A variable."""

    name: str


@dataclass(slots=True, eq=False)
class Const(Node):
    """``pi``, ``e``, ``i`` or ``inf``."""

    name: str


@dataclass(slots=True, eq=False)
class Sum(Node):
    """Two or more terms."""

    terms: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class Product(Node):
    """Two or more factors."""

    factors: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class Quotient(Node):
    """``top`` over ``bottom``."""

    top: Node
    bottom: Node


@dataclass(slots=True, eq=False)
class Power(Node):
    """``base`` to ``exponent``; a root is a power with a rational exponent."""

    base: Node
    exponent: Node


@dataclass(slots=True, eq=False)
class Call(Node):
    """A named function of its arguments."""

    name: str
    args: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class Degrees(Node):
    """``value`` degrees of arc."""

    value: Node


@dataclass(slots=True, eq=False)
class Quantity(Node):
    """A value with the unit that stood beside it, as written."""

    value: Node
    unit: str


@dataclass(slots=True, eq=False)
class Brackets(Node):
    """Values between brackets ``(`` ``[`` ``<``: a tuple, a point or, with two members, an interval."""

    opening: str
    items: tuple[Node, ...]
    closing: str


@dataclass(slots=True, eq=False)
class Braces(Node):
    """A finite set as written: repeats are still there."""

    items: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class Listing(Node):
    """Values side by side without brackets; ``word`` is ``,`` ``and`` ``or`` or ``±``."""

    items: tuple[Node, ...]
    word: str


@dataclass(slots=True, eq=False)
class Table(Node):
    """A matrix, row by row, all rows of one length."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(slots=True, eq=False)
class Union(Node):
    """The union of sets of numbers."""

    parts: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class Without(Node):
    """The set difference."""

    whole: Node
    removed: Node


@dataclass(slots=True, eq=False)
class NamedSet(Node):
    """``R``, ``Q``, ``Z``, ``N``, ``C`` or the empty set ``∅``."""

    name: str


@dataclass(slots=True, eq=False)
class Chain(Node):
    """Sides joined by relations: ``parts[0] ops[0] parts[1] ops[1] …``; ops are ``= ≠ ≈ < > ≤ ≥``."""

    parts: tuple[Node, ...]
    ops: tuple[str, ...]


SCALARS = frozenset({Num, Sym, Const, Sum, Product, Quotient, Power, Call, Degrees})
ZERO = Num(0)
ONE = Num(1)


def add(terms: Sequence[Node]) -> Node:
    """The sum, folded when all terms are rational."""
    if len(terms) == 1:
        return terms[0]
    numbers = [term for term in terms if isinstance(term, Num)]
    if len(numbers) == len(terms):
        total: Rational = 0
        bottom = 1
        decimal = False
        for term in numbers:
            bottom = lcm(bottom, term.value.denominator)
            if bottom.bit_length() > MAX_BITS:
                return Sum(tuple(terms))
            total += term.value
            decimal |= term.decimal
        return Num(_whole(total), decimal)
    return Sum(tuple(terms))


def negative(node: Node) -> Node:
    """Minus ``node``."""
    if type(node) is Num:
        return Num(-node.value, node.decimal)
    return Product((Num(-1), node))


def multiply(left: Node, right: Node) -> Node:
    """The product, folded when both are rational and the result is within bounds."""
    if type(left) is Num and type(right) is Num:
        if bits(left.value) + bits(right.value) <= MAX_BITS:
            return Num(_whole(left.value * right.value), left.decimal or right.decimal)
    elif type(left) is Product:
        return Product((*left.factors, right))
    return Product((left, right))


def divide(top: Node, bottom: Node) -> Node:
    """The quotient, folded when both are rational. Raises ``Refusal`` ``undefined`` over zero."""
    if type(bottom) is Num:
        if not bottom.value:
            raise Refusal("undefined", "a division by zero")
        if type(top) is Num and bits(top.value) + bits(bottom.value) <= MAX_BITS:
            return Num(_whole(Fraction(top.value) / bottom.value), top.decimal or bottom.decimal)
    return Quotient(top, bottom)


def power(base: Node, exponent: Node) -> Node:
    """The power, folded when it is rational by integer exponents and within bounds."""
    if type(base) is Num and type(exponent) is Num and isinstance(exponent.value, int):
        value, to = base.value, exponent.value
        if not value and to <= 0:
            raise Refusal("undefined", "zero to a power that is not positive")
        size = bits(value) * abs(to)
        if size <= MAX_BITS or value in (1, -1):
            if 1_000 < size <= MAX_BITS:
                spend_bits(size)
            to = to % 2 if value in (1, -1) else to
            result = value**to if to >= 0 else Fraction(1) / Fraction(value) ** -to
            return Num(_whole(result), base.decimal)
    return Power(base, exponent)


def bits(value: Rational) -> int:
    """Size of a rational: the bits of its numerator and denominator."""
    return value.numerator.bit_length() + value.denominator.bit_length() - 1


def absolute(value: Rational) -> Rational:
    """The value without its sign."""
    return -value if value < 0 else value


def children(node: Node) -> tuple[Node, ...]:
    """The scalar parts of a scalar node."""
    if isinstance(node, Sum):
        return node.terms
    if isinstance(node, Product):
        return node.factors
    if isinstance(node, Quotient):
        return (node.top, node.bottom)
    if isinstance(node, Power):
        return (node.base, node.exponent)
    if isinstance(node, Call):
        return node.args
    if isinstance(node, Degrees):
        return (node.value,)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """Every node of a scalar tree, parents first."""
    stack = [node]
    while stack:
        here = stack.pop()
        yield here
        stack.extend(children(here))


def symbols(node: Node) -> frozenset[str]:
    """Names of the variables of a scalar tree."""
    return frozenset(here.name for here in walk(node) if isinstance(here, Sym))


def fingerprint(node: Node) -> bytes:
    """Text that tells scalar trees apart (numerals in hexadecimal: decimal is slow and limited)."""
    words = []
    for here in walk(node):
        if isinstance(here, Num):
            words.append(f"{here.value.numerator:x}/{here.value.denominator:x}")
        else:
            words.append(f"{type(here).__name__}{getattr(here, 'name', '')}")
    return " ".join(words).encode()


def is_scalar(node: Node) -> bool:
    """Whether the node is one number or expression (without a unit)."""
    return type(node) in SCALARS


def _whole(value: Rational) -> Rational:
    if type(value) is int:
        return value
    return value.numerator if value.denominator == 1 else value
