"""Whole numbers: factors, factorials and binomials, within bounds."""

from __future__ import annotations

from functools import lru_cache
from math import comb, factorial, isqrt, lgamma, log, log2

from tiers.mathematics.effort import spend_bits
from tiers.mathematics.refusals import MAX_BITS

TRIAL_BOUND = 2_000


@lru_cache(maxsize=256)
def factors(number: int) -> tuple[tuple[int, int], ...]:
    """Factors and exponents of a positive integer.

    Primes below 2000 are divided out; a cofactor is split if it is a perfect square or cube, and else
    left whole, prime or not: callers may rely on the product, not on primality.
    """
    found: list[tuple[int, int]] = []
    if number.bit_length() > 4_096:
        return ((number, 1),)
    for prime in _primes():
        if prime * prime > number:
            break
        count = 0
        while not number % prime:
            number //= prime
            count += 1
        if count:
            found.append((prime, count))
    if number > 1:
        for order in (2, 3):
            base = _exact_root(number, order)
            if base:
                found.append((base, order))
                break
        else:
            found.append((number, 1))
    return tuple(found)


def certainly_prime(number: int) -> bool:
    """Whether an atom left by ``factors`` is a prime: it has no factor below the bound."""
    return 1 < number < TRIAL_BOUND * TRIAL_BOUND


def bounded_factorial(number: int, step: int) -> int | None:
    """``number!`` (step 1) or ``number!!`` (step 2), or ``None`` beyond the bound on its size."""
    if number < 0 or number > 20_000 or lgamma(number + 2) / log(2) > MAX_BITS * step:
        return None
    spend_bits(int(lgamma(number + 2) / log(2)))
    if step == 1:
        return factorial(number)
    result = 1
    for factor in range(number, 1, -2):
        result *= factor
    return result


def bounded_binomial(upper: int, lower: int) -> int | None:
    """The binomial coefficient, or ``None`` beyond the bound on its size."""
    if upper < 0:
        return None
    lower = min(lower, upper - lower)
    if lower < 0:
        return 0
    size = lower * (log2(upper + 1) if upper < 2**1000 else upper.bit_length())
    if size > MAX_BITS:
        return None
    spend_bits(int(size))
    return comb(upper, lower)


@lru_cache(maxsize=1)
def _primes() -> tuple[int, ...]:
    return tuple(n for n in range(2, TRIAL_BOUND) if all(n % d for d in range(2, isqrt(n) + 1)))


def _exact_root(number: int, order: int) -> int | None:
    if order == 2:
        base = isqrt(number)
    else:
        low, high = 0, 1 << (number.bit_length() // order + 1)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**order <= number else (low, middle - 1)
        base = low
    return base if base**order == number else None
