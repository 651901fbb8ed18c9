"""Trees with their variables replaced."""

from __future__ import annotations

from tiers.mathematics.nodes import (
    ZERO,
    Call,
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
    if isinstance(node, Sym):
        return ZERO
    if isinstance(node, Sum):
        return add([at_zero(term) for term in node.terms])
    if isinstance(node, Product):
        result = at_zero(node.factors[0])
        for factor in node.factors[1:]:
            result = multiply(result, at_zero(factor))
        return result
    if isinstance(node, Quotient):
        return divide(at_zero(node.top), at_zero(node.bottom))
    if isinstance(node, Power):
        return power(at_zero(node.base), at_zero(node.exponent))
    if isinstance(node, Call):
        return Call(node.name, tuple(at_zero(arg) for arg in node.args))
    if isinstance(node, Degrees):
        return Degrees(at_zero(node.value))
    return node
