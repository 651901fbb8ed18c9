"""Accounts over HTTP: the first admin, passwords and links, sessions that end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support import server, surfing
from tests.support.server import Server, fresh
from tests.support.surfing import NEW, PASSWORD, Surfer, change_rows, newcomer, setup_link, surfer, verifier
from verifier_service.dashboard.links import FORWARDING
from verifier_service.persistence.engine import create_store

ADMIN = {"login": "root", "name": "Root", "password": PASSWORD, "again": PASSWORD}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server.running(tmp_path_factory.mktemp("accounts")) as running:
        yield running


@pytest.fixture(scope="module")
def admin(site: Server) -> Surfer:
    return surfer(site, "admin")


def token_of(link: str) -> str:
    return parse_qs(urlsplit(link).query)["token"][0]


def test_the_first_admin_is_made_through_the_printed_link_once(tmp_path: Path) -> None:
    with server.running(tmp_path, log_level="debug", log_json="true") as fresh_server:
        link = setup_link(fresh_server)
        token = token_of(link)
        assert link == f"{fresh_server.url}/ui/setup?token={token}"
        who = Surfer(fresh_server.url)
        page = f"/ui/setup?token={token}"
        assert who.get("/ui/setup?token=wrong").status_code == 404
        assert who.get(page).status_code == who.get(page).status_code == 200
        for changed, words in (
            ({"again": "something else!"}, "differ"),
            ({"login": "Root Root"}, "small letters"),
            ({"password": "short", "again": "short"}, "at least 12"),
            ({"password": "rootrootroot", "again": "rootrootroot"}, "first that are tried"),
        ):
            answer = who.post("/ui/setup", {**ADMIN, "token": token, **changed}, page=page)
            assert (answer.status_code, words in answer.text) == (422, True), changed
            assert PASSWORD not in answer.text
        made = who.post("/ui/setup", {**ADMIN, "token": token}, page=page)
        assert (made.status_code, made.headers["location"]) == (303, "/ui/")
        assert who.get("/ui/access").status_code == 200
        assert who.get(page).status_code == 404
        second = who.post("/ui/setup", {**ADMIN, "login": "eve", "token": token})
        assert second.status_code == 404
        assert token not in fresh_server.log()
        assert PASSWORD not in fresh_server.log()
    with server.running(tmp_path) as again:
        assert verifier("users", "link", data=tmp_path).returncode == 1
        assert Surfer(again.url).sign_in("root").status_code == 303


def test_each_start_without_an_admin_makes_a_link_and_ends_the_one_before(tmp_path: Path) -> None:
    with server.running(tmp_path) as first:
        old = setup_link(first)
    with server.running(tmp_path) as second:
        new = setup_link(second)
        who = Surfer(second.url)
        assert who.get(f"/ui/setup?token={token_of(old)}").status_code == 404
        assert who.get(f"/ui/setup?token={token_of(new)}").status_code == 200
        made = verifier("users", "link", data=tmp_path)
        assert made.returncode == 0, made.stderr
        third = token_of(made.stdout.strip())
        assert who.get(f"/ui/setup?token={token_of(new)}").status_code == 404
        assert who.get(f"/ui/setup?token={third}").status_code == 200
        change_rows(tmp_path, "UPDATE tickets SET expires_at = expires_at - 901")
        late = who.get(f"/ui/setup?token={third}")
        assert (late.status_code, "has expired" in late.text) == (404, True)
        answer = who.post("/ui/setup", {**ADMIN, "token": third}, page="/ui/login")
        assert answer.status_code == 404


def test_the_first_admin_comes_from_this_machine(tmp_path: Path) -> None:
    asyncio.run(_first_admin_from(tmp_path))


async def _first_admin_from(tmp_path: Path) -> None:
    async with server.in_process(tmp_path) as client:
        transport: Any = client._transport
        token = transport.app.state.context.accounts.make_setup_link()
        path = f"/ui/setup?token={token}"
        client.base_url = httpx.URL("http://127.0.0.1:8321")
        assert (await client.get(path)).status_code == 200
        for host in (
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost@evil.example",
            "[",
            "10.0.0.1:80",
        ):
            rebound = await client.get(path, headers={"Host": host})
            assert (rebound.status_code, "machine of the server" in rebound.text) == (404, True), host
        for host in ("localhost:8321", "[::1]:8321", "LOCALHOST."):
            assert (await client.get(path, headers={"Host": host})).status_code == 200, host
        for name in FORWARDING:
            passed_on = await client.get(path, headers={name: "127.0.0.1"})
            assert (passed_on.status_code, "machine of the server" in passed_on.text) == (404, True), name
        for peer in ("203.0.113.9", "::ffff:203.0.113.9", "10.0.0.1", "testclient"):
            elsewhere = httpx.ASGITransport(app=transport.app, client=(peer, 1))
            async with httpx.AsyncClient(transport=elsewhere, base_url="http://verifier") as other:
                for answer in (await other.get(path), await other.post("/ui/setup", data={"token": token})):
                    assert answer.status_code in (403, 404), peer
        loopback = httpx.ASGITransport(app=transport.app, client=("::1", 1))
        async with httpx.AsyncClient(transport=loopback, base_url="http://localhost") as own:
            assert (await own.get(path)).status_code == 200


def test_an_unused_link_opens_nothing_once_there_is_an_admin(tmp_path: Path) -> None:
    with server.running(tmp_path) as fresh_server:
        page = f"/ui/setup?token={token_of(setup_link(fresh_server))}"
        who = Surfer(fresh_server.url)
        assert who.get(page).status_code == 200
        newcomer(fresh_server, "admin")
        late = who.get(page)
        assert (late.status_code, "has an admin already" in late.text) == (404, True)


def test_an_admin_adds_somebody_who_sets_a_password_through_a_link(site: Server, admin: Surfer) -> None:
    login = fresh("new")
    added = admin.post("/ui/access/users", {"login": login, "name": "New", "role": "reviewer"})
    assert added.status_code == 200
    link = re.search(r'id="secret"[^>]*>([^<]+)<', added.text)
    assert link is not None
    assert link[1].startswith(f"{site.url}/ui/password?token=")
    who = Surfer(site.url)
    assert who.sign_in(login).status_code == 401
    page = link[1].removeprefix(site.url)
    token = token_of(link[1])
    assert login in who.get(page).text
    poor = who.post("/ui/password", {"token": token, "password": login, "again": login}, page=page)
    assert poor.status_code == 422
    sent = {"token": token, "password": NEW, "again": NEW}
    assert who.post("/ui/password", sent, page=page).status_code == 303
    assert who.get("/ui/account").status_code == 200
    assert Surfer(site.url).post("/ui/password", sent, page="/ui/login").status_code == 404
    taken = admin.post("/ui/access/users", {"login": login, "name": "Again", "role": "admin"})
    assert (taken.status_code, f"{login}" in taken.text) == (409, True)


@pytest.mark.parametrize("change", [{"disabled": True}, {"role": "operator"}, {"password": NEW}])
def test_a_change_by_an_admin_ends_sessions_at_once(site: Server, change: dict[str, object]) -> None:
    who = surfer(site, "lead")
    assert who.get("/ui/account").status_code == 200
    with site.client() as client:
        client.patch(f"/v1/users/{who.login}", json=change).raise_for_status()
    assert who.get("/ui/account").headers["location"].startswith("/ui/login")


def test_ones_own_password_is_changed_with_the_present_one(site: Server) -> None:
    who, other = surfer(site, "lead"), Surfer(site.url)
    other.sign_in(who.login)
    before = who.session
    for changed, status in (({"current": NEW}, 422), ({"again": "x" * 12}, 422), ({"new": who.login}, 422)):
        form = {"current": PASSWORD, "new": NEW, "again": NEW, **changed}
        assert who.post("/ui/account/password", form).status_code == status
    form = {"current": PASSWORD, "new": NEW, "again": NEW}
    assert who.post("/ui/account/password", form).status_code == 303
    assert who.session != before
    assert who.get("/ui/account").status_code == 200
    assert other.get("/ui/account").status_code == 303
    assert Surfer(site.url).sign_in(who.login, NEW).status_code == 303


def test_one_sees_and_ends_ones_own_sessions(site: Server) -> None:
    who, other, foreign = surfer(site, "lead"), Surfer(site.url), surfer(site, "lead")
    other.sign_in(who.login)
    session = re.search(r'name="session" value="(\d+)"', who.get("/ui/account").text)
    assert session is not None
    assert foreign.post("/ui/account/sessions/end", {"session": session[1]}).status_code == 404
    assert other.get("/ui/account").status_code == 200
    assert who.post("/ui/account/sessions/end", {"session": session[1]}).status_code == 303
    assert other.get("/ui/account").status_code == 303
    other.sign_in(who.login)
    assert who.post("/ui/account/sessions/end-others").status_code == 303
    assert other.get("/ui/account").status_code == 303
    token = who.session or ""
    assert who.post("/ui/logout").status_code == 303
    assert httpx.get(f"{site.url}/ui/account", headers={"Cookie": f"{surfing.SESSION}={token}"}).is_redirect


def test_admins_reach_their_own_project_only(site: Server, admin: Surfer) -> None:
    store = create_store(f"sqlite:///{site.data / 'verifier.db'}")
    login = fresh("foreign")
    with store.begin() as tx:
        from verifier_service.domain.accounts import Role

        tx.projects.ensure("another")
        tx.users.add(project="another", login=login, name="F", role=Role.ADMIN)
    store.close()
    assert login not in admin.get("/ui/access").text
    for path, form in (("change", {"role": "reviewer"}), ("change", {"state": "disabled"}), ("link", {})):
        assert admin.post(f"/ui/access/users/{path}", {"login": login, **form}).status_code == 404
    with site.client() as client:
        assert client.patch(f"/v1/users/{login}", json={"role": "lead"}).status_code == 404


def test_users_by_api_and_command(site: Server) -> None:
    login = fresh("cli")
    added = verifier(
        "users", "add", login, "--role", "reviewer", "--password", "--json", data=site.data,
        stdin=PASSWORD + "\n", url=site.url,
    )  # fmt: skip
    assert added.returncode == 0, added.stderr
    assert "argon2" not in added.stdout
    assert Surfer(site.url).sign_in(login).status_code == 303
    steps = (["role", login, "lead"], ["disable", login], ["enable", login], ["password", login])
    for step in steps:
        done = verifier("users", *step, data=site.data, stdin=NEW + "\n", url=site.url)
        assert done.returncode == 0, done.stderr
    assert Surfer(site.url).sign_in(login, NEW).status_code == 303
    listed = verifier("users", "list", data=site.data, url=site.url)
    assert login in listed.stdout
    with site.client() as client:
        found = next(one for one in client.get("/v1/users").json()["users"] if one["login"] == login)
        assert (found["role"], found["has_password"], found["disabled_at"]) == ("lead", True, None)
        assert not {"password_hash", "password", "subject"} & found.keys()
        for body, status, field in (
            ({"login": login, "name": "N", "role": "lead"}, 409, "login"),
            ({"login": "UPPER", "name": "N", "role": "lead"}, 422, "login"),
            ({"login": fresh("x"), "name": "N", "role": "boss"}, 422, "role"),
            ({"login": fresh("x"), "name": "a\nb", "role": "lead"}, 422, "name"),
            ({"login": fresh("x"), "name": "N", "role": "lead", "password": "short"}, 422, "password"),
        ):
            answer = client.post("/v1/users", json=body)
            assert (answer.status_code, answer.json()["field"]) == (status, field), body
            assert "short" not in answer.json()["detail"]


@pytest.mark.parametrize(("scheme", "prefix"), [("https", "__Host-"), ("http", "")])
def test_cookies_are_bound_to_https_where_browsers_use_it(tmp_path: Path, scheme: str, prefix: str) -> None:
    async def cookie() -> str:
        async with server.in_process(tmp_path, public_url=f"{scheme}://lab.example") as client:
            return str((await client.get("/ui/login")).headers["set-cookie"])

    made = asyncio.run(cookie())
    assert made.startswith(f"{prefix}verifier-form=")
    assert ("Secure" in made) is (scheme == "https")


def test_a_failure_of_ours_is_a_page_with_the_headers_and_without_the_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a secret of the inside")

    async def answer() -> httpx.Response:
        async with server.in_process(tmp_path) as client:
            monkeypatch.setattr("verifier_service.bootstrap.accounts.Accounts.visit", fail)
            return await client.get("/ui/account", headers={"Cookie": f"{surfing.SESSION}=x"})

    got = asyncio.run(answer())
    assert (got.status_code, "the number" in got.text) == (500, True)
    assert "secret" not in got.text
    assert "Content-Security-Policy" in got.headers


@pytest.mark.parametrize("login", ["a\x00b", "A B", "é" * 30, "'; DROP TABLE users; --"])
def test_what_cannot_be_a_login_is_nobodys(site: Server, login: str) -> None:
    assert Surfer(site.url).sign_in(login).status_code == 401


@pytest.mark.parametrize("where", ["field", "header"])
def test_strangers_send_small_forms(site: Server, where: str) -> None:
    """Wherever the token comes."""
    who = Surfer(site.url)
    token = who.token("/ui/login")
    headers = {"X-CSRF-Token": token} if where == "header" else {}
    for form in ({"login": "x" * 10_000}, {f"f{number}": "x" for number in range(50)}):
        whole: dict[str, str] = {"csrf": token, **form} if where == "field" else {**form}
        as_parts: Any = [(name, (None, value)) for name, value in whole.items()]
        assert who.http.post("/ui/login", files=as_parts, headers=headers).status_code == 400


@pytest.mark.parametrize("charset", ["undefined", "idna", "raw_unicode_escape", "hex", "utf-7", "latin-1"])
@pytest.mark.parametrize("where", ["field", "header"])
def test_a_form_is_written_in_utf_8(site: Server, charset: str, where: str) -> None:
    who = Surfer(site.url)
    token = who.token("/ui/login")
    head = b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    parts = {b"csrf": token.encode(), b"login": b"xn--a \\ud800"}
    body = b"".join(head % one for one in parts.items()) + b"--b--\r\n"
    headers = {"X-CSRF-Token": token} if where == "header" else {}
    kind = "multipart/form-data; boundary=b; charset="
    answer = who.http.post("/ui/login", content=body, headers={**headers, "Content-Type": kind + charset})
    assert (answer.status_code, "UTF-8" in answer.text) == (400, True)
    answer = who.http.post("/ui/login", content=body, headers={**headers, "Content-Type": kind + "UTF-8"})
    assert answer.status_code == 422, "which says that the password is missing"


def test_single_sign_on_that_is_half_set_up_stops_the_start(tmp_path: Path) -> None:
    for settings, words in (
        ({"oidc_issuer": "https://id.example"}, "VERIFIER_OIDC_CLIENT_ID"),
        ({"oidc_issuer": "https://id.example", "oidc_client_id": "x"}, "VERIFIER_OIDC_ROLES"),
    ):
        with pytest.raises(RuntimeError, match=words):
            server.start(tmp_path, **settings)


def test_traces_hold_nothing_of_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of a one-time link is a secret, and spans hold addresses."""
    exporter = InMemorySpanExporter()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")

    async def ask() -> None:
        async with server.in_process(tmp_path, tracing="true") as client:
            transport: Any = client._transport
            tracer = transport.app.state.context.service.tracer
            tracer.provider._active_span_processor._span_processors = ()
            tracer.provider.add_span_processor(SimpleSpanProcessor(exporter))
            await client.get("/v1/runs?limit=1")
            for path in ("/ui/setup", "/ui/password", "/ui/nothing"):
                await client.get(f"{path}?token=of-a-link")

    asyncio.run(ask())
    spans = [span.to_json() for span in exporter.get_finished_spans()]
    assert any("/v1/runs" in span for span in spans)
    assert not any("/ui" in span or "of-a-link" in span for span in spans)
