"""Arithmetic on what was just read: with numbers and expressions only, and numbers times matrices."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tiers.mathematics.nodes import (
    SCALARS,
    Brackets,
    Const,
    Degrees,
    Node,
    Num,
    Power,
    Quantity,
    Table,
    divide,
    multiply,
    negative,
)
from tiers.mathematics.refusals import Refusal, unparsable


def scalars(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes, square brackets around one of them dropped. Raises ``Refusal`` for anything else."""
    for node in nodes:
        kind = type(node)
        if kind not in SCALARS:
            if grouped(node) is node:
                raise unparsable("arithmetic with what is not a number or an expression")
            return scalars([grouped(each) for each in nodes])
        if kind is Const and node.name == "inf" and len(nodes) > 1:  # type: ignore[attr-defined]
            raise Refusal("undefined", "arithmetic with infinity")
    return tuple(nodes)


def grouped(node: Node) -> Node:
    """What stands between square brackets that serve as round ones; anything else as it is."""
    if isinstance(node, Brackets) and node.opening + node.closing == "[]" and len(node.items) == 1:
        return node.items[0]
    return node


def scaled(left: Node, right: Node) -> Node:
    """The product; a matrix may be multiplied by a number from the left. Raises ``Refusal``."""
    if type(right) is Table:
        (factor,) = scalars([left])
        return Table(tuple(tuple(multiply(factor, cell) for cell in row) for row in right.rows))
    left, right = scalars([left, right])
    return multiply(left, right)


def negated(node: Node) -> Node:
    """Minus a number, expression or matrix. Raises ``Refusal``."""
    return scaled(Num(-1), node) if type(node) is Table else negative(scalars([node])[0])


def worked_in(quantity: Quantity) -> Node:
    """A value with its unit between round brackets: degrees and percent become part of the value."""
    if quantity.unit == "°":
        return Degrees(quantity.value)
    if quantity.unit == "%":
        return divide(quantity.value, Num(100))
    return quantity


def root(radicand: Node, order: Node) -> Node:
    """The root of an order that must be a positive integer of at most three digits."""
    if not isinstance(order, Num) or not isinstance(order.value, int) or not 2 <= order.value <= 999:
        raise unparsable("a root whose order is not an integer from 2 to 999")
    return Power(radicand, Num(Fraction(1, order.value)))
