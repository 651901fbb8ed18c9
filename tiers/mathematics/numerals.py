"""A position in the tokens, and the numerals that are read there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction

from tiers.mathematics.nodes import Node, Num, Sym
from tiers.mathematics.refusals import MAX_BITS, MAX_DEPTH, too_large, unparsable
from tiers.mathematics.tokens import Token

_BASES = {"0x": 16, "0b": 2, "0o": 8}
_END: Token = ("", "")


class NumeralReader(ABC):
    """A position in the tokens of one answer. ``sign`` is what ``±`` stands for in this reading."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = [*tokens, _END, _END]
        self.at = 0
        self.sign = 1
        self.signs_seen = False
        self.depth = 0
        self.bars = 0

    def kind(self) -> str:
        """Kind of the next token, empty at the end."""
        return self.tokens[self.at][0]

    def take(self, kind: str) -> bool:
        """Step over the next token if it is of this kind."""
        if self.tokens[self.at][0] == kind:
            self.at += 1
            return True
        return False

    def expect(self, kind: str) -> None:
        """Step over the next token; raises ``Refusal`` if it is of another kind."""
        if not self.take(kind):
            raise unparsable(f"'{kind}' is missing")

    def enter(self) -> None:
        """Go one level deeper; raises ``Refusal`` beyond the bound."""
        self.depth += 1
        if self.depth > 2 * MAX_DEPTH + 10:
            raise too_large("the expression nests too deeply")

    @abstractmethod
    def argument(self) -> Node:
        """One argument of a command."""

    def _vulgar(self, text: str) -> Node:
        top, _, bottom = text.partition("/")
        return Num(Fraction(int(top), int(bottom)))

    def _number(self, text: str) -> Node:
        if text[:2].lower() in _BASES:
            return Num(int(text, _BASES[text[:2].lower()]))
        if text.isdigit():
            number = Num(int(text))
        else:
            mantissa, _, exponent = text.lower().partition("e")
            whole, _, decimals = mantissa.partition(".")
            shift = int(exponent or 0) - len(decimals)
            if abs(shift) * 4 > MAX_BITS:
                raise too_large("an exponent beyond the bound")
            value = Fraction(int(whole + decimals)) * Fraction(10) ** shift
            number = Num(value.numerator if value.denominator == 1 else value, decimal=True)
            if not exponent and self.tokens[self.at] == ("c", "overline"):
                return self._repeating(number, len(decimals))
        if self.kind() == "_":
            return self._other_base(text)
        return number

    def _repeating(self, number: Num, decimals: int) -> Node:
        tokens = self.tokens[self.at + 1 : self.at + 4]
        if [kind for kind, _ in tokens] != ["{", "n", "}"] or not tokens[1][1].isdigit():
            raise unparsable("a repeating decimal that is not digits")
        digits = tokens[1]
        self.at += 4
        period = Fraction(int(digits[1]), 10 ** len(digits[1]) - 1) / 10**decimals
        return Num(number.value + period)

    def _other_base(self, digits: str) -> Node:
        self.at += 1
        base = self.argument()
        if not (isinstance(base, Num) and isinstance(base.value, int) and 2 <= base.value <= 10):
            raise unparsable("a numeral with a subscript that is not a base from 2 to 10")
        if not digits.isdigit() or any(int(digit) >= base.value for digit in digits):
            raise unparsable("digits that its base does not have")
        return Num(int(digits, base.value))

    def _superscript(self) -> Node:
        text = ""
        while self.kind() == "sup":
            text += self.tokens[self.at][1]
            self.at += 1
        if text == "n":
            return Sym("n")
        digits = text.lstrip("+-")
        if not digits.isdigit() or len(digits) < len(text) - 1:
            raise unparsable("a superscript that is not an integer")
        return Num(int(text))
