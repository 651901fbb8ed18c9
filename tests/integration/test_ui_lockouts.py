"""Wrong passwords: what they look like, whom they lock out where, and whom they do not."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.support import server
from tests.support.server import Server, fresh
from tests.support.surfing import NEW, PASSWORD, Surfer, change_rows, newcomer, verifier


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server.running(tmp_path_factory.mktemp("lockouts")) as running:
        yield running


@pytest.fixture(autouse=True)
def no_address_is_locked(site: Server) -> Iterator[None]:
    """All tests share one address."""
    yield
    change_rows(site.data, "DELETE FROM sign_in_failures")


def test_a_wrong_password_and_an_unknown_login_look_the_same(site: Server) -> None:
    login = newcomer(site, "reviewer")
    disabled = newcomer(site, "reviewer")
    with site.client() as client:
        client.patch(f"/v1/users/{disabled}", json={"disabled": True}).raise_for_status()
    said = set()
    for name, password in ((login, NEW), (fresh("nobody"), NEW), (disabled, PASSWORD)):
        answer = Surfer(site.url).sign_in(name, password)
        box = re.search(r'id="problem">([^<]+)<', answer.text)
        assert box is not None
        said.add((answer.status_code, box[1]))
    assert said == {(401, "This login and password do not belong together.")}


@pytest.mark.parametrize("known", [True, False])
def test_wrong_passwords_lock_a_login_for_a_while(site: Server, known: bool) -> None:
    login = newcomer(site, "reviewer") if known else fresh("nobody")
    answers = [Surfer(site.url).sign_in(login, NEW) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [401] * 4 + [429] * 2
    assert 0 < int(answers[4].headers["retry-after"]) <= 30
    assert re.search(r"Too many wrong sign-ins; try again in \d+ seconds", answers[4].text)
    assert Surfer(site.url).sign_in(login, PASSWORD).status_code == 429
    if known:
        made = verifier("users", "link", login, data=site.data)
        assert made.returncode == 0, made.stderr
        assert Surfer(site.url).sign_in(login, PASSWORD).status_code == 303


@pytest.fixture
def elsewhere(site: Server) -> Iterator[Surfer]:
    """Somebody with another address."""
    who = Surfer(site.url)
    transport = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(base_url=site.url, timeout=60.0, transport=transport) as client:
        who.http = client
        yield who


def test_wrong_passwords_from_elsewhere_keep_nobody_out(site: Server, elsewhere: Surfer) -> None:
    login = newcomer(site, "reviewer")
    assert [elsewhere.sign_in(login, NEW).status_code for _ in range(6)] == [401] * 4 + [429] * 2
    assert Surfer(site.url).sign_in(login).status_code == 303
    assert elsewhere.sign_in(login).status_code == 429, "which the owner's sign-in does not undo"
    made = verifier("users", "link", login, data=site.data)
    assert made.returncode == 0, made.stderr
    assert elsewhere.sign_in(login).status_code == 303


def test_a_browser_that_is_known_has_a_lock_of_its_own(site: Server) -> None:
    login = newcomer(site, "reviewer")
    own, other = Surfer(site.url), Surfer(site.url)
    assert own.sign_in(login).status_code == 303
    assert own.post("/ui/logout").status_code == 303
    assert other.sign_in(newcomer(site, "reviewer")).status_code == 303
    assert other.post("/ui/logout").status_code == 303
    now = "(julianday('now') - 2440587.5) * 86400"
    columns = "subject, failures, last_at, locked_until"
    row = f"'login:{login}', 60, {now}, {now} + 600"
    change_rows(site.data, f"INSERT INTO sign_in_failures ({columns}) VALUES ({row})")
    assert Surfer(site.url).sign_in(login).status_code == 429, "many addresses have tried it"
    assert other.sign_in(login).status_code == 429, "the cookie is another login's"
    forged = Surfer(site.url)
    forged.http.cookies.set("verifier-devices", "0" * 32 + "." + "0" * 64, domain="127.0.0.1", path="/")
    assert forged.sign_in(login).status_code == 429
    assert own.sign_in(login).status_code == 303
    assert own.post("/ui/logout").status_code == 303
    assert Surfer(site.url).sign_in(login).status_code == 429, "which the owner's sign-in does not undo"
    assert [own.sign_in(login, NEW).status_code for _ in range(5)] == [401] * 4 + [429]
    assert own.sign_in(login).status_code == 429


def test_an_address_that_tries_many_logins_is_locked(site: Server) -> None:
    login = newcomer(site, "reviewer")
    statuses = [Surfer(site.url).sign_in(fresh("nobody"), NEW).status_code for _ in range(31)]
    assert statuses == [401] * 29 + [429] * 2
    assert Surfer(site.url).sign_in(login, PASSWORD).status_code == 429
