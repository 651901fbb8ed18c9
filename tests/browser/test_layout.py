"""Nothing scrolls sideways: every page of the navigation and what it leads to, on a tablet and a small
laptop, in both themes; and at the desk everything that a decision needs is within reach."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.desks import FORM, Desk, api_vote, claim, desk, reviewer
from tests.browser.people import BrowserServer
from verifier_service.dashboard.navigation import ENTRIES, OWN_ACCOUNT

LAPTOP, TABLET = {"width": 1280, "height": 720}, {"width": 768, "height": 1024}
LONG = "CC(C)(C)COc1ccc(cc1)" + "C(=O)NCCOc1ccc(cc1)" * 5 + "C(=O)O"
OVERHANG = """() => {
    const wide = document.documentElement.scrollWidth - window.innerWidth;
    if (wide <= 0) return [];
    const out = [...document.querySelectorAll("main *, header *, footer *")]
        .filter((one) => one.getBoundingClientRect().right > window.innerWidth + 1)
        .map((one) => `${one.tagName} ${one.className} ${Math.round(one.getBoundingClientRect().right)}`);
    return [`${wide} px`, ...out.slice(0, 8)];
}"""


@pytest.fixture(scope="module")
def busy(site: BrowserServer) -> Desk:
    """Items with long texts, one of them judged."""
    fast = {"fast": [{"use": "molecule.validity", "gate": "hard"}]}
    turns = [{"message": "m" * 300, "calls": [{"name": "tool", "arguments": {"q": "x" * 500}}]}]
    made = desk(site, LONG, "CCO", turns=turns, tiers=fast, form=FORM, prompt="p" * 400)
    score = {"scores": {"stability": 3}}
    api_vote(made, "ann", "reject", review=list(made.items.values())[1], comment="c" * 300, **score)
    return made


def wide(page: Page) -> list[str]:
    """What stands out of a page to the right, in both themes."""
    found: list[str] = []
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        found += [f"{theme}: {one}" for one in page.evaluate(OVERHANG)]
    return found


def test_no_page_scrolls_sideways(page: Page, site: BrowserServer, busy: Desk) -> None:
    site.signed_in(page, "admin")
    run = f"/ui/runs/{busy.run}"
    paths = [entry.path for entry in ENTRIES]
    paths += [
        OWN_ACCOUNT,
        "/ui/desk/all",
        "/ui/desk/agreement",
        f"/ui/desk/all?queue={busy.queue}",
        "/ui/no",
    ]
    paths += [busy.path(review) for review in busy.items.values()]
    paths += [run, f"{run}/trajectories/t0", f"{run}/trajectories/t1"]
    bad: dict[str, list[str]] = {}
    for path in paths:
        page.goto(f"{site.url}{path}")
        for folded in page.locator("main details").all():
            folded.evaluate("one => { one.open = true }")
        for size in (TABLET, LAPTOP):
            page.set_viewport_size(size)  # type: ignore[arg-type]
            if found := wide(page):
                bad[f"{path} at {size['width']}"] = found
    page.context.clear_cookies()
    for path in ("/ui/login", "/ui/password?token=x"):
        page.set_viewport_size(TABLET)  # type: ignore[arg-type]
        page.goto(f"{site.url}{path}")
        if found := wide(page):
            bad[path] = found
    assert bad == {}


def test_all_that_a_decision_needs_is_within_reach(page: Page, site: BrowserServer, busy: Desk) -> None:
    reviewer(site, page)
    claim(page, busy)
    drawing = page.locator("img[data-drawing]")
    expect(drawing).to_be_visible()
    for size in (LAPTOP, TABLET):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        for part in (page.locator("#smiles"), drawing, page.locator("#decision"), page.locator("#send")):
            part.scroll_into_view_if_needed()
            box = part.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= size["width"]
        assert page.evaluate("() => window.scrollX") == 0
    page.set_viewport_size(LAPTOP)  # type: ignore[arg-type]
    page.evaluate("() => window.scrollTo(0, 0)")
    box = drawing.bounding_box()
    assert box is not None
    assert box["y"] < LAPTOP["height"], "the drawing is on the first screen"
