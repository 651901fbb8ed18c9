"""A whole answer: expressions, and what can be made of them (sets, intervals, relations, matrices …)."""

from __future__ import annotations

import re

from tiers.mathematics.expressions import ExpressionReader
from tiers.mathematics.nodes import (
    Braces,
    Brackets,
    Chain,
    Degrees,
    Listing,
    NamedSet,
    Node,
    Num,
    Quantity,
    Table,
    Union,
    Without,
    is_scalar,
    multiply,
)
from tiers.mathematics.refusals import MAX_CELLS, MAX_MEMBERS, MAX_NESTING, Refusal, too_large, unparsable
from tiers.mathematics.tokens import Token, outward_brackets, tokenize

_RELATIONS = frozenset({"=", "≠", "≈", "<", ">", "≤", "≥"})
_SEPARATORS = {",": ",", ";": ",", "and": "and", "or": "or"}
_CONNECTIVES = re.compile(
    r"\b(or|and|not|maybe|either|perhaps|but|if|because|otherwise|is|are|plus|minus|times|over|more|less|than|half"
    r"|halves|thirds?|quarters?|fourths?|fifths?|tenths?|hundredths?|thousandths?|twice|double|triple|negative|least"
    r"|most|about|almost|nearly|approximately|root|factorial|power|hundred|thousand|million|billion|trillion|dozens?"
    r")\b|[0-9]{2}",
    re.I,
)
_MULTIPLIERS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_PERCENT = re.compile(r"(?:per ?cent|pct)\b", re.I)
_UNIT = re.compile(r"[A-Za-z°²³%/^().' -]+[0-9]?[A-Za-z°²³%/^(). -]*")


def read_answer(
    text: str, *, thousands: bool = True, decimal_comma: bool = False, points: bool = False
) -> Node:
    """Read the whole of ``text``; ``points`` allows a name before a point, as in ``P(3,4)``.

    Raises ``Refusal``; a text that is read in part is not read.
    """
    text = text.strip().rstrip("\\ ")
    if not text.endswith("\\right."):
        text = text.removesuffix(".")
    tokens = tokenize(text, thousands=thousands, decimal_comma=decimal_comma)
    try:
        node = AnswerReader(tokens, points=points).whole()
    except Refusal as refusal:
        turned = outward_brackets(tokens) if refusal.code == "unparsable" else None
        if turned is None:
            raise
        node = AnswerReader(turned, points=points).whole()
    _refuse_nesting(node, MAX_NESTING)
    return node


def _refuse_nesting(node: Node, levels: int) -> None:
    """Comparing sets of sets multiplies with every level."""
    if isinstance(node, Braces | Brackets | Listing):
        if not levels:
            raise too_large(f"sets and tuples nest deeper than {MAX_NESTING}")
        for item in node.items:
            _refuse_nesting(item, levels - 1)
    elif isinstance(node, Chain | Union):
        for part in node.parts:
            _refuse_nesting(part, levels)


class AnswerReader(ExpressionReader):
    """Reads what stands at the top of an answer or between its brackets."""

    def __init__(self, tokens: list[Token], *, points: bool = False) -> None:
        super().__init__(tokens)
        self.points = points

    def whole(self) -> Node:
        """Everything up to the end."""
        node = self._listing()
        if self.kind():
            raise unparsable(f"'{self.kind()}' where the answer should have ended")
        return node

    def _listing(self) -> Node:
        items = [self.member()]
        word = ""
        while separator := _SEPARATORS.get(self.kind()):
            self.at += 1
            if separator == ",":  # "1, 2, and 3"
                separator = _SEPARATORS.get(self.kind(), ",")
                self.at += separator != ","
            word = "or" if "or" in (word, separator) else separator
            items.append(self.member())
            if len(items) > MAX_MEMBERS:
                raise too_large(f"more than {MAX_MEMBERS} members")
        if len(items) == 1:
            return items[0]
        return Listing(tuple(items), word)

    def member(self) -> Node:
        """One element; with ``±`` it is read once for each sign."""
        start, outer = self.at, self.signs_seen
        self.signs_seen = False
        sign, self.sign = self.sign, 1
        first = self._relation()
        if self.signs_seen:
            end = self.at
            self.at, self.sign = start, -1
            second = self._relation()
            if self.at != end:
                raise unparsable("a sign that changes what follows")
            first = Listing((first, second), "±")
        self.signs_seen, self.sign = outer, sign
        return first

    def _relation(self) -> Node:
        first = self._side()
        if self.take("∈"):
            if not is_scalar(first) and not isinstance(first, Brackets):
                raise unparsable("membership of what is not a variable")
            if not self.kind():
                return Quantity(first, "in")
            return self._side()
        parts, ops = [first], []
        while (kind := self.kind()) in _RELATIONS:
            self.at += 1
            if kind in ("<", ">") and self.take("="):
                kind = "≤" if kind == "<" else "≥"
            ops.append(kind)
            parts.append(self._side())
        return Chain(tuple(parts), tuple(ops)) if ops else first

    def _side(self) -> Node:
        node = self._set()
        while True:
            if self.take("∪") or self._letter_union(node):
                right = self._set()
                node = Union((*node.parts, right) if isinstance(node, Union) else (node, right))
            elif self.take("∖"):
                node = Without(node, self._set())
            else:
                return node

    def _letter_union(self, left: Node) -> bool:
        here, after = self.tokens[self.at], self.tokens[self.at + 1][0]
        if here == ("v", "U") and isinstance(left, Brackets) and after in ("(", "["):
            self.at += 1
            return True
        return False

    def _set(self) -> Node:
        kind, text = self.tokens[self.at]
        if kind == "\\{":
            self.at += 1
            return self._braces()
        if kind == "∅":
            self.at += 1
            return NamedSet("∅")
        if kind == "u":
            self.at += 1
            return NamedSet(text)
        if kind == "⟨":
            self.at += 1
            items = self._members("⟩")
            return Brackets("<", items, ">")
        if kind == "v" and self.points and (point := self._named_point(text)) is not None:
            return point
        currency = ""
        if kind == "$":
            self.at += 1
            currency = text
        node = self.expression()
        if self.kind() == ":":
            return self._ratio(node)
        return self._with_unit(node, currency)

    def _named_point(self, name: str) -> Node | None:
        """``P(3,4)``, or ``None`` (and nothing is read) for anything else."""
        start = self.at
        self.at += 1
        if len(name) == 1 and name.isupper():
            self._name(name)
            if self.take("("):
                inside = self._bracketed("(")
                if isinstance(inside, Brackets):
                    return inside
        self.at = start
        return None

    def _ratio(self, first: Node) -> Node:
        items = [first]
        while self.take(":"):
            items.append(self.expression())
        if not all(is_scalar(item) for item in items):
            raise unparsable("a ratio of what is not numbers")
        last, before = self.tokens[self.at - 1], self.tokens[self.at - 2]
        clock = last[0] == "n" and len(last[1]) == 2 and before == (":", ":")
        return Brackets(":", tuple(items), "clock" if clock else ":")

    def _with_unit(self, node: Node, currency: str) -> Node:
        """Attach what is written beside a value as its unit."""
        unit = currency
        if self.take("%"):
            unit = "%"
        elif self.kind() == "t":
            node = self._multiplied(node)
            unit = unit or (self._unit() if self.kind() == "t" else "")
            if _PERCENT.match(unit):
                unit = "%"
        elif isinstance(node, Degrees):
            node, unit = node.value, "°"
            if self.tokens[self.at] in (("v", "C"), ("v", "F")):
                unit += self.tokens[self.at][1]
                self.at += 1
        elif self.kind() == "'" and isinstance(node, Num):
            self.at += 1
            unit = "in" if self.take("'") else "ft"
        if not unit:
            return node
        if not is_scalar(node):
            raise unparsable("a unit beside what is not a number")
        return Quantity(node, unit)

    def _multiplied(self, node: Node) -> Node:
        """``5 million``: the word is part of the number."""
        first, _, rest = self.tokens[self.at][1].partition(" ")
        factor = 12 if first.lower() == "dozen" else 10 ** _MULTIPLIERS.get(first.lower(), 0)
        if factor == 1 or not is_scalar(node):
            return node
        if rest:
            self.tokens[self.at] = ("t", rest)
        else:
            self.at += 1
        return multiply(node, Num(factor))

    def _unit(self) -> str:
        unit = ""
        while True:
            kind, text = self.tokens[self.at]
            if kind == "t":
                unit += (" " if unit and unit[-1].isalnum() else "") + text
            elif kind == "^" and self.tokens[self.at + 1][0] in ("n", "{"):
                self.at += 1
                unit += f"^{self._power_of_unit()}"
                continue
            elif kind == "sup" or (kind in ("/", "*") and self.tokens[self.at + 1][0] in ("t", "v")):
                unit += text if kind != "sup" else f"^{text}"
            elif kind == "v" and unit.endswith(("/", "*")):
                unit += text
            else:
                break
            self.at += 1
        if len(unit) > 60 or _CONNECTIVES.search(unit) or not _UNIT.fullmatch(unit):
            raise unparsable("words beside a value that are not a unit")
        return unit

    def _power_of_unit(self) -> str:
        sign = ""
        braced = self.take("{")
        if self.take("-"):
            sign = "-"
        kind, text = self.tokens[self.at]
        if kind != "n" or text not in ("1", "2", "3"):
            raise unparsable("a unit to a power that is not 1, 2 or 3")
        self.at += 1
        if braced:
            self.expect("}")
        return f"{sign}{text}"

    def _members(self, closing: str) -> tuple[Node, ...]:
        self.enter()
        items: list[Node] = []
        while not self.take(closing):
            if items and not (self.take(",") or self.take(";") or self.take("and")):
                raise unparsable("members that no comma separates")
            items.append(self.member())
            if len(items) > MAX_MEMBERS:
                raise too_large(f"more than {MAX_MEMBERS} members")
        self.depth -= 1
        return tuple(items)

    def _braces(self) -> Node:
        if self.tokens[self.at][0] in ("v", "(") and (builder := self._builder()):
            return builder
        items = self._members("\\}")
        return Braces(items) if items else NamedSet("∅")

    def _builder(self) -> Node | None:
        """``{x | condition}`` and ``{x ∈ R : condition}``: the condition is what is meant."""
        start = self.at
        self.at += 1
        if self.take("∈") and not self.take("u"):
            self.at = start
            return None
        if not (self.take("|") or self.take(":")):
            self.at = start
            return None
        bars, self.bars = self.bars, 0
        condition = self._listing()
        self.bars = bars
        self.expect("\\}")
        if isinstance(condition, Listing) and condition.word != "or":
            raise unparsable("a set with several conditions")
        return condition

    def _table(self, environment: str) -> Node:
        self.enter()
        rows: list[tuple[Node, ...]] = []
        row: list[Node] = []
        cells = 0
        while self.kind() != "end":
            row.append(self.expression())
            cells += 1
            if cells > MAX_CELLS:
                raise too_large(f"a matrix of more than {MAX_CELLS} cells")
            if self.take("&"):
                continue
            rows.append(tuple(row))
            row = []
            if not self.take("\\\\"):
                break
        if self.tokens[self.at] != ("end", environment) or row:
            raise unparsable("a matrix that does not end")
        self.at += 1
        self.depth -= 1
        if not rows or any(len(row) != len(rows[0]) for row in rows):
            raise unparsable("a matrix with rows of different lengths")
        if not all(is_scalar(cell) for row in rows for cell in row):
            raise unparsable("a matrix of what is not numbers")
        if environment == "vmatrix":
            raise unparsable("a determinant that is not worked out")
        return Table(tuple(rows))
