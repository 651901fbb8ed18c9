"""Sets of real numbers: intervals and their unions, from brackets, inequalities and differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from tiers.mathematics.equality import same
from tiers.mathematics.forms import UNIT
from tiers.mathematics.nodes import (
    Braces,
    Brackets,
    Call,
    Chain,
    Const,
    Listing,
    NamedSet,
    Node,
    Num,
    Product,
    Sum,
    Sym,
    Union,
    Without,
    divide,
    is_scalar,
    negative,
    symbols,
)
from tiers.mathematics.normal import normal
from tiers.mathematics.numeric import Evaluator, NotReal
from tiers.mathematics.refusals import Refusal, unparsable
from tiers.mathematics.substitution import at_zero

_FLIPPED = {"<": ">", ">": "<", "≤": "≥", "≥": "≤", "≠": "≠"}
_ORDERS = frozenset({"<", ">", "≤", "≥"})


@dataclass(frozen=True, slots=True)
class Piece:
    """From ``low`` to ``high``; ``None`` is no bound on that side."""

    low: Node | None
    low_closed: bool
    high: Node | None
    high_closed: bool


Pieces = tuple[Piece, ...]
ALL: Piece = Piece(None, False, None, False)


def is_range(node: Node) -> bool:
    """Whether the node can only be a set of real numbers: no tuple and no finite set."""
    if isinstance(node, Brackets):
        mixed = (node.opening, node.closing) in (("(", "]"), ("[", ")"))
        outward = node.opening == "]" or node.closing == "["
        return mixed or outward or (len(node.items) == 2 and any(infinite(item) for item in node.items))
    if isinstance(node, Listing):
        return node.word == "or" and any(is_range(item) for item in node.items)
    return isinstance(node, Union | Without | NamedSet) or (
        isinstance(node, Chain) and all(op in _FLIPPED for op in node.ops)
    )


def infinite(node: Node) -> int:
    """1 for ∞, -1 for −∞, else 0."""
    if isinstance(node, Const) and node.name == "inf":
        return 1
    if isinstance(node, Product) and len(node.factors) == 2:
        sign, rest = node.factors
        if isinstance(rest, Const) and rest.name == "inf" and isinstance(sign, Num):
            return 1 if sign.value > 0 else -1
    return 0


def pieces_of(node: Node) -> Pieces | None:
    """The intervals, sorted and joined where they touch; ``None`` if it is no set of real numbers."""
    found = _pieces(node)
    return None if found is None else joined(found)


def variable_of(node: Node) -> str | None:
    """The variable that an inequality bounds."""
    if isinstance(node, Chain):
        names = set().union(*(symbols(part) for part in node.parts if is_scalar(part)))
        return names.pop() if len(names) == 1 else None
    if isinstance(node, Listing):
        found = {variable_of(item) for item in node.items}
        return found.pop() if len(found) == 1 else None
    return None


def _pieces(node: Node) -> Pieces | None:
    if isinstance(node, Brackets):
        return _bracketed(node)
    if isinstance(node, Braces):
        return tuple(Piece(item, True, item, True) for item in node.items) if _plain(node.items) else None
    if isinstance(node, NamedSet):
        return {"R": (ALL,), "∅": ()}.get(node.name)
    if isinstance(node, Union):
        return _all(node.parts)
    if isinstance(node, Listing) and node.word in ("or", ","):
        if variable_of(node) is None and any(isinstance(item, Chain) for item in node.items):
            return None
        return _all(node.items) if all(is_range(item) for item in node.items) else None
    if isinstance(node, Without):
        return _without(node)
    if isinstance(node, Chain):
        return _inequality(node)
    return None


def _plain(items: Sequence[Node]) -> bool:
    return all(is_scalar(item) and not infinite(item) for item in items)


def _all(parts: Sequence[Node]) -> Pieces | None:
    found: list[Piece] = []
    for part in parts:
        here = _pieces(part)
        if here is None:
            return None
        found.extend(here)
    return tuple(found)


def _bracketed(node: Brackets) -> Pieces | None:
    if len(node.items) != 2 or node.opening not in "([]" or node.closing not in ")][":
        return None
    low, high = node.items
    if not is_scalar(low) or not is_scalar(high) or infinite(low) > 0 or infinite(high) < 0:
        return None
    left_open, right_open = bool(infinite(low)), bool(infinite(high))
    if (left_open and node.opening == "[") or (right_open and node.closing == "]"):
        return None
    return (
        Piece(
            None if left_open else low,
            node.opening == "[",
            None if right_open else high,
            node.closing == "]",
        ),
    )


def _without(node: Without) -> Pieces | None:
    whole, removed = _pieces(node.whole), node.removed
    if whole is None or not isinstance(removed, Braces) or not _plain(removed.items):
        return None
    for item in sorted_nodes(removed.items):
        rest: list[Piece] = []
        for piece in whole:
            rest.extend(_cut(piece, item))
        whole = tuple(rest)
    return whole


def _cut(piece: Piece, item: Node) -> list[Piece]:
    if piece.low is not None and compare(item, piece.low) < 0:
        return [piece]
    if piece.high is not None and compare(item, piece.high) > 0:
        return [piece]
    halves = []
    if piece.low is None or compare(item, piece.low) > 0:
        halves.append(Piece(piece.low, piece.low_closed, item, False))
    if piece.high is None or compare(item, piece.high) < 0:
        halves.append(Piece(item, False, piece.high, piece.high_closed))
    return halves


def _inequality(node: Chain) -> Pieces | None:
    if not all(is_scalar(part) for part in node.parts):
        return None
    name = variable_of(node)
    if name is None:
        return None
    if len(node.ops) == 1:
        if (sizes := _distance(node, name)) is not None:
            return sizes
        return _bound(node.parts[0], node.ops[0], node.parts[1], name)
    if len(node.ops) == 2 and {node.ops[0], node.ops[1]} <= _ORDERS:
        left = _bound(node.parts[0], node.ops[0], node.parts[1], name)
        right = _bound(node.parts[1], node.ops[1], node.parts[2], name)
        if left and right and len(left) == len(right) == 1:
            return _both(left[0], right[0])
    return None


def _distance(node: Chain, name: str) -> Pieces | None:
    """Solve ``|a x + b|`` against a constant; ``None`` for any other inequality."""
    (left, right), op = node.parts, node.ops[0]
    if isinstance(right, Call) and right.name == "abs":
        left, right, op = right, left, _FLIPPED.get(op, op)
    if not isinstance(left, Call) or left.name != "abs" or symbols(right) or infinite(right):
        return None
    if op == "≠":
        return None
    (inner,) = left.args
    if _bound(inner, op, right, name) is None:
        return None
    sign = compare(right, Num(0))
    if op in ("<", "≤"):
        if sign < 0 or (not sign and op == "<"):
            return ()
        lower = _bound(negative(right), op, inner, name)
        upper = _bound(inner, op, right, name)
        return _both(lower[0], upper[0]) if lower and upper else None
    if sign < 0 or (not sign and op == "≥"):
        return (ALL,)
    parts = (_bound(inner, op, right, name), _bound(inner, _FLIPPED[op], negative(right), name))
    return tuple(piece for part in parts for piece in part or ())


def _both(one: Piece, two: Piece) -> Pieces | None:
    if one.low is None and two.high is None:
        one, two = two, one
    if one.low is None or one.high is not None or two.high is None or two.low is not None:
        return None
    return (Piece(one.low, one.low_closed, two.high, two.high_closed),)


def _bound(left: Node, op: str, right: Node, name: str) -> Pieces | None:
    """Solve a comparison that is linear in its variable."""
    if op not in _FLIPPED:
        return None
    if isinstance(left, Sym) and name not in symbols(right):
        bound = right
    else:
        rest = Sum((left, negative(right)))
        variable = frozenset({(("v", name), 1)})
        try:
            form = normal(rest)
        except Refusal:
            return None
        slope = form.top.get(variable)
        linear = all(
            monomial == variable
            or not any(atom[0] == "v" for atom, _ in monomial if not isinstance(atom, int))
            for monomial in form.top
        )
        if slope is None or not linear or set(form.bottom) != {UNIT}:
            return None
        bound = divide(negative(at_zero(rest)), Num(slope))
        op = op if slope > 0 else _FLIPPED[op]
    if infinite(bound):
        return None
    if op == "≠":
        return (Piece(None, False, bound, False), Piece(bound, False, None, False))
    closed = op in ("≤", "≥")
    return (
        (Piece(bound, closed, None, False),) if op in (">", "≥") else (Piece(None, False, bound, closed),)
    )


def joined(pieces: Pieces) -> Pieces:
    """Sorted by lower end, overlapping and touching pieces made one. Raises ``Refusal``."""
    kept = [piece for piece in pieces if not _empty(piece)]
    if len(kept) < 2:
        return tuple(kept)
    kept.sort(key=cmp_to_key(_by_low))
    result = [kept[0]]
    for piece in kept[1:]:
        last = result[-1]
        if _reaches(last, piece):
            result[-1] = _merged(last, piece)
        else:
            result.append(piece)
    return tuple(result)


def _empty(piece: Piece) -> bool:
    if piece.low is None or piece.high is None or symbols(piece.low) or symbols(piece.high):
        return False
    order = compare(piece.low, piece.high)
    if order > 0:
        raise unparsable("an interval whose ends are in the wrong order")
    return order == 0 and not (piece.low_closed and piece.high_closed)


def _by_low(one: Piece, two: Piece) -> int:
    if one.low is None or two.low is None:
        return (one.low is not None) - (two.low is not None)
    return compare(one.low, two.low) or two.low_closed - one.low_closed


def _reaches(one: Piece, two: Piece) -> bool:
    if one.high is None or two.low is None:
        return True
    order = compare(one.high, two.low)
    return order > 0 or (order == 0 and (one.high_closed or two.low_closed))


def _merged(one: Piece, two: Piece) -> Piece:
    if one.high is None or two.high is None:
        return Piece(one.low, one.low_closed, None, False)
    order = compare(one.high, two.high)
    closed = one.high_closed or two.high_closed if order == 0 else (one if order > 0 else two).high_closed
    return Piece(one.low, one.low_closed, one.high if order >= 0 else two.high, closed)


def sorted_nodes(items: Sequence[Node]) -> list[Node]:
    """Constants in ascending order."""
    return sorted(items, key=cmp_to_key(compare))


def compare(one: Node, two: Node) -> int:
    """-1, 0 or 1. Raises ``Refusal`` for ends that are not real constants."""
    if isinstance(one, Num) and isinstance(two, Num):
        return (one.value > two.value) - (one.value < two.value)
    if same(one, two).equal:
        return 0
    if symbols(one) or symbols(two):
        raise unparsable("intervals whose ends cannot be ordered")
    evaluate = Evaluator(256, {}, real=True)
    try:
        apart = evaluate.value(one) - evaluate.value(two)
    except NotReal as error:
        raise unparsable("an interval with an end that is not real") from error
    return 1 if apart > 0 else -1
