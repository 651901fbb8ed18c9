"""The shell of every page: signing in, keys, themes, accessibility."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.people import BrowserServer, axe_in_both_themes


def test_the_login_page_is_accessible(page: Page, site: BrowserServer) -> None:
    page.goto(f"{site.url}/")
    expect(page).to_have_url(f"{site.url}/ui/login")
    axe_in_both_themes(page)


@pytest.mark.parametrize("role", ["reviewer", "lead", "operator", "admin"])
def test_a_person_signs_in_and_out(page: Page, site: BrowserServer, role: str) -> None:
    site.signed_in(page, role)
    axe_in_both_themes(page)
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    page.goto(f"{site.url}/ui/account")
    expect(page).to_have_url(f"{site.url}/ui/login?next=%2Fui%2Faccount")


def test_keys_are_listed_and_work(page: Page, site: BrowserServer) -> None:
    site.signed_in(page, "admin")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys on this page")
    expect(dialog.get_by_role("row", name="g a Go to Access")).to_be_visible()
    axe_in_both_themes(page)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page).to_have_url(f"{site.url}/ui/account")


def test_keys_pressed_while_scripts_are_on_their_way_are_not_lost(page: Page, site: BrowserServer) -> None:
    site.signed_in(page, "admin")
    held: list[Route] = []
    page.route("**/ui.js*", lambda route: held.append(route))
    page.goto(f"{site.url}/ui/runs", wait_until="commit")
    expect(page.locator("footer")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("p")
    assert len(held) == 1
    expect(page).to_have_url(f"{site.url}/ui/runs")
    held[0].continue_()
    expect(page).to_have_url(f"{site.url}/ui/account")


def test_the_theme_is_kept(page: Page, site: BrowserServer) -> None:
    page.goto(f"{site.url}/ui/login")
    page.get_by_role("button", name="Switch between light and dark").click()
    chosen = page.locator("html").get_attribute("data-theme")
    assert chosen in ("light", "dark")
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == chosen
    page.emulate_media(reduced_motion="reduce", color_scheme="dark")


SEND = "htmx.ajax('POST', '/ui/access/users/link', {source: 'main', target: '#messages'})"


def test_what_scripts_send_carries_the_token_and_errors_are_told(page: Page, site: BrowserServer) -> None:
    site.signed_in(page, "admin", "/ui/account")
    with page.expect_response("**/ui/access/users/link") as sent:
        page.evaluate(SEND)
    assert sent.value.status == 422
    message = page.locator("#messages .message.bad")
    expect(message).to_contain_text("Login: this is needed.")
    page.context.clear_cookies()
    page.evaluate(SEND)
    expect(message).to_have_text("Sign in to go on; your session may have ended")
    axe_in_both_themes(page)


def test_a_page_with_unsent_changes_is_not_left_by_mistake(page: Page, site: BrowserServer) -> None:
    site.signed_in(page, "admin", "/ui/access")
    page.get_by_label("Login").press_sequentially("half")
    page.once("dialog", lambda dialog: dialog.dismiss())
    with page.expect_event("dialog") as asked:
        page.get_by_role("link", name="Access").click(no_wait_after=True)
    assert asked.value.type == "beforeunload"
    expect(page.get_by_label("Login")).to_have_value("half")
    page.once("dialog", lambda dialog: dialog.accept())
    page.goto(f"{site.url}/ui/account")
