"""Tokens to one expression: a recursive descent in which every token must have its place.

Conventions, where writing leaves a choice: ``1/2x`` is ``(1/2)x``; ``3\\frac12`` and ``3 1/2`` are mixed
numbers when whole part, numerator and denominator are integers and the fraction is proper;
``\\sin 2x`` takes the factors written beside it, up to a sign, ``/`` or another function; ``\\log`` is
to base 10; ``i`` is the imaginary unit and ``e`` Euler's number; roots of odd order of negative numbers
are real.
"""

from __future__ import annotations

from fractions import Fraction

from tiers.mathematics.arithmetic import negated, root, scalars, scaled, worked_in
from tiers.mathematics.nodes import (
    Brackets,
    Call,
    Const,
    Degrees,
    Node,
    Num,
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
from tiers.mathematics.refusals import unparsable
from tiers.mathematics.series import SeriesReader
from tiers.mathematics.tokens import Token

_END: Token = ("", "")
_STARTS = frozenset({"n", "v", "k", "f", "c", "half", "(", "{", "[", "⌊", "⌈", "√", "begin"})
_CLOSERS = {"(": ")", "[": "]", "{": "}", "⌊": "⌋", "⌈": "⌉", "|": "|"}
_INVERSES = {"sin": "arcsin", "cos": "arccos", "tan": "arctan"}
_SEVERAL = frozenset({"gcd", "lcm", "max", "min", "binomial"})


class ExpressionReader(SeriesReader):
    """Reads sums, products, powers and functions from the tokens of one answer."""

    def expression(self) -> Node:
        """A sum of products."""
        self.enter()
        terms = [self._signed()]
        while self.tokens[self.at][0] in ("+", "-", "±", "∓"):
            terms.append(self._signed())
        self.depth -= 1
        return add(scalars(terms) if len(terms) > 1 else terms)

    def _signed(self) -> Node:
        minus = False
        while (kind := self.tokens[self.at][0]) in ("+", "-", "±", "∓"):
            self.at += 1
            if kind in ("±", "∓"):
                self.signs_seen = True
                minus ^= (self.sign < 0) == (kind == "±")
            else:
                minus ^= kind == "-"
        term = self.product()
        return negated(term) if minus else term

    def product(self) -> Node:
        """Factors with the signs between them, as far as they go."""
        result = self._factor()
        while True:
            kind = self.tokens[self.at][0]
            if kind == "*":
                self.at += 1
                result = scaled(result, self._unary())
            elif kind == "/":
                self.at += 1
                result = divide(*scalars([result, self._unary()]))
            elif kind == "c" and self.tokens[self.at][1] == "bmod":
                self.at += 1
                result = Call("mod", scalars([result, self._unary()]))
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
        return negated(factor) if minus else factor

    def _beside(self, kind: str) -> bool:
        """Whether the next token begins a factor of an unwritten product."""
        if kind == "c":
            return self.tokens[self.at][1] not in ("bmod", "over", "choose")
        return kind in _STARTS or (kind == "|" and not self.bars)

    def _juxtaposed(self, left: Node) -> Node:
        token = self.tokens[self.at]
        previous = self.tokens[self.at - 1][0]
        if token[0] == "n" and previous not in ("}", ")", "]", "!"):
            raise unparsable("a numeral beside what it could belong to")
        right = self._factor()
        part = right.value if isinstance(right, Degrees) else right
        proper = (
            (token == ("c", "frac") or token[0] == "half")
            and previous == "n"
            and isinstance(left, Num)
            and isinstance(part, Num)
            and isinstance(left.value, int)
            and 0 < part.value < 1
        )
        if proper:
            mixed = add([left, part])
            return Degrees(mixed) if part is not right else mixed
        return scaled(left, right)

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
                base = power(*scalars([base, self._superscript()]))
            elif kind == "!":
                base = self._factorial(base)
            elif kind == "°":
                self.at += 1
                base = Degrees(scalars([base])[0])
            else:
                return base

    def _raised(self, base: Node) -> Node:
        self.enter()
        exponent = self._exponent()
        self.depth -= 1
        base, exponent = scalars([base, exponent])
        return power(base, exponent)

    def _exponent(self) -> Node:
        """What follows ``^``; towers are read from the right."""
        minus = False
        while self.kind() in ("+", "-"):
            minus ^= self.kind() == "-"
            self.at += 1
        grouped = self.kind() == "{"
        (exponent,) = scalars([self._primary()])
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
        return Call("factorial" if marks == 1 else "factorial2", scalars([base]))

    def _primary(self) -> Node:
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "n":
            return self._number(text)
        if kind in ("v", "k"):
            if text in self.indices:
                return self.indices[text]
            return Sym(self._name(text)) if kind == "v" else Const(text)
        if kind == "half":
            return self._vulgar(text)
        if kind == "f":
            return self._function(text)
        if kind == "c":
            return self._construct(text)
        if kind in _CLOSERS:
            return self._bracketed(kind)
        if kind == "begin":
            return self._table(text)
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
            return divide(*scalars([top, self.argument()]))
        if name == "sqrt":
            order: Node = Num(2)
            if self.take("["):
                order = self._bracketed("[")
            return root(*scalars([self.argument(), order]))
        if name == "binom":
            upper = self.argument()
            return Call("binomial", scalars([upper, self.argument()]))
        if name in ("sum", "prod"):
            return self._series(name)
        if name == "accent":
            inner = self.argument()
            if isinstance(inner, Sym):
                return Sym(f"vec {inner.name}")
        raise unparsable(f"a {name} where it has no meaning")

    def _bracketed(self, opening: str) -> Node:
        """After an opening bracket: the expression inside, or values between commas."""
        self.enter()
        bars, self.bars = self.bars, int(opening == "|")
        mark = self.tokens[self.at - 1][1]
        closing = _CLOSERS[opening]
        if opening == "[" and self.take("]"):
            self.depth -= 1
            return Brackets("[", (), "]")
        items = [self.member() if opening in ("(", "[") else self.expression()]
        if opening == "{" and self.kind() == "c":
            items = [self._stacked(items[0])]
        while opening in ("(", "[") and (self.take(",") or self.take(";")):
            items.append(self.member())
        self.bars = bars
        self.depth -= 1
        written, last = self.tokens[self.at]
        if len(items) != 2 and (mark == "]" or last == "["):
            raise unparsable("an interval that has not two ends")
        if len(items) > 1 and written in (")", "]"):
            self.at += 1
            return Brackets(mark, tuple(items), last)
        self.expect(closing)
        inner = items[0]
        if opening == "{":
            return inner
        if opening == "(" and is_scalar(inner):
            return inner
        if opening == "(" and isinstance(inner, Quantity):
            return worked_in(inner)
        if isinstance(inner, Table) and opening in ("(", "["):
            return inner
        if opening == "[":
            return inner if is_scalar(inner) and self._inside() else Brackets("[", (inner,), "]")
        name = {"|": "abs", "⌊": "floor", "⌈": "ceil"}.get(opening)
        if name is None:
            raise unparsable("brackets around what needs none")
        return Call(name, scalars([inner]))

    def _stacked(self, upper: Node) -> Node:
        """``{a \\over b}`` and ``{a \\choose b}``, after ``a``."""
        word = self.tokens[self.at][1]
        if word not in ("over", "choose"):
            return upper
        self.at += 1
        pair = scalars([upper, self.expression()])
        return divide(*pair) if word == "over" else Call("binomial", pair)

    def _inside(self) -> bool:
        """Whether square brackets with one value inside serve as round ones: a factor is beside them."""
        return self._beside(self.kind()) or self.kind() in ("*", "/", "^", "+", "-", "]", ")", "}")

    def side_by_side(self) -> Node:
        """Factors written without a sign between them."""
        result = self._factor()
        while is_scalar(result) and self._beside(self.kind()):
            result = self._juxtaposed(result)
        return result

    def member(self) -> Node:
        """One member between brackets; the reader of whole answers allows more than expressions."""
        return self.expression()

    def _function(self, name: str) -> Node:
        if name in ("sqrt", "cbrt"):
            self.enter()
            inner = self._primary()
            self.depth -= 1
            return root(*scalars([inner, Num(2 if name == "sqrt" else 3)]))
        base: Node | None = None
        exponent: Node | None = None
        while self.kind() in ("_", "^", "sup", "sub"):
            if self.take("_"):
                (base,) = scalars([self.argument()])
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
                return scalars(list(inside.items))
            return scalars([inside])
        factors: Node = self._unary()
        while self._beside(self.kind()) and self.kind() not in ("f", "(", "|"):
            factors = multiply(*scalars([factors, self._factor()]))
        return scalars([factors])
