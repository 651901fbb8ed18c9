"""What the pages must withstand: forged forms, foreign frames, planted scripts, borrowed sessions. Who gets
where is in ``test_ui_routes``, what comes in with data in ``test_ui_planted``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import quote

import httpx
import pytest

from tests.support import server, surfing
from tests.support.server import Server, fresh
from tests.support.surfing import Surfer, newcomer, surfer
from verifier_service.dashboard.cookies import safe_next
from verifier_service.dashboard.headers import HEADERS
from verifier_service.dashboard.sessions import PUBLIC
from verifier_service.domain.accounts import ROLES, Role

ROUTES = surfing.routes()
POSTS = [path for method, path, _ in ROUTES if method == "POST"]
FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
]
ELSEWHERE = [
    "//evil.example",
    "///evil.example/ui/",
    "/\\evil.example",
    "\\\\evil.example",
    "/ui/\\evil.example",
    "/ui//evil.example",
    "/ui/../\\evil.example",
    "/ui/../v1/keys",
    "https://evil.example/ui/",
    "https:evil.example",
    "javascript:alert(1)",
    "data:text/html,x",
    "/ui/\r\nSet-Cookie: a=b",
    "/ui/\t/evil",
    " /ui/",
    "/elsewhere",
    "ui/",
    "",
    "/ui/" + "x" * 3_000,
    "/ui/ä",
    "/ui/%2e%2e/docs",
    "/ui/%252e%252e/docs",
    "/ui/%25252e%25252e/docs",
    "/ui/.%2E/docs",
    "/ui/x/%2e./%2e./docs",
    "/ui/x%2f..%2f..%2fdocs",
    "/ui/%2fevil.example",
    "/ui/%5c..%5cdocs",
    "/ui/%250d%250aSet-Cookie: a=b",
    "/ui/%3f/../../docs",
    "/ui/./access",
]


class _Tags(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server.running(tmp_path_factory.mktemp("attacks")) as running:
        yield running


@pytest.fixture(scope="module")
def people(site: Server) -> dict[Role, Surfer]:
    """One of each role, signed in; nothing in this module changes them."""
    return {role: surfer(site, role.value) for role in ROLES}


def test_there_is_something_to_attack() -> None:
    assert len(POSTS) > 8


@pytest.mark.parametrize("path", POSTS)
def test_a_form_without_the_token_is_refused(path: str, people: dict[Role, Surfer]) -> None:
    admin = people[Role.ADMIN]
    own = {"Origin": admin.url, "Sec-Fetch-Site": "same-origin"}
    other = people[Role.LEAD].token()
    for data in ({}, {"csrf": ""}, {"csrf": "wrong"}, {"csrf": other}):
        answer = admin.http.post(path, data=data, headers=own)
        assert (answer.status_code, "out of date" in answer.text) == (403, True), data


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_a_form_of_a_foreign_page_is_refused(
    path: str, headers: dict[str, str], people: dict[Role, Surfer]
) -> None:
    """Even with the right token, which such a page cannot know."""
    answer = people[Role.ADMIN].post(path, **headers)
    assert (answer.status_code, "another site" in answer.text) == (403, True)


def test_a_token_in_the_header_serves_scripts(people: dict[Role, Surfer]) -> None:
    admin = people[Role.ADMIN]
    headers = {"X-CSRF-Token": admin.token(), "HX-Request": "true"}
    assert admin.http.post("/ui/access/users/link", headers=headers).status_code == 422
    headers["X-CSRF-Token"] += "x"
    answer = admin.http.post("/ui/access/users/link", headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (403, "text/plain; charset=utf-8")


def test_nobody_comes_in_without_a_session(site: Server) -> None:
    stranger = Surfer(site.url)
    for method, path, _ in ROUTES:
        if path in PUBLIC:
            continue
        for headers in ({}, {"Cookie": "verifier-session=made-up"}):
            answer = stranger.http.request(method, path, headers=headers)
            assert answer.status_code == 303, path
            assert answer.headers["location"].startswith("/ui/login"), path
        fetched = stranger.http.request(method, path, headers={"HX-Request": "true"})
        assert fetched.status_code == 401, path


def test_a_key_opens_no_page_and_a_session_no_route_of_the_api(
    site: Server, people: dict[Role, Surfer]
) -> None:
    with site.client() as client:
        assert client.get("/ui/access").status_code == 303
    assert people[Role.ADMIN].get("/v1/keys").status_code == 401


@pytest.mark.parametrize("target", ELSEWHERE)
def test_signing_in_never_leads_elsewhere(target: str, site: Server) -> None:
    assert safe_next(target) == "/ui/"


def test_signing_in_leads_where_one_wanted_to_go(site: Server) -> None:
    login = newcomer(site, "admin")
    for target, expected in (
        ("/ui/access?x=1", "/ui/access?x=1"),
        ("/ui/runs/a%2Fb..c/trajectories/x%252Fy?next=..#end",) * 2,
        ("//evil.example", "/ui/"),
    ):
        who = Surfer(site.url)
        assert who.sign_in(login, next=target).headers["location"] == expected
        assert who.get(f"/ui/login?next={quote(target)}").headers["location"] == expected
    gone = Surfer(site.url).get("/ui/access?x=%2F%2Fevil.example").headers["location"]
    assert gone == "/ui/login?next=%2Fui%2Faccess%3Fx%3D%252F%252Fevil.example"


def test_a_planted_session_is_never_taken_over(site: Server) -> None:
    login = newcomer(site, "reviewer")
    who = Surfer(site.url)
    who.http.cookies.set("verifier-session", "planted-by-somebody-else", domain="127.0.0.1", path="/")
    who.sign_in(login)
    taken = [cookie.value for cookie in who.http.cookies.jar if cookie.name == "verifier-session"]
    assert "planted-by-somebody-else" not in taken[-1:]
    planted = httpx.get(f"{site.url}/ui/account", cookies={"verifier-session": "planted-by-somebody-else"})
    assert planted.status_code == 303


def test_the_session_of_an_earlier_sign_in_ends(site: Server) -> None:
    login = newcomer(site, "reviewer")
    who = surfer(site, "lead")
    first = who.session
    token = {"csrf": who.http.cookies.get("verifier-form") or ""}
    assert who.get("/ui/login").headers["location"] == "/ui/"
    # A login form of before, still open in another window.
    other = Surfer(site.url)
    token = {"csrf": other.token("/ui/login")}
    form_cookie = other.http.cookies.get("verifier-form")
    jar = {"verifier-session": first or "", "verifier-form": form_cookie or ""}
    again = httpx.post(
        f"{site.url}/ui/login",
        data={"login": login, "password": surfing.PASSWORD, **token},
        headers={"Cookie": "; ".join(f"{name}={value}" for name, value in jar.items())},
    )
    assert again.status_code == 303
    assert again.cookies["verifier-session"] != first
    assert who.get("/ui/account").status_code == 303


def test_names_are_shown_as_text(site: Server) -> None:
    script = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    login = newcomer(site, "admin", name=script[:100])
    who = Surfer(site.url)
    who.http.headers["User-Agent"] = script
    who.sign_in(login)
    who.post("/ui/access/keys", {"key_name": script[:100], "scopes": "read"})
    for page in ("/ui/access", "/ui/account", f"/ui/{script}"):
        text = who.get(page).text
        assert "<script>alert" not in text
        assert "<img src=x" not in text
    assert "&lt;script&gt;alert(1)" in who.get("/ui/access").text
    notice = who.post("/ui/access/users/change", {"login": login, "name": "<b>x</b>"})
    assert notice.status_code == 303
    assert "<b>x" not in who.get("/ui/access").text


@pytest.mark.parametrize(
    "path",
    ["/ui/login", "/ui/account", "/ui/access", "/ui/nothing", "/ui/static/ui.js", "/ui/setup", "/ui/"],
)
def test_every_answer_says_what_browsers_may_do(
    path: str, people: dict[Role, Surfer], site: Server
) -> None:
    for who in (people[Role.ADMIN], Surfer(site.url)):
        answer = who.get(path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert answer.headers["cache-control"] == ("no-cache" if "static" in path else "no-store")
    policy = HEADERS["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_pages_hold_no_scripts_or_styles_of_their_own(people: dict[Role, Surfer]) -> None:
    for path in ("/ui/access", "/ui/account"):
        found = _Tags(people[Role.ADMIN].get(path).text).found
        assert len(found) > 50
        for tag, attributes in found:
            assert tag != "style"
            assert tag != "script" or attributes.get("src", "").startswith("/ui/static/")
            for name, value in attributes.items():
                assert name != "style"
                assert not name.startswith("on")
                assert not (value or "").strip().lower().startswith(("javascript:", "js:"))


def test_the_cookies_are_out_of_reach_of_scripts(site: Server) -> None:
    answer = Surfer(site.url).sign_in(newcomer(site, "lead"))
    for cookie in answer.headers.get_list("set-cookie"):
        assert "HttpOnly" in cookie
        assert "Path=/" in cookie
        assert "Domain" not in cookie


def test_errors_show_nothing_of_the_inside(people: dict[Role, Surfer]) -> None:
    admin = people[Role.ADMIN]
    for path in ("/ui/nothing", "/ui/static/../app.py", "/ui/static/%2e%2e/%2e%2e/settings.py"):
        answer = admin.get(path)
        assert answer.status_code == 404
        assert "no such page" in answer.text
        assert "Traceback" not in answer.text
    too_many = admin.post("/ui/access/users", {f"f{number}": "x" for number in range(2_000)})
    assert too_many.status_code in (400, 422)
    assert "Traceback" not in too_many.text


def test_files_change_their_address_with_their_content(site: Server) -> None:
    text = Surfer(site.url).get("/ui/login").text
    found = re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', text)
    assert len(found) >= 5
    for address in found:
        answer = httpx.get(site.url + address)
        assert (answer.status_code, "immutable" in answer.headers["cache-control"]) == (200, True), address
    assert fresh("x") not in text


def test_the_root_leads_browsers_to_the_pages_and_programs_nowhere(site: Server) -> None:
    browser = httpx.get(site.url, headers={"Accept": "text/html,*/*"})
    assert (browser.status_code, browser.headers["location"]) == (303, "/ui/")
    for method in ("GET", "POST", "DELETE"):
        program = httpx.request(method, site.url, headers={"Accept": "*/*"})
        assert (program.status_code, program.json()["code"]) == (404, "not_found")
