"""Tokens to one expression: a recursive descent in which every token must have its place.

Conventions, where writing leaves a choice: ``1/2x`` is ``(1/2)x``; ``3\\frac12`` and ``3 1/2`` are mixed
numbers when whole part, numerator and denominator are integers and the fraction is proper;
``\\sin 2x`` takes the factors written beside it, up to a sign, ``/`` or another function; ``\\log`` is
to base 10; ``i`` is the imaginary unit and ``e`` Euler's number; roots of odd order of negative numbers
are real.
"""

from __future__ import annotations

from fractions import Fraction

from tiers.mathematics.nodes import (
    Brackets,
    Call,
    Const,
    Degrees,
    Node,
    Num,
    Power,
    Quantity,
    Sym,
    Table,
    add,
    divide,
    is_scalar,
    multiply,
    negative,
    power,
)
from tiers.mathematics.numerals import NumeralReader
from tiers.mathematics.refusals import Refusal, unparsable
from tiers.mathematics.tokens import Token

_END: Token = ("", "")
_STARTS = frozenset({"n", "v", "k", "f", "c", "half", "(", "{", "[", "⌊", "⌈", "√"})
_CLOSERS = {"(": ")", "[": "]", "{": "}", "⌊": "⌋", "⌈": "⌉", "|": "|"}
_INVERSES = {"sin": "arcsin", "cos": "arccos", "tan": "arctan"}
_SEVERAL = frozenset({"gcd", "lcm", "max", "min", "binomial"})


class ExpressionReader(NumeralReader):
    """Reads sums, products, powers and functions from the tokens of one answer."""

    def expression(self) -> Node:
        """A sum of products."""
        self.enter()
        terms = [self._signed()]
        while self.tokens[self.at][0] in ("+", "-", "±", "∓"):
            terms.append(self._signed())
        self.depth -= 1
        if len(terms) > 1:
            _scalars(terms)
        return add(terms)

    def _signed(self) -> Node:
        minus = False
        while (kind := self.tokens[self.at][0]) in ("+", "-", "±", "∓"):
            self.at += 1
            if kind in ("±", "∓"):
                self.signs_seen = True
                minus ^= (self.sign < 0) == (kind == "±")
            else:
                minus ^= kind == "-"
        term = self._product()
        if minus:
            _scalars([term])
            return negative(term)
        return term

    def _product(self) -> Node:
        result = self._factor()
        while True:
            kind = self.tokens[self.at][0]
            if kind == "*":
                self.at += 1
                result = multiply(*_scalars([result, self._unary()]))
            elif kind == "/":
                self.at += 1
                result = divide(*_scalars([result, self._unary()]))
            elif kind == "c" and self.tokens[self.at][1] == "bmod":
                self.at += 1
                result = Call("mod", _scalars([result, self._unary()]))
            elif is_scalar(result) and self._beside(kind):
                if kind == "n" and isinstance(result, Num):
                    result = self._mixed(result)
                else:
                    result = self._juxtaposed(result)
            else:
                return result

    def _unary(self) -> Node:
        minus = False
        while self.kind() in ("+", "-"):
            minus ^= self.kind() == "-"
            self.at += 1
        factor = self._factor()
        return negative(_scalars([factor])[0]) if minus else factor

    def _beside(self, kind: str) -> bool:
        """Whether the next token begins a factor of an unwritten product."""
        if kind == "c":
            return self.tokens[self.at][1] not in ("bmod", "over")
        return kind in _STARTS or (kind == "|" and not self.bars)

    def _juxtaposed(self, left: Node) -> Node:
        token = self.tokens[self.at]
        previous = self.tokens[self.at - 1][0]
        if token[0] == "n" and previous not in ("}", ")", "]", "!"):
            raise unparsable("a numeral beside what it could belong to")
        right = self._factor()
        proper = (
            (token == ("c", "frac") or token[0] == "half")
            and previous == "n"
            and isinstance(left, Num)
            and isinstance(right, Num)
            and isinstance(left.value, int)
            and 0 < right.value < 1
        )
        if proper:
            return add([left, right])
        return multiply(*_scalars([left, right]))

    def _mixed(self, whole: Num) -> Node:
        """``3 1/2``: the second numeral must be the numerator of a proper fraction."""
        tokens = self.tokens[self.at - 1 : self.at + 3]
        written = [token[0] for token in tokens] == ["n", "n", "/", "n"]
        if not written or not all(tokens[place][1].isdigit() for place in (0, 1, 3)):
            raise unparsable("two numerals side by side")
        top, bottom = int(tokens[1][1]), int(tokens[3][1])
        if not 0 < top < bottom:
            raise unparsable("two numerals side by side")
        self.at += 3
        return add([whole, Num(Fraction(top, bottom))])

    def _factor(self) -> Node:
        base = self._primary()
        while True:
            kind = self.tokens[self.at][0]
            if kind == "^":
                self.at += 1
                if self.take("'"):
                    raise unparsable("a derivative")
                base = self._raised(base)
            elif kind == "sup":
                base = power(*_scalars([base, self._superscript()]))
            elif kind == "!":
                base = self._factorial(base)
            elif kind == "°":
                self.at += 1
                base = Degrees(_scalars([base])[0])
            else:
                return base

    def _raised(self, base: Node) -> Node:
        self.enter()
        exponent = self._exponent()
        self.depth -= 1
        base, exponent = _scalars([base, exponent])
        return power(base, exponent)

    def _exponent(self) -> Node:
        """What follows ``^``; towers are read from the right."""
        minus = False
        while self.kind() in ("+", "-"):
            minus ^= self.kind() == "-"
            self.at += 1
        grouped = self.kind() == "{"
        exponent = self._primary()
        if self.kind() == "^":
            self.at += 1
            exponent = self._raised(exponent)
        while self.kind() == "!" and not grouped:
            exponent = self._factorial(exponent)
        return negative(exponent) if minus else exponent

    def _factorial(self, base: Node) -> Node:
        marks = 0
        while self.take("!"):
            marks += 1
        if marks > 2:
            raise unparsable("more than two factorial signs")
        return Call("factorial" if marks == 1 else "factorial2", _scalars([base]))

    def _primary(self) -> Node:
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "n":
            return self._number(text)
        if kind == "v":
            return Sym(self._name(text))
        if kind == "k":
            return Const(text)
        if kind == "half":
            return self._vulgar(text)
        if kind == "f":
            return self._function(text)
        if kind == "c":
            return self._construct(text)
        if kind in _CLOSERS:
            return self._bracketed(kind)
        raise unparsable(f"nothing can begin with '{kind}'" if kind else "something is missing at the end")

    def _name(self, text: str) -> str:
        while True:
            kind = self.kind()
            if kind == "_":
                self.at += 1
                text += "_" + self._subscript()
            elif kind == "sub":
                text += ("" if "_" in text else "_") + self.tokens[self.at][1]
                self.at += 1
            elif kind == "'":
                self.at += 1
                text += "'"
            else:
                return text

    def _subscript(self) -> str:
        if not self.take("{"):
            kind, text = self.tokens[self.at]
            if kind not in ("n", "v", "k"):
                raise unparsable("a subscript that is not a name")
            self.at += 1
            return text
        start = self.at
        while self.kind() in ("n", "v", "k", "t", ",", "+", "-"):
            self.at += 1
        name = " ".join(text for _, text in self.tokens[start : self.at])
        self.expect("}")
        return name

    def argument(self) -> Node:
        """One argument of a command: a braced expression or the next single token."""
        kind, text = self.tokens[self.at]
        if kind == "{":
            self.at += 1
            return self._bracketed("{")
        if kind == "n" and len(text) > 1 and text.isdigit():
            self.tokens[self.at : self.at + 1] = [("n", text[0]), ("n", text[1:])]
            self.at += 1
            return Num(int(text[0]))
        if kind in ("n", "v", "k", "c"):
            self.enter()
            node = self._primary()
            self.depth -= 1
            return node
        raise unparsable("a command without its argument")

    def _construct(self, name: str) -> Node:
        if name == "frac":
            top = self.argument()
            return divide(*_scalars([top, self.argument()]))
        if name == "sqrt":
            order: Node = Num(2)
            if self.take("["):
                order = self._bracketed("[")
            return root(*_scalars([self.argument(), order]))
        if name == "binom":
            upper = self.argument()
            return Call("binomial", _scalars([upper, self.argument()]))
        if name == "accent":
            inner = self.argument()
            if isinstance(inner, Sym):
                return Sym(f"vec {inner.name}")
        raise unparsable(f"a {name} where it has no meaning")

    def _bracketed(self, opening: str) -> Node:
        """After an opening bracket: the expression inside, or values between commas."""
        self.enter()
        bars, self.bars = self.bars, int(opening == "|")
        closing = _CLOSERS[opening]
        if opening == "[" and self.take("]"):
            self.depth -= 1
            return Brackets("[", (), "]")
        items = [self.member() if opening in ("(", "[") else self.expression()]
        if opening == "{" and self.tokens[self.at] == ("c", "over"):
            self.at += 1
            items = [divide(*_scalars([items[0], self.expression()]))]
        while opening in ("(", "[") and (self.take(",") or self.take(";")):
            items.append(self.member())
        self.bars = bars
        self.depth -= 1
        written = self.kind()
        if len(items) > 1 and written in (")", "]"):
            self.at += 1
            return Brackets(opening, tuple(items), written)
        self.expect(closing)
        inner = items[0]
        if opening == "{":
            return inner
        if opening == "(" and is_scalar(inner):
            return inner
        if opening == "(" and isinstance(inner, Quantity):
            return _worked_in(inner)
        if isinstance(inner, Table) and opening in ("(", "["):
            return inner
        if opening == "[":
            return inner if is_scalar(inner) and self._inside() else Brackets("[", (inner,), "]")
        name = {"|": "abs", "⌊": "floor", "⌈": "ceil"}.get(opening)
        if name is None:
            raise unparsable("brackets around what needs none")
        return Call(name, _scalars([inner]))

    def _inside(self) -> bool:
        """Whether square brackets with one value inside serve as round ones: a factor is beside them."""
        return self._beside(self.kind()) or self.kind() in ("*", "/", "^", "+", "-", "]", ")", "}")

    def member(self) -> Node:
        """One member between brackets; the reader of whole answers allows more than expressions."""
        return self.expression()

    def _function(self, name: str) -> Node:
        if name in ("sqrt", "cbrt"):
            self.enter()
            inner = self._primary()
            self.depth -= 1
            return root(*_scalars([inner, Num(2 if name == "sqrt" else 3)]))
        base: Node | None = None
        exponent: Node | None = None
        while self.kind() in ("_", "^", "sup", "sub"):
            if self.take("_"):
                base = self.argument()
            elif self.kind() == "sub":
                base = Num(int(self.tokens[self.at][1]))
                self.at += 1
            elif self.take("^"):
                exponent = self._exponent()
            else:
                exponent = self._superscript()
        if isinstance(exponent, Num) and exponent.value == -1 and name in _INVERSES:
            name, exponent = _INVERSES[name], None
        call = self._called(name, base)
        return call if exponent is None else power(call, exponent)

    def _called(self, name: str, base: Node | None) -> Node:
        self.enter()
        args = self._arguments(name)
        self.depth -= 1
        if (len(args) > 1) != (name in _SEVERAL) or (base is not None and name != "log"):
            raise unparsable(f"{name} with arguments that it does not take")
        if name == "log":
            return divide(Call("ln", args), Call("ln", (base if base is not None else Num(10),)))
        if name == "exp":
            return power(Const("e"), args[0])
        return Call(name, args)

    def _arguments(self, name: str) -> tuple[Node, ...]:
        if self.kind() == "(" or (self.kind() == "{" and name not in _SEVERAL):
            opening = self.kind()
            self.at += 1
            inside = self._bracketed(opening)
            if isinstance(inside, Brackets) and inside.opening == "(" and inside.closing == ")":
                return _scalars(list(inside.items))
            return _scalars([inside])
        factors: Node = self._unary()
        while self._beside(self.kind()) and self.kind() not in ("f", "(", "|"):
            factors = multiply(*_scalars([factors, self._factor()]))
        return _scalars([factors])


def _worked_in(quantity: Quantity) -> Node:
    """A value with its unit between round brackets: degrees and percent become part of the value."""
    if quantity.unit == "°":
        return Degrees(quantity.value)
    if quantity.unit == "%":
        return divide(quantity.value, Num(100))
    return quantity


def root(radicand: Node, order: Node) -> Node:
    """The root of an order that must be a positive integer of at most three digits."""
    if not isinstance(order, Num) or not isinstance(order.value, int) or not 2 <= order.value <= 999:
        raise unparsable("a root whose order is not an integer from 2 to 999")
    return Power(radicand, Num(Fraction(1, order.value)))


def _scalars(nodes: list[Node]) -> tuple[Node, ...]:
    for node in nodes:
        if not is_scalar(node):
            raise unparsable("arithmetic with what is not a number or an expression")
        if isinstance(node, Const) and node.name == "inf" and len(nodes) > 1:
            raise Refusal("undefined", "arithmetic with infinity")
    return tuple(nodes)
