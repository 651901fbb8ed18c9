"""Values with units, and what a task declares about them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tiers.mathematics.equality import DEFAULT_TOLERANCE, EXACT_NO, EXACT_YES, Match, same
from tiers.mathematics.nodes import (
    Const,
    Degrees,
    Node,
    Num,
    Quantity,
    divide,
    is_scalar,
    multiply,
    symbols,
    walk,
)
from tiers.mathematics.ranges import infinite
from tiers.mathematics.refusals import Refusal
from tiers.mathematics.units import read_unit

_COLLECTIVE = re.compile(
    r"\b(?:pairs?|couples?|triples?|dozens?|scores?|gross|sets?|packs?|box(?:es)?)\b", re.I
)


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
        if rules.unit and ((one or two) or _noun(unit) != _noun(other)):
            raise WrongUnit
        if _noun(unit) != _noun(other) and (_COLLECTIVE.search(unit) or _COLLECTIVE.search(other)):
            raise WrongUnit
    angle = "°" in (unit, other) and not (unit and other)
    if not angle:
        return same(wanted, given, rules.tolerance)
    if not (_holds_pi(wanted) or _holds_pi(given)):
        match = same(wanted, given, rules.tolerance)
        if match.equal:
            return match
    return same(_radians(wanted, unit), _radians(given, other), rules.tolerance)


def _noun(unit: str) -> str:
    """What is counted, without number and case."""
    return unit.casefold().strip().removesuffix("s").removesuffix("e")


def _holds_pi(node: Node) -> bool:
    """Whether an angle is written in radians: a multiple of π."""
    return any(isinstance(here, Const) and here.name == "pi" for here in walk(node))


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
