"""How much work one judgement may do, counted in this thread; the same on every machine."""

from __future__ import annotations

import threading

from tiers.mathematics.refusals import too_large

MAX_PAIRS = 40_000  # pairs of terms that all multiplications may visit: about 0.2 s
MAX_MADE_BITS = 4_000_000  # of powers, factorials and binomials that are worked out: about 0.1 s
MAX_EVALUATIONS = 2_500  # numerical evaluations at the first precision: about 0.3 s
MAX_SHARES = 2.0  # of the above, for reading all alternative references of one task: about 0.6 s


class _Effort(threading.local):
    pairs = 0
    bits = 0
    evaluations = 0


_effort = _Effort()


def begin() -> None:
    """Start counting the work of one judgement."""
    _effort.pairs = 0
    _effort.bits = 0
    _effort.evaluations = 0


def spent() -> float:
    """The share of what one judgement may do that was done since ``begin``."""
    return max(
        _effort.pairs / MAX_PAIRS, _effort.bits / MAX_MADE_BITS, _effort.evaluations / MAX_EVALUATIONS
    )


def spend_pairs(pairs: int) -> None:
    """Count the pairs of terms of one multiplication. Raises ``Refusal`` ``too_large``."""
    _effort.pairs += pairs
    if _effort.pairs > MAX_PAIRS:
        raise too_large("products of sums that are too long")


def spend_bits(bits: int) -> None:
    """Count the size of a large integer that is worked out. Raises ``Refusal`` ``too_large``."""
    _effort.bits += bits
    if _effort.bits > MAX_MADE_BITS:
        raise too_large("too many large powers, factorials or binomials")


def spend_evaluation(precision: int) -> None:
    """Count one evaluation at a precision in bits. Raises ``Refusal`` ``too_large``."""
    _effort.evaluations += 1 + precision // 1_000
    if _effort.evaluations > MAX_EVALUATIONS:
        raise too_large("too many parts that only numerical evaluation can compare")
