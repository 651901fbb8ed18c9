"""The undo grace, on a server that gives time for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.desks import claim, desk, reviewer
from tests.browser.people import BrowserServer, axe_in_both_themes
from tests.support import server


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserServer]:
    with server.running(tmp_path_factory.mktemp("patient"), review_grace_s="120") as running:
        yield BrowserServer(running)


def test_a_decision_is_undone_within_the_grace(page: Page, patient: BrowserServer) -> None:
    made = desk(patient, "CCO")
    reviewer(patient, page)
    claim(page, made)
    page.keyboard.press("r")
    page.get_by_label("Reason").fill("too soon")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="Decided")).to_be_visible()
    expect(page.get_by_text("It takes effect in").first).to_be_visible()
    axe_in_both_themes(page)
    page.goto(f"{patient.url}/ui/desk")
    axe_in_both_themes(page)
    page.keyboard.press("u")
    expect(page.get_by_text("Your decision is undone. The item is yours again.")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value("too soon")
    assert made.votes() == []
    page.keyboard.press("a")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="Decided")).to_be_visible()
    assert [vote["verdict"] for vote in made.votes()] == ["accept"]
