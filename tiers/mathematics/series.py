"""Finite sums and products over whole numbers: ``\\sum_{k=1}^{10} k^2``, ``\\prod_{k=2}^{9} k``.

The body is read once for each value of its index, so bounds and bodies may depend on outer indices. A
sum takes the product that follows it; a product only the factors written side by side, because
``\\prod k \\cdot 2`` can be read in two ways. Anything without whole bounds is not read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from math import lcm

from tiers.mathematics.nodes import Node, Num, Rational, add, bits, is_scalar, multiply, symbols
from tiers.mathematics.normal import as_rational, normal
from tiers.mathematics.numerals import NumeralReader
from tiers.mathematics.refusals import too_large, unparsable
from tiers.mathematics.tokens import Token

MAX_SERIES_TERMS = 3_000
MAX_SERIES_TOKENS = 40_000  # read over and over, in all series of one answer: about 0.2 s
MAX_SERIES_BITS = 2_000_000  # of all terms together
MAX_RESULT_BITS = 40_000  # 2006! has 19 000
MAX_UNFOLDED = 200  # terms that are no rational numbers


class SeriesReader(NumeralReader):
    """Reads sums and products. ``indices`` holds the values of the indices that are in force."""

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self.indices: dict[str, Node] = {}
        self._tokens_read = 0
        self._bits_made = 0

    @abstractmethod
    def expression(self) -> Node:
        """A sum of products."""

    @abstractmethod
    def product(self) -> Node:
        """A product with its signs."""

    @abstractmethod
    def _table(self, environment: str) -> Node:
        """A matrix."""

    @abstractmethod
    def side_by_side(self) -> Node:
        """Factors without a sign between them."""

    def _series(self, kind: str) -> Node:
        index, low, high = self._bounds()
        if index in self.indices:
            raise unparsable("an index within its own sum")
        if high - low >= MAX_SERIES_TERMS:
            raise too_large(f"a sum or product of more than {MAX_SERIES_TERMS} terms")
        if high < low:
            raise unparsable("a sum or product without terms")
        start = self.at
        terms: list[Node] = []
        for value in range(low, high + 1):
            self.at = start
            self.indices[index] = Num(value)
            terms.append(self._counted(self.product() if kind == "sum" else self.side_by_side()))
            self._tokens_read += self.at - start + 1
            if self._tokens_read > MAX_SERIES_TOKENS:
                raise too_large("sums or products that are too long")
        del self.indices[index]
        if kind == "prod" and self.kind() in ("*", "/"):
            raise unparsable("a product of which it is not clear where it ends")
        return _joined(kind, terms)

    def _counted(self, term: Node) -> Node:
        """The term as one number where it is rational. Raises ``Refusal``."""
        if not is_scalar(term):
            raise unparsable("a sum or product of what is not numbers")
        if not isinstance(term, Num) and not symbols(term):
            value = as_rational(normal(term))
            term = term if value is None else Num(value)
        if isinstance(term, Num):
            self._bits_made += bits(term.value)
            if self._bits_made > MAX_SERIES_BITS:
                raise too_large("a sum or product of numbers that are too large")
        return term

    def _bounds(self) -> tuple[str, int, int]:
        index, low, high = "", None, None
        while self.kind() in ("_", "^"):
            if self.take("^"):
                high = _whole(self.argument())
                continue
            self.at += 1
            self.expect("{")
            kind, index = self.tokens[self.at]
            if kind != "v" and (kind, index) != ("k", "i"):
                raise unparsable("a sum without an index")
            self.at += 1
            self.expect("=")
            low = _whole(self.expression())
            self.expect("}")
        if low is None or high is None:
            raise unparsable("a sum or product without bounds")
        return index, low, high


def _whole(node: Node) -> int:
    if not isinstance(node, Num) or not isinstance(node.value, int):
        raise unparsable("bounds that are not whole numbers")
    return node.value


def _joined(kind: str, terms: Sequence[Node]) -> Node:
    numbers = [term for term in terms if isinstance(term, Num)]
    others = [term for term in terms if not isinstance(term, Num)]
    if len(others) > MAX_UNFOLDED:
        raise too_large(f"more than {MAX_UNFOLDED} terms that are not rational")
    values = [number.value for number in numbers]
    total = Num(
        _total(values) if kind == "sum" else _multiplied(values), any(term.decimal for term in numbers)
    )
    if kind == "sum":
        return add([total, *others])
    result: Node = total
    for other in others:
        result = multiply(result, other)
    return result


def _total(values: Sequence[Rational]) -> Rational:
    bottom = 1
    for value in values:
        bottom = lcm(bottom, value.denominator)
        _within(bottom)
    return _reduced(sum(value.numerator * (bottom // value.denominator) for value in values), bottom)


def _multiplied(values: Sequence[Rational]) -> Rational:
    top = bottom = 1
    for value in values:
        top, bottom = top * value.numerator, bottom * value.denominator
        _within(top, bottom)
    return _reduced(top, bottom)


def _within(*numbers: int) -> None:
    if max(number.bit_length() for number in numbers) > MAX_RESULT_BITS:
        raise too_large("a sum or product that is too large")


def _reduced(top: int, bottom: int) -> Rational:
    value = Fraction(top, bottom)
    return value.numerator if value.denominator == 1 else value
