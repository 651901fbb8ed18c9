"""Are two read answers the same? Scalars, sets, tuples, intervals, matrices, equations.

Rules by kind: sets without order and repeats; lists without order, with repeats; tuples, points and
matrices in order; intervals with their brackets. ``(1, 3)`` is a tuple beside a tuple and an open interval
beside an interval. A set of one member, ``x = 5`` and ``5`` are one value. Whatever is decided is the same
with the sides exchanged, except where a unit, a percent sign or a domain is the reference's to set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiers.mathematics.equality import EXACT_NO, EXACT_YES, Match, same
from tiers.mathematics.nodes import (
    Braces,
    Brackets,
    Chain,
    Listing,
    NamedSet,
    Node,
    Num,
    Quantity,
    Rational,
    Table,
    divide,
    is_scalar,
    multiply,
)
from tiers.mathematics.quantities import Rules, WrongUnit, same_quantity
from tiers.mathematics.ranges import Piece, is_range, pieces_of
from tiers.mathematics.refusals import Refusal
from tiers.mathematics.relations import (
    is_application,
    is_equality,
    named_value,
    only_approximate,
    same_equation,
    symbols_in,
)

MAX_PAIRS = 5_000
_WEAKER = ("exact", "precision", "points", "tolerance")


def same_answer(gold: Node, answer: Node, rules: Rules) -> Match:
    """Compare a reference with an answer.

    Raises ``Refusal`` (the answer's fault), ``WrongUnit`` or ``equality.ReferenceRefusal``.
    """
    match = _compared(gold, answer, rules)
    if type(answer) is not Chain or not match.equal or match.method != "exact":
        return match
    if only_approximate(answer) and not _inexact(gold):
        return EXACT_NO  # 'about 42' does not say 42
    return match


def _inexact(node: Node) -> bool:
    """Whether a reference is itself a decimal or an approximation, in any part."""
    if isinstance(node, Chain):
        return "≈" in node.ops or any(_inexact(part) for part in node.parts)
    if isinstance(node, Brackets | Braces | Listing):
        return any(_inexact(item) for item in node.items)
    node = _bare(node)
    return isinstance(node, Num) and bool(node.decimal)


def _compared(gold: Node, answer: Node, rules: Rules) -> Match:
    gold = _value(gold) if _scalar_wanted(gold, answer) else _simplified(gold)
    answer = _value(answer) if not isinstance(gold, Chain) else _simplified(answer)
    if isinstance(gold, Chain) and is_equality(gold):
        return _equation(gold, answer, rules)
    if rules.kind in ("tuple", "point") and is_range(answer) and not is_range(gold):
        return EXACT_NO
    if rules.kind == "interval" or is_range(gold) or is_range(answer):
        return _ranges(gold, answer, rules)
    if isinstance(gold, Table) or isinstance(answer, Table):
        return _tables(gold, answer, rules)
    if isinstance(gold, Braces | Listing) or isinstance(answer, Braces | Listing):
        return _collections(gold, answer, rules)
    if isinstance(gold, Brackets) or isinstance(answer, Brackets):
        return _tuples(gold, answer, rules)
    if isinstance(gold, NamedSet) or isinstance(answer, NamedSet):
        alike = isinstance(gold, NamedSet) and isinstance(answer, NamedSet) and gold.name == answer.name
        return EXACT_YES if alike else EXACT_NO
    if isinstance(answer, Chain):
        return EXACT_NO
    return same_quantity(gold, answer, rules)


def _scalar_wanted(gold: Node, answer: Node) -> bool:
    """Whether a named reference (``x = 5``) is compared by its value: the answer is no equation."""
    if not isinstance(gold, Chain) or not is_equality(gold):
        return True
    return not (isinstance(answer, Chain) and is_equality(answer))


def _value(node: Node) -> Node:
    """What a chain of equalities names, a one-member set holds; anything else as it is."""
    node = _simplified(node)
    if isinstance(node, Chain) and is_equality(node):
        value = named_value(node)
        return node if value is None else _simplified(value)
    return node


def _simplified(node: Node) -> Node:
    if isinstance(node, Braces | Listing):
        items = _flat(node.items)
        if len(items) == 1 and isinstance(node, Braces) and not isinstance(items[0], NamedSet | Braces):
            return _simplified(items[0])
        return Braces(items) if isinstance(node, Braces) else Listing(items, node.word)
    return node


def _flat(items: Sequence[Node]) -> tuple[Node, ...]:
    """Members, those of ``±`` taken apart."""
    found: list[Node] = []
    for item in items:
        found.extend(item.items if isinstance(item, Listing) else (item,))
    return tuple(found)


def _equation(gold: Chain, answer: Node, rules: Rules) -> Match:
    if isinstance(answer, Chain) and is_equality(answer):
        expressions = all(is_scalar(part) for part in (*gold.parts, *answer.parts))
        if len(gold.ops) == len(answer.ops) == 1 and expressions:
            match = same_equation(gold, answer)
            if match.equal or not (is_application(gold.parts[0]) or is_application(answer.parts[0])):
                return match
        one, two = named_value(gold), named_value(answer)
        if one is None or two is None or not _same_name(gold, answer):
            return EXACT_NO
        return same_answer(one, two, rules)
    return EXACT_NO


def _same_name(gold: Chain, answer: Chain) -> bool:
    """``f(x) = …`` fits any name of a function of x; other names must be the same."""
    one, two = gold.parts[0], answer.parts[0]
    if is_application(one) or is_application(two):
        return True
    if isinstance(one, Brackets) or isinstance(two, Brackets):
        return isinstance(one, Brackets) and isinstance(two, Brackets) and len(one.items) == len(two.items)
    return bool(symbols_in(one)) and symbols_in(one) == symbols_in(two)


def _ranges(gold: Node, answer: Node, rules: Rules) -> Match:
    if (
        isinstance(gold, Chain)
        and isinstance(answer, Chain)
        and len(symbols_of(gold) | symbols_of(answer)) > 1
    ):
        return same_equation(gold, answer) if len(symbols_of(answer)) > 1 else EXACT_NO
    wanted, given = pieces_of(gold), pieces_of(answer)
    if wanted is None or given is None:
        if isinstance(gold, NamedSet) and isinstance(answer, NamedSet):
            return EXACT_YES if gold.name == answer.name else EXACT_NO
        if isinstance(gold, Chain) and isinstance(answer, Chain):
            return same_equation(gold, answer)
        return EXACT_NO
    if len(wanted) != len(given):
        return EXACT_NO
    return _together([_same_piece(one, two, rules) for one, two in zip(wanted, given, strict=True)])


def symbols_of(chain: Chain) -> frozenset[str]:
    """Variables of all sides."""
    return frozenset().union(*(symbols_in(part) for part in chain.parts))


def _same_piece(one: Piece, two: Piece, rules: Rules) -> Match:
    if (one.low_closed, one.high_closed) != (two.low_closed, two.high_closed):
        return EXACT_NO
    return _together([_same_end(one.low, two.low, rules), _same_end(one.high, two.high, rules)])


def _same_end(one: Node | None, two: Node | None, rules: Rules) -> Match:
    if one is None or two is None:
        return EXACT_YES if one is two else EXACT_NO
    return same(one, two, rules.tolerance)


def _tables(gold: Node, answer: Node, rules: Rules) -> Match:
    wanted, given = _rows(gold), _rows(answer)
    if wanted is None or given is None or [len(row) for row in wanted] != [len(row) for row in given]:
        return EXACT_NO
    pairs = [(one, two) for a, b in zip(wanted, given, strict=True) for one, two in zip(a, b, strict=True)]
    return _in_order(pairs, rules)


def _rows(node: Node) -> Sequence[tuple[Node, ...]] | None:
    """The rows of a matrix; a tuple is a column."""
    if isinstance(node, Table):
        return node.rows
    if isinstance(node, Brackets) and node.opening in ("(", "[", "<"):
        if all(isinstance(item, Brackets) for item in node.items):
            return [item.items for item in node.items if isinstance(item, Brackets)]
        return [(item,) for item in node.items]
    return None


def _in_order(pairs: Sequence[tuple[Node, Node]], rules: Rules) -> Match:
    matches = []
    for one, two in pairs:
        match = same_answer(one, two, rules)
        if not match.equal:
            return match
        matches.append(match)
    return _together(matches)


def _together(matches: Sequence[Match]) -> Match:
    """All must hold; the weakest method is the one that decided."""
    if not matches:
        return EXACT_YES
    for match in matches:
        if not match.equal:
            return match
    weakest = max((match.method for match in matches), key=lambda name: _WEAKER.index(name))
    return Match(True, weakest)


def _tuples(gold: Node, answer: Node, rules: Rules) -> Match:
    if not isinstance(gold, Brackets) or not isinstance(answer, Brackets):
        return _ratio(gold, answer, rules)
    if len(gold.items) != len(answer.items):
        return EXACT_NO
    if (gold.opening == ":") != (answer.opening == ":"):
        return EXACT_NO
    if gold.opening == ":":
        return _ratios(gold, answer, rules)
    shape = {gold.opening + gold.closing, answer.opening + answer.closing}
    declared = rules.kind in ("tuple", "point")
    if len(shape) > 1 and len(gold.items) == 2 and not declared and shape != {"()", "<>"}:
        return EXACT_NO
    return _in_order(list(zip(gold.items, answer.items, strict=True)), replace(rules, kind=None))


def _ratio(gold: Node, answer: Node, rules: Rules) -> Match:
    """``3:2`` beside ``3/2``."""
    one, two = (_quotient(side) for side in (gold, answer))
    if one is None or two is None:
        return EXACT_NO
    return same(one, two, rules.tolerance)


def _quotient(node: Node) -> Node | None:
    if isinstance(node, Brackets):
        return divide(*node.items) if node.opening == ":" and len(node.items) == 2 else None
    return node if is_scalar(node) else None


def _ratios(gold: Brackets, answer: Brackets, rules: Rules) -> Match:
    if "clock" in (gold.closing, answer.closing):  # 3:30 may be a time, which 1:10 is not
        return _together(
            [same(one, two, rules.tolerance) for one, two in zip(gold.items, answer.items, strict=True)]
        )
    pairs = [
        (multiply(one, answer.items[0]), multiply(two, gold.items[0]))
        for one, two in zip(gold.items, answer.items, strict=True)
    ]
    return _together([same(one, two, rules.tolerance) for one, two in pairs])


def _collections(gold: Node, answer: Node, rules: Rules) -> Match:
    """Sets and lists beside each other, beside a tuple without order of its own, or beside one value."""
    plain = replace(rules, kind=None)
    for one, two in ((gold, answer), (answer, gold)):
        if isinstance(one, Listing) and isinstance(two, Brackets) and two.opening in ("(", "[", "<"):
            named = _by_name(one.items)
            if len(one.items) != len(two.items) or not _may_be_tuple(one, named, rules):
                return EXACT_NO
            pairs = (
                zip(named, two.items, strict=True) if one is gold else zip(two.items, named, strict=True)
            )
            return _in_order(list(pairs), plain)
    wanted, given = _members(gold, answer), _members(answer, gold)
    if wanted is None or given is None:
        if (
            isinstance(answer, Listing)
            and answer.word in ("or", ",", "and", "±")
            and is_scalar(_bare(gold))
        ):
            raise Refusal("hedged_answer", "several values where one is asked for")
        return EXACT_NO
    if rules.kind in ("tuple", "point") and len(wanted) == len(given):
        return _in_order(list(zip(wanted, given, strict=True)), plain)
    as_set = rules.kind == "set" or is_scalar(_bare(gold))
    if isinstance(gold, Braces) or (isinstance(answer, Braces) and as_set):
        wanted, given = _distinct(wanted, plain), _distinct(given, plain)
    return _matched(wanted, given, plain)


def _may_be_tuple(listing: Listing, named: Sequence[Node], rules: Rules) -> bool:
    """Whether a list without brackets can be the tuple beside it.

    Two members could as well be the ends of an interval or the elements of a set: then the type must
    be declared, or the members named (``x = 1, y = 2``).
    """
    if listing.word != "," and rules.kind not in ("tuple", "point"):
        return named is not listing.items
    return len(listing.items) > 2 or named is not listing.items or rules.kind in ("tuple", "point")


def _bare(node: Node) -> Node:
    return node.value if isinstance(node, Quantity) else node


def _by_name(items: Sequence[Node]) -> Sequence[Node]:
    """``y = 2, x = 1`` beside a tuple: in the order of the names."""
    if all(isinstance(item, Chain) and is_equality(item) for item in items):
        names = [sorted(symbols_in(item.parts[0])) for item in items if isinstance(item, Chain)]
        if all(names) and len({name[0] for name in names}) == len(items):
            return [item for _, item in sorted(zip(names, items, strict=True), key=lambda pair: pair[0])]
    return items


def _members(node: Node, beside: Node) -> tuple[Node, ...] | None:
    if isinstance(beside, Braces) and is_scalar(_bare(node)):
        return (node,)  # of one member, as ``_simplified`` reads it: beside it repeats may stand
    if isinstance(node, NamedSet) and node.name == "∅":
        return ()
    return node.items if isinstance(node, Braces | Listing) else None


def _number(node: Node) -> Rational | None:
    return node.value if isinstance(node, Num) else None


def _distinct(items: tuple[Node, ...], rules: Rules) -> tuple[Node, ...]:
    kept: list[Node] = []
    numbers: set[Rational] = set()
    strict = replace(rules, tolerance=0.0)
    for item in items:
        number = _number(item)
        if number is not None:
            if number not in numbers:
                numbers.add(number)
                kept.append(item)
        elif len(kept) > 40 or not any(_match(other, item, strict).equal for other in kept):
            kept.append(item)
    return tuple(kept)


def _match(one: Node, two: Node, rules: Rules) -> Match:
    if (
        type(one) is Num
        and type(two) is Num
        and one.value != two.value
        and not (one.decimal or two.decimal)
    ):
        return EXACT_NO
    try:
        return same_answer(one, two, rules)
    except WrongUnit:
        return EXACT_NO


def _matched(wanted: tuple[Node, ...], given: tuple[Node, ...], rules: Rules) -> Match:
    """A one-to-one match between two collections; equal numbers are paired first."""
    if len(wanted) != len(given):
        return EXACT_NO
    left = list(given)
    places: dict[Rational, list[int]] = {}
    for place, item in enumerate(left):
        if (number := _number(item)) is not None:
            places.setdefault(number, []).append(place)
    open_gold, used = [], set()
    for item in wanted:
        number = _number(item)
        if number is not None and places.get(number):
            used.add(places[number].pop())
        else:
            open_gold.append(item)
    rest = [item for place, item in enumerate(left) if place not in used]
    if len(open_gold) * len(rest) > MAX_PAIRS:
        raise Refusal("too_large", "too many members that are not numbers")
    methods = [EXACT_YES]
    for item in open_gold:
        for place, other in enumerate(rest):
            match = _match(item, other, rules)
            if match.equal:
                methods.append(match)
                del rest[place]
                break
        else:
            return EXACT_NO
    return _together(methods)
