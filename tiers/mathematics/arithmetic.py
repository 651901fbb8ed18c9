"""Arithmetic on what was just read: with numbers and expressions only, and numbers times matrices."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tiers.mathematics.nodes import (
    Brackets,
    Const,
    Degrees,
    Node,
    Num,
    Power,
    Quantity,
    Table,
    divide,
    is_scalar,
    multiply,
    negative,
)
from tiers.mathematics.refusals import Refusal, unparsable


def scalars(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes, square brackets around one of them dropped. Raises ``Refusal`` for anything else."""
    found = tuple(grouped(node) for node in nodes)
    for node in found:
        if not is_scalar(node):
            raise unparsable("arithmetic with what is not a number or an expression")
        if isinstance(node, Const) and node.name == "inf" and len(found) > 1:
            raise Refusal("undefined", "arithmetic with infinity")
    return found


def grouped(node: Node) -> Node:
    """What stands between square brackets that serve as round ones; anything else as it is."""
    if isinstance(node, Brackets) and node.opening + node.closing == "[]" and len(node.items) == 1:
        return node.items[0]
    return node


def scaled(left: Node, right: Node) -> Node:
    """The product; a matrix may be multiplied by a number from the left. Raises ``Refusal``."""
    if isinstance(right, Table):
        (factor,) = scalars([left])
        return Table(tuple(tuple(multiply(factor, cell) for cell in row) for row in right.rows))
    return multiply(*scalars([left, right]))


def negated(node: Node) -> Node:
    """Minus a number, expression or matrix. Raises ``Refusal``."""
    return scaled(Num(-1), node) if isinstance(node, Table) else negative(scalars([node])[0])


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
