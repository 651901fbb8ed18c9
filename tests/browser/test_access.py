"""Access in a browser: the first admin, users, keys that are shown once, lock-outs."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Dialog, Page, expect

from tests.browser.people import PASSWORD, BrowserServer, axe, axe_in_both_themes
from tests.support import server
from tests.support.server import fresh
from tests.support.surfing import setup_link

TABLET = {"width": 820, "height": 1180}
KEY = re.compile(r"^vk_[0-9a-f]+\.[A-Za-z0-9_-]{40,}$")


def test_the_first_admin_is_set_up_and_adds_a_reviewer(page: Page, tmp_path: Path) -> None:
    with server.running(tmp_path) as running:
        page.goto(setup_link(running))
        axe_in_both_themes(page)
        page.get_by_label("Login").fill("root")
        page.get_by_label("Name").fill("Root")
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.get_by_label("The same password again").fill("something else entirely")
        page.get_by_role("button", name="Make the admin").click()
        expect(page.get_by_role("alert")).to_have_text("The two passwords differ.")
        expect(page.get_by_label("Login")).to_have_value("root")
        for label in ("Password", "The same password again"):
            page.get_by_label(label, exact=True).fill(PASSWORD)
        page.get_by_role("button", name="Make the admin").click()
        expect(page.get_by_text("The first admin is made, and you are signed in.")).to_be_visible()
        _add_a_reviewer(page, running.url)
        page.get_by_label("Login").fill("root")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Access")).to_be_visible()
        expect(page.get_by_role("row", name="kim Kim Novak")).to_contain_text("active")
        axe_in_both_themes(page)


def _add_a_reviewer(page: Page, url: str) -> None:
    page.get_by_role("link", name="Access").click()
    page.get_by_label("Login").fill("kim")
    page.get_by_label("Name", exact=True).fill("Kim Novak")
    page.get_by_label("Role", exact=True).select_option("reviewer")
    page.get_by_role("button", name="Add the user").click()
    expect(page.get_by_text("It is shown this once.")).to_be_visible()
    axe_in_both_themes(page)
    link = page.locator("#secret").inner_text()
    page.get_by_role("button", name="Sign out", exact=True).click()
    page.goto(link)
    axe_in_both_themes(page)
    for label in ("Password", "The same password again"):
        page.get_by_label(label, exact=True).fill("a slow river, a long walk")
    page.get_by_role("button", name="Set the password").click()
    expect(page.get_by_text("Your password is set, and you are signed in.")).to_be_visible()
    expect(page.get_by_role("link", name="Access")).to_have_count(0)
    page.goto(f"{url}/ui/access")
    expect(page.get_by_role("heading", name="Your role, reviewer, does not open this page")).to_be_visible()
    axe_in_both_themes(page)
    page.get_by_role("button", name="Sign out", exact=True).click()


def test_a_key_is_made_shown_once_and_revoked(page: Page, site: BrowserServer) -> None:
    site.signed_in(page, "admin", "/ui/access")
    page.get_by_label("What it is for").fill("the trainer")
    for scope in ("submit", "read"):
        page.get_by_role("checkbox", name=re.compile(f"^{scope}")).check()
    page.get_by_role("button", name="Make the key").click()
    token = page.locator("#secret").inner_text()
    assert KEY.match(token)
    bearing = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{site.url}/v1/runs", headers=bearing).status_code == 200
    page.get_by_role("link", name="Back to Access").click()
    key = token.partition(".")[0]
    expect(page.get_by_role("row", name=key).first).to_contain_text("the trainer")
    assert token.partition(".")[2] not in page.content()
    asked: list[str] = []

    def accept(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.accept()

    page.on("dialog", accept)
    page.get_by_role("button", name=f"Revoke {key}").click()
    expect(page.get_by_text(f"The key {key} (the trainer) is revoked.")).to_be_visible()
    assert asked == [f"Revoke {key} (the trainer)? Programs that use it stop at once."]


def test_what_is_not_confirmed_does_not_happen(page: Page, site: BrowserServer) -> None:
    other = site.newcomer("lead", "Lee Lead")
    site.signed_in(page, "admin", "/ui/access")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name=f"Disable {other.login}").click()
    expect(page.get_by_role("row", name=other.login).first).to_contain_text("active")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name=f"Disable {other.login}").click()
    expect(page.get_by_text(f"{other.login} is disabled.")).to_be_visible()


def test_too_many_wrong_passwords_say_how_long_to_wait(page: Page, site: BrowserServer) -> None:
    person = site.newcomer("reviewer")
    page.goto(f"{site.url}/ui/login")
    for _ in range(5):
        page.get_by_label("Login").fill(person.login)
        page.get_by_label("Password").fill("not the password")
        with page.expect_navigation():
            page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text(
        re.compile(r"Too many wrong sign-ins; try again in \d+ seconds\.")
    )
    axe_in_both_themes(page)


def test_an_admin_works_without_a_mouse(page: Page, site: BrowserServer) -> None:
    person, login = site.person("admin"), fresh("kb")
    page.goto(f"{site.url}/ui/login")
    expect(page.get_by_label("Login")).to_be_focused()
    page.keyboard.type(person.login)
    page.keyboard.press("Tab")
    page.keyboard.type(person.password)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Access")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("u")
    expect(page.get_by_label("Login")).to_be_focused()
    page.keyboard.type(login)
    page.keyboard.press("Tab")
    page.keyboard.type("Kay Board? g a")
    page.keyboard.press("Tab")
    page.keyboard.type("lead")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("It is shown this once.")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(page.get_by_role("row", name=login).first).to_contain_text("Kay Board? g a")


def test_single_keys_can_be_switched_off(page: Page, site: BrowserServer) -> None:
    site.signed_in(page, "admin", "/ui/account")
    page.keyboard.press("?")
    page.get_by_label("Single keys are on").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys on this page")).to_be_visible()
    expect(page).to_have_url(f"{site.url}/ui/account")


@pytest.mark.parametrize("path", ["/ui/access", "/ui/account", "/ui/nothing"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_fit_a_tablet_and_are_accessible(
    page: Page, site: BrowserServer, path: str, theme: str
) -> None:
    page.set_viewport_size(TABLET)
    site.signed_in(page, "admin", path)
    axe(page, theme)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_planted_script_is_text(page: Page, site: BrowserServer) -> None:
    name = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    site.newcomer("reviewer", name)
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    site.signed_in(page, "admin", "/ui/access")
    expect(page.get_by_text(name).first).to_be_visible()


def test_no_page_of_ours_is_shown_in_a_frame(page: Page, site: BrowserServer) -> None:
    outside = page.context.new_page()
    outside.set_content(f'<iframe src="{site.url}/ui/login"></iframe>')
    frame = outside.frames[-1]
    assert frame != outside.main_frame
    assert not frame.url.startswith(site.url)
    assert frame.locator("form").count() == 0
    outside.close()
    page.goto(f"{site.url}/ui/login")
