"""Why a text is no answer, and the bounds that are checked before any work on it."""

from __future__ import annotations

MAX_TEXT = 1_000_000  # characters of a whole response; only markers are searched in it
MAX_ANSWER = 6_000  # characters of one final answer
MAX_TOKENS = 2_500
MAX_DEPTH = 40  # nesting of brackets, and of functions, roots and exponents without brackets
MAX_MEMBERS = 400  # of one list, set or tuple
MAX_CELLS = 400  # of one matrix
MAX_DIGITS = 2_000  # of one numeral
MAX_BITS = 120_000  # of one exact integer; 2006! has 19 000, 2**2006 has 2 007
MAX_TERMS = 300  # of one expanded sum
MAX_NESTING = 4  # of sets and tuples in each other


BROKEN = (
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)  # a text that was not foreseen


class Refusal(Exception):
    """The text is no answer that can be judged; ``code`` names why.

    Codes: ``empty_answer``, ``no_final_answer``, ``hedged_answer``, ``unparsable``, ``undefined``
    (a division by zero), ``too_large``, ``undecided``.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def unparsable(message: str) -> Refusal:
    """The answer is not, as a whole, an expression of the notation that is read."""
    return Refusal("unparsable", message)


def too_large(message: str) -> Refusal:
    """The answer exceeds a bound."""
    return Refusal("too_large", message)
