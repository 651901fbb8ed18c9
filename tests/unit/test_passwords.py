"""Passwords: which are taken, how they are kept, and that a flood of them does not fill the machine."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from argon2 import PasswordHasher

from verifier_service import passwords
from verifier_service.domain.accounts import NewUser, UserChange
from verifier_service.domain.errors import Contended, InvalidInput
from verifier_service.domain.passwords import check_password

GOOD = [
    "a quiet lake at dusk",
    "x8!kQ2#vL9@m",
    "пароль из слов",
    "🦊" * 4 + "four foxes",
    "correct horse",
    "x" * 251 + "yz1a2",
]
POOR = {
    "too_short": ["", "short", "elevenchars"],
    "too_long": ["ab3d" * 65],
    "too_common": [
        "password1234",
        "PassWord!!!!",
        "Password-2026",
        "123456789012",
        "210987654321",
        "abcdefghijkl",
        "aaaaaaaaaaaa",
        "abababababab",
        "qwertyuiop12",
        "admin1234567",
        "welcome-2026",
    ],
    "is_login": ["robin.weaver", "ROBIN.WEAVER", "robinweaver123"],
}


@pytest.mark.parametrize("password", GOOD)
def test_long_and_uncommon_is_enough(password: str) -> None:
    check_password(password, "robin.weaver")


@pytest.mark.parametrize(("code", "password"), [(code, one) for code, all_ in POOR.items() for one in all_])
def test_what_would_be_guessed_is_refused(code: str, password: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_password(password, "robin.weaver", field="new")
    assert (refused.value.code, refused.value.field) == (code, "new")
    assert not password or password not in refused.value.message


def test_a_password_is_not_printed() -> None:
    for record in (
        NewUser(login="ann", name="Ann", role="lead", password=GOOD[0]),
        UserChange(password=GOOD[0]),
    ):
        assert GOOD[0] not in repr(record)


def test_hashes_are_salted_argon2id_and_match_their_password_only() -> None:
    hasher = passwords.Argon2Passwords()
    first, second = hasher.hash(GOOD[0]), hasher.hash(GOOD[0])
    assert first != second
    assert first.startswith("$argon2id$")
    assert hasher.matches(first, GOOD[0])
    assert not hasher.matches(first, GOOD[1])
    assert not hasher.matches("no hash", GOOD[0])
    assert not hasher.matches(None, GOOD[0])
    assert not hasher.matches(None, "nobody has this password")
    assert not hasher.outdated(first)
    assert hasher.outdated(PasswordHasher(time_cost=1, memory_cost=8_192).hash(GOOD[0]))


def test_few_are_hashed_at_a_time_and_few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    hasher, busy, most, lock = passwords.Argon2Passwords(), 0, 0, threading.Lock()
    gate = threading.Event()

    def slow(_self: PasswordHasher, _password: str) -> str:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        gate.wait(30)
        with lock:
            busy -= 1
        return "hash"

    monkeypatch.setattr(PasswordHasher, "hash", slow)

    def one(_: int) -> bool:
        try:
            return hasher.hash("x") == "hash"
        except Contended:
            return False

    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(one, number) for number in range(20)]
        until = time.monotonic() + 30
        while sum(one.done() for one in waiting) < 20 - passwords.IN_LINE and time.monotonic() < until:
            time.sleep(0.01)
        gate.set()
        done = [one.result() for one in waiting]
    assert done.count(True) == passwords.IN_LINE
    assert most == passwords.AT_A_TIME
