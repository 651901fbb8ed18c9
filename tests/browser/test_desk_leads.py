"""What leads have beside the desk: the trail, taking back, lists that stay as they were filtered; and what
reviewers keep when an item ends under their hands."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.desks import FORM, api_vote, claim, desk, reviewer
from tests.browser.people import BrowserServer, axe_in_both_themes

PLANTED = "<script>document.title='planted'</script>"


def test_a_lead_takes_a_decision_back_and_finds_it_in_the_trail(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO")
    api_vote(made, "ann", reason=PLANTED)
    made.until("effective")
    lead = reviewer(site, page, made.path(), role="lead")
    page.get_by_text("Take this decision back").click()
    page.get_by_label("Why").fill("the wrong bottle")
    axe_in_both_themes(page)
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Take back").click()
    expect(page.get_by_text("The decision is taken back.")).to_be_visible()
    expect(page.get_by_text("taken back", exact=True)).to_be_visible()
    expect(page.get_by_text("Take this decision back")).to_have_count(0)
    page.goto(f"{site.url}/ui/desk/trail")
    page.get_by_label("Item").fill(made.first)
    page.get_by_role("button", name="Show").click()
    rows = page.get_by_role("row")
    expect(rows.nth(1)).to_contain_text(lead.login)
    expect(rows.nth(1)).to_contain_text("the wrong bottle")
    expect(page.get_by_text(PLANTED)).to_be_visible()
    expect(page).to_have_title(re.compile("Trail"))
    axe_in_both_themes(page)
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save as CSV").click()
    text = saved.value.path().read_text()
    assert text.count("\n") >= 5
    assert "the wrong bottle" in text


def test_reviewers_neither_take_back_nor_read_the_trail(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO")
    api_vote(made, "ann")
    made.until("effective")
    reviewer(site, page, made.path())
    expect(page.get_by_text("The decision is in effect.")).to_be_visible()
    expect(page.get_by_text("Take this decision back")).to_have_count(0)
    page.goto(f"{site.url}/ui/desk/trail")
    expect(page.get_by_text("does not open this page")).to_be_visible()


def test_what_was_typed_stays_when_the_item_ends(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO", form=FORM)
    reviewer(site, page)
    claim(page, made)
    page.get_by_label("Reject").check()
    page.get_by_label("Reason").fill("the ring would strain")
    page.get_by_label("5 keeps").check()
    with site.client() as client:
        body = {"reviews": [made.first], "reason": "a flood"}
        client.post("/v1/reviews/withdraw", json=body).raise_for_status()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    kept = page.get_by_label("What you had typed")
    expect(kept).to_have_value(re.compile("Verdict: reject\nReason: the ring would strain\nstability: 5"))
    axe_in_both_themes(page)
    page.reload()
    expect(kept).to_have_value(re.compile("the ring would strain"))
    page.get_by_role("button", name="Discard").click()
    expect(kept).to_be_hidden()
    page.reload()
    expect(page.get_by_text("The item was taken off the desk.")).to_be_visible()
    expect(kept).to_be_hidden()


def test_digits_are_grades_wherever_the_scale_begins(page: Page, site: BrowserServer) -> None:
    scales = [{"name": "purity", "low": 0, "high": 5}, {"name": "novelty", "low": 3, "high": 6}]
    made = desk(site, "CCO", form={"scores": scales})
    reviewer(site, page)
    claim(page, made)
    for key in ("a", "0", "3"):
        page.keyboard.press(key)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="Decided")).to_be_visible()
    assert made.votes()[0]["scores"] == {"purity": 0, "novelty": 3}


def test_a_list_stays_as_it_was_filtered(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO", "CCN")
    reviewer(site, page, f"/ui/desk/all?queue={made.queue}", role="lead")
    expect(page.get_by_role("heading", name="2 items")).to_be_visible()
    page.get_by_label("Choose CCO").check()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Withdraw").click()
    expect(page.get_by_text("Say why")).to_be_visible()
    expect(page.get_by_label("Choose CCO")).to_be_checked()
    page.get_by_label("Why").fill("a flood")
    page.get_by_role("button", name="Withdraw").click()
    expect(page.get_by_text("1 of 1 item is withdrawn.")).to_be_visible()
    expect(page.get_by_role("heading", name="1 item")).to_be_visible()
    expect(page.get_by_label("Queue")).to_have_value(made.queue)
