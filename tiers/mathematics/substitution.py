"""Trees with their variables replaced."""

from __future__ import annotations

from collections.abc import Callable

from tiers.mathematics.nodes import (
    ZERO,
    Call,
    Const,
    Degrees,
    Node,
    Power,
    Product,
    Quotient,
    Sum,
    Sym,
    add,
    divide,
    multiply,
    power,
)


def at_zero(node: Node) -> Node:
    """The tree with every variable zero. Raises ``Refusal`` where that divides by zero."""
    return replaced(node, lambda _: ZERO)


def with_euler(node: Node) -> Node:
    """The tree with the variable ``E`` read as Euler's number, as computer algebra prints it."""
    return replaced(node, lambda symbol: Const("e") if symbol.name == "E" else symbol)


def replaced(node: Node, by: Callable[[Sym], Node]) -> Node:
    """The tree with its variables replaced, folded again. Raises ``Refusal`` ``undefined``."""
    if isinstance(node, Sym):
        return by(node)
    if isinstance(node, Sum):
        return add([replaced(term, by) for term in node.terms])
    if isinstance(node, Product):
        result = replaced(node.factors[0], by)
        for factor in node.factors[1:]:
            result = multiply(result, replaced(factor, by))
        return result
    if isinstance(node, Quotient):
        return divide(replaced(node.top, by), replaced(node.bottom, by))
    if isinstance(node, Power):
        return power(replaced(node.base, by), replaced(node.exponent, by))
    if isinstance(node, Call):
        return Call(node.name, tuple(replaced(arg, by) for arg in node.args))
    if isinstance(node, Degrees):
        return Degrees(replaced(node.value, by))
    return node
