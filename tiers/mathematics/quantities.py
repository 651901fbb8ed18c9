"""Values with units, and what a task declares about them."""

from __future__ import annotations

from dataclasses import dataclass

from tiers.mathematics.equality import DEFAULT_TOLERANCE, EXACT_NO, EXACT_YES, Match, same
from tiers.mathematics.nodes import Degrees, Node, Num, Quantity, divide, is_scalar, multiply, symbols
from tiers.mathematics.ranges import infinite
from tiers.mathematics.refusals import Refusal
from tiers.mathematics.units import read_unit


@dataclass(frozen=True, slots=True)
class Rules:
    """What a task declares: type, unit (``percent`` or a unit's name) and relative tolerance."""

    kind: str | None = None
    unit: str | None = None
    tolerance: float = DEFAULT_TOLERANCE


class WrongUnit(Exception):
    """The answer's unit does not measure what the reference's does, or another scale was meant."""


def same_quantity(gold: Node, answer: Node, rules: Rules) -> Match:
    """Values with units: percent is a hundredth; a unit that is not written is the other side's."""
    if infinite(gold) or infinite(answer):
        return EXACT_YES if infinite(gold) == infinite(answer) else EXACT_NO
    wanted, unit = _with_unit(gold, rules)
    given, other = _with_unit(answer, rules)
    if unit != other and unit and other:
        one, two = read_unit(unit), read_unit(other)
        if one and two:
            if one.dimension == two.dimension:
                return same(
                    multiply(wanted, Num(one.factor)), multiply(given, Num(two.factor)), rules.tolerance
                )
            angles = {one.dimension, two.dimension} == {(("angle", 1),), (("rad", 1),)}
            if not angles:
                raise WrongUnit
            return same(_radians(wanted, unit), _radians(given, other), rules.tolerance)
        if (one or two) and rules.unit:
            raise WrongUnit
    match = same(wanted, given, rules.tolerance)
    if not match.equal and "°" in (unit, other) and not (unit and other):
        radians = same(_radians(wanted, unit), _radians(given, other), rules.tolerance)
        return radians if radians.equal else match
    return match


def _radians(node: Node, unit: str) -> Node:
    return Degrees(node) if unit == "°" else node


def _with_unit(node: Node, rules: Rules) -> tuple[Node, str]:
    percent = rules.unit == "percent" or rules.kind == "percent"
    node, unit = (node.value, node.unit) if isinstance(node, Quantity) else (node, "")
    if not is_scalar(node):
        raise Refusal("unparsable", "not a number or an expression")
    if unit in ("%", "percent") or (percent and not unit):
        return divide(node, Num(100)), ""
    if not unit and rules.unit and not percent and not symbols(node):
        unit = rules.unit
    return node, unit
