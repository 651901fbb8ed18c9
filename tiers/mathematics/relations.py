"""Equations and inequalities: named values, and equality up to a factor that is not zero."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tiers.mathematics.equality import DEFAULT_TOLERANCE, Match, ReferenceRefusal, points
from tiers.mathematics.forms import ONE, Form, Monomial, Poly, minus, plus, times
from tiers.mathematics.nodes import (
    Braces,
    Brackets,
    Chain,
    Listing,
    Node,
    Num,
    Product,
    Quantity,
    Rational,
    Sym,
    fingerprint,
    is_scalar,
    negative,
    symbols,
)
from tiers.mathematics.nodes import Sum as SumNode
from tiers.mathematics.normal import normal
from tiers.mathematics.numeric import Evaluator, NotReal
from tiers.mathematics.quantities import Rules, WrongUnit, same_quantity
from tiers.mathematics.refusals import Refusal

_EQUALS = frozenset({"=", "≈"})
_LOWER = {"<": "<", "≤": "≤", ">": "<", "≥": "≤"}
NEAR = 0.02


def is_equality(node: Node) -> bool:
    """Whether a chain says only that things are equal."""
    return isinstance(node, Chain) and all(op in _EQUALS for op in node.ops)


def named_value(chain: Chain, tolerance: float = DEFAULT_TOLERANCE) -> Node | None:
    """The value that a chain of equalities gives a name, or states of a constant; else ``None``.

    ``x = 5``, ``5 = x``, ``f(x) = 2x``, ``(x, y) = (1, 2)``, ``x = 2 + 3 = 5``, ``1/3 ≈ 0.333``. The parts
    must be equal to each other (for ``≈``: within 2 %), else this is a hedge. Raises ``Refusal``
    ``hedged_answer``.
    """
    parts, ops = chain.parts, chain.ops
    if is_name(parts[0]):
        parts, ops = parts[1:], ops[1:]
    elif len(parts) == 2 and isinstance(parts[1], Sym) and not symbols_in(parts[0]):
        return parts[0]
    elif any(symbols_in(part) for part in parts):
        return None
    value = parts[0]
    for op, other in zip(ops, parts[1:], strict=True):
        if not _agrees(value, other, op, tolerance):
            raise Refusal("hedged_answer", "values joined by '=' that are not equal")
    return value


def only_approximate(node: Node) -> bool:
    """Whether a chain gives its name nothing but an approximate value: ``x ≈ 42``."""
    return isinstance(node, Chain) and is_equality(node) and node.ops[0] == "≈" and is_name(node.parts[0])


def _agrees(value: Node, other: Node, op: str, tolerance: float) -> bool:
    """Raises ``Refusal`` only: both sides are one text's, whoever wrote it."""
    if not is_scalar(_bare(value)) or not is_scalar(_bare(other)):
        return False
    try:
        return same_quantity(value, other, Rules(tolerance=NEAR if op == "≈" else tolerance)).equal
    except WrongUnit:
        return False
    except ReferenceRefusal as trouble:
        raise trouble.refusal from trouble


def _bare(node: Node) -> Node:
    return node.value if isinstance(node, Quantity) else node


def symbols_in(node: Node) -> frozenset[str]:
    """Variables of a scalar, with or without unit; nothing for anything else."""
    node = _bare(node)
    return symbols(node) if is_scalar(node) else frozenset()


def variables(node: Node) -> frozenset[str]:
    """Variables of all that is not only named: those of ``2x``, none of ``x = 5``."""
    if isinstance(node, Chain):
        value = named_value(node) if is_equality(node) else None
        parts = node.parts if value is None else (value,)
    elif isinstance(node, Brackets | Braces | Listing):
        parts = node.items
    else:
        return symbols_in(node)
    return frozenset().union(*(variables(part) for part in parts))


def is_name(node: Node) -> bool:
    """Whether a value can be given to this: ``x``, ``f(x)`` or a tuple of variables."""
    if isinstance(node, Sym):
        return True
    if isinstance(node, Brackets):
        return all(isinstance(item, Sym) for item in node.items)
    return is_application(node) or _is_figure(node)


def _is_figure(node: Node) -> bool:
    """Whether this reads as a segment or angle named by its points: ``AB``, ``ABC``."""
    if not isinstance(node, Product) or not 2 <= len(node.factors) <= 4:
        return False
    names = [factor.name for factor in node.factors if isinstance(factor, Sym)]
    return len(set(names)) == len(node.factors) and all(len(name) == 1 and name.isupper() for name in names)


def is_application(node: Node) -> bool:
    """Whether this reads as a function of its variable: ``f(x)``, ``P(n)``."""
    if not isinstance(node, Product) or len(node.factors) != 2:
        return False
    function, variable = node.factors
    return (
        isinstance(function, Sym)
        and isinstance(variable, Sym | Num)
        and function.name[0] in "fghpqstuvwyFGHPQSTVWAC"
    )


def same_equation(gold: Chain, answer: Chain) -> Match:
    """Whether two equations (or two-sided comparisons of several variables) mean the same.

    Both sides brought to one and denominators cleared, they must differ by a constant factor that is
    not zero (for inequalities: by a positive one).
    """
    if len(gold.ops) != 1 or len(answer.ops) != 1:
        return Match(False, "form")
    wanted, op = _one_sided(gold)
    given, other = _one_sided(answer)
    if op != other:
        return Match(False, "form")
    ratio = _ratio(_cleared(normal_of(wanted, reference=True)), _cleared(normal_of(given, reference=False)))
    if ratio is not None:
        return Match(ratio > 0 if op in ("<", "≤") else ratio != 0, "exact")
    return Match(_proportional(wanted, given, op in ("<", "≤")), "points")


def _one_sided(chain: Chain) -> tuple[Node, str]:
    """The difference of the sides, so that ``difference < 0`` or ``= 0`` is what is said."""
    left, right = chain.parts
    op = chain.ops[0]
    if not is_scalar(left) or not is_scalar(right):
        raise Refusal("unparsable", "an equation of what is not an expression")
    if op in (">", "≥"):
        left, right = right, left
    return SumNode((left, negative(right))), _LOWER.get(op, "=" if op in _EQUALS else op)


def normal_of(node: Node, *, reference: bool) -> Form:
    """``normal``, with the reference's own trouble told apart."""
    try:
        return normal(node)
    except Refusal as refusal:
        if reference:
            raise ReferenceRefusal(refusal) from refusal
        raise


def _cleared(form: Form) -> Poly:
    """The numerator, with negative powers of variables multiplied out."""
    lowest: dict[object, Rational] = {}
    for monomial in form.top:
        for name, power in monomial:
            if not isinstance(name, int) and name[0] == "v" and power < lowest.get(name, 0):
                lowest[name] = power
    if not lowest:
        return form.top
    factor: Monomial = frozenset((name, -power) for name, power in lowest.items())  # type: ignore[misc]
    return times(Form(form.top, ONE), Form({factor: 1}, ONE)).top


def _ratio(wanted: Poly, given: Poly) -> Fraction | None:
    """The rational factor between two sums: 0 if they are certainly not proportional, ``None`` if open."""
    if not wanted or not given:
        return Fraction(int(not wanted and not given))
    monomial = next(iter(wanted))
    if monomial not in given:
        return None
    ratio = Fraction(given[monomial]) / Fraction(wanted[monomial])
    if not plus(Form({m: v * ratio for m, v in wanted.items()}, ONE), minus(Form(given, ONE))).top:
        return ratio
    return None


def _proportional(wanted: Node, given: Node, positive: bool) -> bool:
    """Whether the ratio of two expressions is the same constant at several points."""
    names = sorted(symbols(wanted) | symbols(given))
    if not names:
        return False
    ratios = []
    for values in points(names, fingerprint(wanted) + fingerprint(given)):
        ratio = _ratio_at(wanted, given, values)
        if ratio is not None:
            ratios.append(ratio)
            if abs(ratio - ratios[0]) > abs(ratios[0]) * 1e-50:
                return False
        if len(ratios) >= 5:
            break
    return len(ratios) >= 3 and (ratios[0] > 0 or not positive)


def _ratio_at(wanted: Node, given: Node, values: Mapping[str, Rational]) -> Any:
    evaluate = Evaluator(400, values, real=True)
    try:
        below, above = evaluate.value(wanted), evaluate.value(given)
    except NotReal:
        return None
    except Refusal as refusal:
        if refusal.code == "undefined":
            return None
        raise
    if not below or not above:
        return None
    return above / below
