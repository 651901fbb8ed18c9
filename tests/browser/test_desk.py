"""A reviewer at work, by keyboard alone and beside others."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from tests.browser.desks import FORM, claim, desk, reviewer
from tests.browser.people import BrowserServer, axe_in_both_themes

TWENTY = [f"{'C' * at}O" for at in range(1, 21)]
ITEM = re.compile(r"/ui/desk/items/[0-9a-f]+$")


def test_a_reviewer_works_through_twenty_items_by_keyboard_alone(page: Page, site: BrowserServer) -> None:
    made = desk(site, *TWENTY, form={"scores": FORM["scores"]})
    reviewer(site, page)
    keys = page.keyboard
    page.get_by_role("searchbox", name="Find a queue").wait_for()
    keys.press("/")
    keys.type(made.queue)
    keys.press("Enter")
    page.get_by_role("button", name=f"Claim the next item of {made.queue}").focus()
    keys.press("Enter")
    for done in range(20):
        expect(page).to_have_url(ITEM)
        expect(page.get_by_role("heading", name="Your decision")).to_be_visible()
        keys.press("r" if done % 4 == 3 else "a")
        if done % 4 == 3:
            expect(page.get_by_label("Reason")).to_be_focused()
            keys.type(f"arson 1 s e n {done}")  # none of these is a command while somebody types
            keys.press("Escape")
        keys.press(str(1 + done % 5))
        expect(page.locator("fieldset.score :checked")).to_have_count(1)
        keys.press("Control+Enter")
        expect(page.get_by_role("heading", name="Decided")).to_be_visible()
        if done < 19:
            keys.press("n")
            expect(page.get_by_role("heading", name="Your decision")).to_be_visible()
    votes = [made.votes(review) for review in made.items.values()]
    assert [len(cast) for cast in votes] == [1] * 20
    assert sum(cast[0]["verdict"] == "reject" for cast in votes) == 5
    assert all(cast[0]["scores"]["stability"] in range(1, 6) for cast in votes)


def test_two_reviewers_side_by_side_cannot_take_one_item(
    page: Page, chrome: Browser, site: BrowserServer
) -> None:
    made = desk(site, "CCO")
    reviewer(site, page)
    other = chrome.new_context().new_page()
    try:
        reviewer(site, other)
        for one in (page, other):
            one.goto(f"{site.url}{made.path()}")
        page.get_by_role("button", name="Claim this item").click()
        expect(page.get_by_role("button", name="Send")).to_be_enabled()
        other.get_by_role("button", name="Claim this item").click()
        expect(other.get_by_text("is claimed by somebody else")).to_be_visible()
        other.goto(f"{site.url}{made.path()}")
        expect(other.get_by_text("Somebody else holds this item now.")).to_be_visible()
        expect(other.get_by_role("button", name="Send")).to_be_disabled()
        axe_in_both_themes(page)
    finally:
        other.context.close()


def test_a_double_submit_counts_once(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO")
    reviewer(site, page)
    claim(page, made)
    page.get_by_label("Accept").check()
    form = page.evaluate(
        "() => new URLSearchParams(new FormData(document.getElementById('decision'))).toString()"
    )
    page.get_by_role("button", name="Send").dblclick()
    expect(page.get_by_role("heading", name="Decided")).to_be_visible()
    again = page.evaluate(
        """async ([url, body]) => {
            const headers = {"Content-Type": "application/x-www-form-urlencoded"};
            const answer = await fetch(url, {method: "POST", body, headers});
            return [answer.status, answer.headers.get("X-Go-To")];
        }""",
        [f"{site.url}{made.path()}/decision", form],
    )
    assert again == [204, made.path()]
    page.reload()
    expect(page.get_by_text("You had sent this before. It is counted once.")).to_be_visible()
    assert len(made.votes()) == 1
