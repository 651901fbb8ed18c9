"""Are two scalar trees the same number or the same function? Cheapest decision first.

Order: rationals; normal forms (a proof either way where ``forms.decisive``); high-precision values
refute; the separation bound or a precision beyond everything written confirms. Functions are
compared at points that depend on both texts, so that no answer can be made for them, and only at
points where the reference is real and defined: the answer must be defined there too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tiers.mathematics.forms import ONE as FORM_ONE
from tiers.mathematics.forms import Form, decisive, difference_is_zero, inverse, times
from tiers.mathematics.nodes import (
    Call,
    Const,
    Node,
    Num,
    Power,
    Rational,
    Sum,
    Sym,
    absolute,
    fingerprint,
    is_scalar,
    negative,
    symbols,
    walk,
)
from tiers.mathematics.normal import as_rational, normal
from tiers.mathematics.numeric import MAX_PRECISION, SPARE, Evaluator, NotReal, Separation, height
from tiers.mathematics.refusals import Refusal
from tiers.mathematics.substitution import with_euler

DEFAULT_TOLERANCE = 1e-6
ATTEMPTS = 14
ENOUGH_POINTS = 6
MIN_POINTS = 3
FIRST_PRECISION = 320  # bits
_DISCRETE = frozenset({"factorial", "factorial2", "binomial"})
_WHOLE_NAMES = frozenset("nkmrj")
_SCALES = (10_000_019, 999_983, 333_331, 83_339, 10_007, 499)  # up to 0.1, 1, 3, 12, 100 and 2000
MAX_EFFORT = 3_000_000  # bits times nodes of one evaluation
NOWHERE = "hardly defined anywhere: nowhere to compare"
_WHOLE_LINE = frozenset({"sin", "cos", "arctan", "sinh", "cosh", "tanh", "abs", "floor", "ceil"})
_SYMBOLIC_CODES = ("too_large",)


class ReferenceRefusal(Exception):
    """The reference, not the answer, is what cannot be worked out; ``refusal`` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Match:
    """Whether two values are equal, and by which method that was decided.

    Methods: ``exact`` (rational arithmetic, normal forms, or beyond the separation bound),
    ``precision`` (agreement beyond everything written; see ``numeric``), ``points`` (the same at
    several points), ``tolerance`` (a decimal against what no decimal can write).
    """

    equal: bool
    method: str


EXACT_YES = Match(True, "exact")
EXACT_NO = Match(False, "exact")


def same(gold: Node, answer: Node, tolerance: float = DEFAULT_TOLERANCE) -> Match:
    """Compare two scalars. Raises ``Refusal`` (the answer's fault) or ``ReferenceRefusal``."""
    if type(gold) is Num and type(answer) is Num:
        return _rationals(gold.value, answer.value, gold.decimal, answer.decimal, tolerance)
    if type(gold) is Const and type(answer) is Const and gold.name == answer.name:
        return EXACT_YES
    match = _decided(gold, answer, tolerance)
    if not match.equal and ("E" in symbols(gold)) != ("E" in symbols(answer)):
        match = _decided(with_euler(gold), with_euler(answer), tolerance)
    return match


def _decided(gold: Node, answer: Node, tolerance: float) -> Match:
    wanted = _reference_form(gold)
    given = _form(answer)
    if wanted is not None and given is not None:
        one, two = as_rational(wanted), as_rational(given)
        if one is not None and two is not None:
            return _rationals(one, two, _decimal(gold), _decimal(answer), tolerance)
        try:
            zero, proof = difference_is_zero(wanted, given)
        except Refusal:
            zero, proof = False, False
        if zero:
            return EXACT_YES
        if proof and not _decimal(gold) and not _decimal(answer):
            return EXACT_NO
        if len(wanted.top) == len(given.top) == 1 and (ratio := _ratio(wanted, given)) is not None:
            return EXACT_YES if ratio == 1 else EXACT_NO
    if symbols(gold) or symbols(answer):
        return _functions(gold, answer)
    return _constants(gold, answer, tolerance)


def require_workable(node: Node) -> None:
    """Raises ``Refusal`` for a reference that answers could only be compared with by its spelling.

    That is a constant without a value, or a function that is hardly defined anywhere.
    """
    if not is_scalar(node) or isinstance(node, Num | Const | Sym):
        return
    if symbols(node):
        if not _defined_almost_everywhere(node):
            _require_defined(node)
        return
    form = _form(node)
    if form is None or (form.bottom is not FORM_ONE or not decisive(form.top)):
        try:
            Evaluator(FIRST_PRECISION, {}, real=False).value(node)
        except NotReal as error:
            raise Refusal("undefined", "a value that is not defined") from error


def _require_defined(node: Node) -> None:
    names = sorted(symbols(node))
    real = not any(isinstance(here, Const) and here.name == "i" for here in walk(node))
    found = 0
    for values in points(names, fingerprint(node), whole=_for_whole_numbers(node, node, names)):
        try:
            Evaluator(FIRST_PRECISION, values, real=real).value(node)
        except NotReal:
            continue
        except Refusal as refusal:
            if refusal.code == "undefined":
                continue
        found += 1
        if found >= MIN_POINTS:
            return
    raise Refusal("undecided", NOWHERE)


def _defined_almost_everywhere(node: Node) -> bool:
    """Whether that is plain: no logarithm, no root of a variable, no power of a negative number."""
    for here in walk(node):
        if isinstance(here, Call) and here.name not in _WHOLE_LINE:
            return False
        if isinstance(here, Power) and not (
            isinstance(here.exponent, Num) and here.exponent.value.denominator == 1
        ):
            base = here.base
            if not (isinstance(base, Const) or (isinstance(base, Num) and base.value > 0)):
                return False
    return True


def _reference_form(gold: Node) -> Form | None:
    try:
        return normal(gold)
    except Refusal as refusal:
        if refusal.code in _SYMBOLIC_CODES:
            return None
        raise ReferenceRefusal(refusal) from refusal


def _form(answer: Node) -> Form | None:
    try:
        return normal(answer)
    except Refusal as refusal:
        if refusal.code in _SYMBOLIC_CODES:
            return None
        raise


def _ratio(wanted: Form, given: Form) -> Rational | None:
    """The ratio of two single terms, if rational: so powers too large to write out are compared."""
    try:
        return as_rational(times(wanted, inverse(given)))
    except Refusal:
        return None


def _decimal(node: Node) -> bool:
    """A number written with decimals, and nothing but rational arithmetic on it."""
    return isinstance(node, Num) and node.decimal


def _rationals(
    gold: Rational, answer: Rational, gold_decimal: bool, answer_decimal: bool, tolerance: float
) -> Match:
    if gold == answer:
        return EXACT_YES
    if gold_decimal and answer_decimal and tolerance <= DEFAULT_TOLERANCE and _apart(gold, answer):
        return EXACT_NO
    if (gold_decimal and (answer_decimal or not _terminates(answer))) or (
        answer_decimal and not _terminates(gold)
    ):
        largest = Fraction(max(absolute(gold), absolute(answer), key=Fraction))
        return Match(absolute(gold - answer) <= Fraction(tolerance) * largest, "tolerance")
    return EXACT_NO


def _apart(one: Rational, two: Rational) -> bool:
    """Whether two decimals differ by a unit in the last place of the shorter one, or by more.

    Then one is not the other with more digits; but beyond 14 digits it is what binary floats leave.
    """
    bottom = min(one.denominator, two.denominator)
    places = 0
    while 10**places % bottom and places < 400:
        places += 1
    step = Fraction(1, 10**places)
    digits = max(absolute(one), absolute(two), key=Fraction) / step
    return digits < 10**14 and absolute(one - two) >= step


def _terminates(value: Rational) -> bool:
    """Whether a finite decimal writes the value: its denominator holds only 2 and 5."""
    bottom = value.denominator
    if bottom.bit_length() > 4_096:
        return True
    while not bottom % 10:
        bottom //= 10
    while not bottom % 5:
        bottom //= 5
    return bottom & (bottom - 1) == 0


def _constants(gold: Node, answer: Node, tolerance: float) -> Match:
    if _decimal(gold) or _decimal(answer):
        evaluate = Evaluator(256, {}, real=False)
        wanted, given = _both(evaluate, gold, answer)
        return Match(bool(abs(wanted - given) <= tolerance * max(abs(wanted), abs(given))), "tolerance")
    separation = Separation()
    bounds = separation.bound(Sum((gold, negative(answer))))
    needed = None
    if bounds is not None:
        needed = (separation.total_degree() - 1) * max(bounds[0], 0) + max(bounds[1], 0)
    return Match(*_agree(gold, answer, {}, real=False, needed=needed))


def _agree(
    gold: Node, answer: Node, values: Mapping[str, Rational], *, real: bool, needed: float | None = None
) -> tuple[bool, str]:
    """Whether two values agree, and how that was decided.

    Apart is said at a low precision already; agreement only beyond the separation bound (``needed``
    bits, if there is one) or beyond everything written.
    """
    precision, size = FIRST_PRECISION, height(gold, answer)
    while True:
        evaluate = Evaluator(precision, values, real=real)
        wanted, given = _both(evaluate, gold, answer)
        apart = abs(wanted - given)
        trusted = precision - 4 * evaluate.peak - SPARE
        if apart and trusted > 0 and evaluate.mp.mag(apart) > -trusted:
            return False, "exact"
        written = (256 + 3 * (evaluate.weight + size)) * (4 if evaluate.cancelled else 1)
        exact = needed is not None and needed + 4 * evaluate.peak + 2 * SPARE <= MAX_PRECISION
        target = int(needed) + 4 * evaluate.peak + 2 * SPARE if exact and needed is not None else written
        target = max(target, 4 * evaluate.peak + 2 * SPARE)
        if precision >= target:
            return True, "exact" if exact else "precision"
        if target > MAX_PRECISION or target * evaluate.steps > MAX_EFFORT:
            raise Refusal("undecided", "equal to all digits that are worked out, and no proof")
        precision = target


def _both(evaluate: Evaluator, gold: Node, answer: Node) -> tuple[Any, Any]:
    """The two values; the reference's own trouble is told apart. Raises ``NotReal`` at points only."""
    return _at(evaluate, gold, reference=True), _at(evaluate, answer, reference=False)


def _at(evaluate: Evaluator, node: Node, *, reference: bool) -> Any:
    try:
        return evaluate.value(node)
    except Refusal as refusal:
        if reference:
            raise ReferenceRefusal(refusal) from refusal
        raise
    except NotReal as outside:
        if evaluate.values:
            raise OutsideDomain(reference) from outside
        trouble = Refusal("undefined", "a value that is not defined")
        raise (ReferenceRefusal(trouble) if reference else trouble) from outside


class OutsideDomain(Exception):
    """One side has no real value at this point; ``reference`` says which."""

    def __init__(self, reference: bool) -> None:
        super().__init__()
        self.reference = reference


def _functions(gold: Node, answer: Node) -> Match:
    names = sorted(symbols(gold) | symbols(answer))
    real = not any(
        isinstance(here, Const) and here.name == "i" for side in (gold, answer) for here in walk(side)
    )
    compared = 0
    whole = _for_whole_numbers(gold, answer, names)
    for attempt, values in enumerate(points(names, _seed(gold, answer), whole=whole)):
        if attempt >= 2 * ATTEMPTS and compared >= MIN_POINTS:
            break
        equal = _same_at(gold, answer, values, real)
        if equal is None:
            continue
        if not equal:
            return Match(False, "points")
        compared += 1
        if compared >= ENOUGH_POINTS:
            break
    if compared < MIN_POINTS:
        raise ReferenceRefusal(Refusal("undecided", NOWHERE))
    return Match(True, "points")


def _same_at(gold: Node, answer: Node, values: Mapping[str, Rational], real: bool) -> bool | None:
    """Whether two functions agree at one point; ``None`` where the reference is not defined."""
    try:
        return _agree(gold, answer, values, real=real)[0]
    except OutsideDomain as outside:
        return None if outside.reference else False
    except ReferenceRefusal as failed:
        if failed.refusal.code == "undefined":
            return None
        raise
    except Refusal as refusal:
        if refusal.code == "undefined":
            return False
        raise


def _for_whole_numbers(gold: Node, answer: Node, names: list[str]) -> bool:
    """Whether only whole numbers are meant: factorials of what is named like a whole number.

    No answer can bring this about together with a function that vanishes at whole numbers.
    """
    calls = {here.name for side in (gold, answer) for here in walk(side) if isinstance(here, Call)}
    return bool(calls) and calls <= _DISCRETE and set(names) <= _WHOLE_NAMES


def points(names: list[str], seed: bytes, *, whole: bool = False) -> Iterator[dict[str, Rational]]:
    """Rational points of both signs, then whole numbers (or these only), then large and small ones.

    The same for the same seed.
    """
    for attempt in range(ATTEMPTS if whole else 0, 8 * ATTEMPTS):
        values: dict[str, Rational] = {}
        for place, name in enumerate(names):
            digest = hashlib.blake2b(seed + f"{attempt}/{name}".encode(), digest_size=8).digest()
            number = int.from_bytes(digest[:4], "big")
            if attempt >= 2 * ATTEMPTS:
                values[name] = _far_or_near(number, attempt, whole)
                continue
            if attempt >= ATTEMPTS:
                values[name] = 1 + number % 40
                continue
            size = Fraction(number % 999_983 + 1, (150_001, 400_009, 1_500_007)[attempt % 3])
            values[name] = -size if (attempt >> (place % 3)) & 1 else size
        yield values


def _far_or_near(number: int, attempt: int, whole: bool) -> Rational:
    if whole:
        return 41 + number % 2_000
    size = Fraction(number % 999_983 + 1, _SCALES[attempt % len(_SCALES)])
    return -size if attempt // len(_SCALES) & 1 else size


def _seed(gold: Node, answer: Node) -> bytes:
    return hashlib.blake2b(fingerprint(gold) + b"|" + fingerprint(answer), digest_size=16).digest()
