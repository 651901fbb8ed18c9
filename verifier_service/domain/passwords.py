"""Which passwords are taken: NIST SP 800-63B, section 3.1.1.

A length and a list; no rules of composition.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

from verifier_service.domain.accounts import MAX_PASSWORD, MIN_PASSWORD
from verifier_service.domain.errors import InvalidInput

# Of the commonest leaked passwords those that are long enough, and what people make of shorter ones to
# get there, without their digits and signs.
_COMMON = frozenset(
    """
password passwordpassword passw0rd pass letmein letmeinplease welcome welcomewelcome qwerty
qwertyuiop qwertyqwerty qwertyuiopasdfghjkl asdfghjkl zxcvbnm qwertyuiopasdfghjklzxcvbnm iloveyou
iloveyouforever administrator admin adminadmin administratoradministrator changeme changemechangeme
changeit trustno correcthorsebatterystaple thisisapassword mypassword secretpassword secret
secretsecret verifier verifierservice verifierverifier monkey dragon football baseball sunshine
princess superman batman starwars master abc abcabcabc abcdef abcdefghijkl
abcdefghijklmnopqrstuvwxyz qazwsx qazwsxedc qazwsxedcrfv qaz xsw test testtest testtesttest testing
default guest guestguest login opensesame whatever computer internet michael jordan hunter unknown
    """.split()  # noqa: SIM905 - a list of words reads best as text
)
_MIN_DIFFERENT = 4


class Passwords(Protocol):
    """Slow hashes of passwords. Calls take tens of milliseconds and much memory; never hold a transaction
    over one."""

    def hash(self, password: str) -> str:
        """A salted hash. Raises ``Contended`` when too many wait for one."""
        ...

    def matches(self, stored: str | None, password: str) -> bool:
        """Whether ``stored`` is a hash of the password; takes as long for ``None``, which matches nothing.
        Raises ``Contended``."""
        ...

    def outdated(self, stored: str) -> bool:
        """Whether it was made with other parameters than those of today."""
        ...


def check_password(password: str, login: str, *, field: str = "password") -> None:
    """Raise ``InvalidInput`` naming the limit, or why the password would be guessed."""
    if len(password) < MIN_PASSWORD:
        raise InvalidInput("too_short", f"a password has at least {MIN_PASSWORD} characters", field=field)
    if len(password) > MAX_PASSWORD:
        raise InvalidInput("too_long", f"a password has at most {MAX_PASSWORD} characters", field=field)
    folded = password.casefold()
    letters = _letters(folded)
    local = login.casefold().partition("@")[0]
    if folded in {login.casefold(), local} or (letters and letters == _letters(local)):
        raise InvalidInput("is_login", "the password must not be the login", field=field)
    if letters in _COMMON or len(set(folded)) < _MIN_DIFFERENT or _is_sequence(folded):
        raise InvalidInput("too_common", "this password is among the first that are tried", field=field)


def _letters(text: str) -> str:
    return "".join(found for found in text if found.isalpha())


def _is_sequence(text: str) -> bool:
    """``123456789012`` and the like: each character follows the one before, or repeats it."""
    steps = {ord(after) - ord(before) for before, after in pairwise(text)}
    return steps <= {0, 1, -9} or steps <= {0, -1, 9}
