"""More of the desk: several items at once, portions of turns, claims that end soon, gold items."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Dialog, Locator, Page, expect

from tests.browser.desks import claim, desk, reviewer
from tests.browser.people import BrowserServer, axe_in_both_themes

BIDI = "\u202e\u2066drowkcab\u2069\u202c"
SCRIPT = "<script>window.ran = 1</script><img src=x onerror='window.ran = 1'>"
WORD = "w" * 10_000
SIDEWAYS = "() => document.documentElement.scrollWidth - window.innerWidth"
TURNS = [{"message": f"step {at}"} for at in range(1, 26)]


def test_a_lead_reassigns_several_at_once(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO", "CCN", "CCC")
    heir = site.newcomer("reviewer", "Heir Apparent")
    reviewer(site, page, f"/ui/desk/all?queue={made.queue}", role="lead")
    for smiles in ("CCO", "CCN"):
        page.get_by_label(f"Choose {smiles}", exact=True).check()
    page.get_by_label("Keep for").select_option(label=f"Heir Apparent ({heir.login})")
    page.get_by_label("Hours").fill("5")
    page.once("dialog", lambda asked: asked.dismiss())
    page.get_by_role("button", name="Reassign").click()
    assert {made.read(one)["assigned_to"] for one in made.items.values()} == {None}
    page.once("dialog", lambda asked: asked.accept())
    page.get_by_role("button", name="Reassign").click()
    expect(page.get_by_text("2 of 2 items are reassigned.")).to_be_visible()
    axe_in_both_themes(page)
    seen = [made.read(one) for one in made.items.values()]
    kept = {one["candidate"]: one["assigned_to"] for one in seen}
    assert kept == {"CCO": heir.login, "CCN": heir.login, "CCC": None}
    page.goto(f"{site.url}/ui/desk/all?queue={made.queue}")
    expect(page.get_by_role("cell", name=heir.login)).to_have_count(2)
    page.get_by_label("Choose CCC", exact=True).check()
    page.get_by_label("Hours").fill("many")
    page.once("dialog", lambda asked: asked.accept())
    page.get_by_role("button", name="Reassign").click()
    expect(page.get_by_role("alert")).to_contain_text("a number from 1 to 720")


def test_more_turns_come_when_asked(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO", turns=TURNS)
    reviewer(site, page)
    page.goto(f"{site.url}{made.path()}")
    page.get_by_text("25 turns", exact=True).click()
    for shown in (10, 20):
        expect(page.get_by_text(f"step {shown}", exact=True)).to_be_visible()
        expect(page.get_by_text(f"step {shown + 1}", exact=True)).to_have_count(0)
        page.get_by_role("button", name=f"Show more: turns from {shown + 1} of 25").click()
    expect(page.get_by_text("step 25", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    axe_in_both_themes(page)


def test_a_claim_that_ends_soon_is_told_and_renewed_by_key(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO", minutes=10)
    reviewer(site, page)
    page.clock.install()
    claim(page, made)
    words = page.locator("[data-claim-words]")
    expect(words).to_be_hidden()
    page.get_by_label("Reject").check()
    page.get_by_label("Reason").fill("half a sen")
    page.clock.fast_forward("08:30")
    expect(words).to_have_text(re.compile("Your claim ends in .*. Press e to hold the item for longer."))
    expect(words).to_be_visible()
    assert page.locator("#spoken").inner_text() == words.inner_text(), "told to those who listen, too"
    axe_in_both_themes(page)
    before = made.read()["claimed_until"]
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    expect(page.get_by_text("The item is yours for 10 more minutes.")).to_be_visible()
    expect(words).to_be_hidden()
    expect(page.get_by_label("Reason")).to_have_value("half a sen")
    assert made.read()["claimed_until"] > before


def test_sending_back_is_asked_about_first(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO")
    reviewer(site, page)
    claim(page, made)
    page.keyboard.press("s")
    asked = page.get_by_role("dialog", name="Put this item aside")
    asked.get_by_label("Why").fill("a mixture")
    asked.get_by_label("Send it back: it cannot be judged").check()
    told: list[str] = []

    def answer(accepts: bool) -> None:
        def heard(dialog: Dialog) -> None:
            told.append(dialog.message)
            dialog.accept() if accepts else dialog.dismiss()

        page.once("dialog", heard)
        asked.get_by_role("button", name="Put aside").click()

    answer(False)
    expect(asked.get_by_label("Why")).to_have_value("a mixture")
    assert made.read()["state"] == "claimed"
    answer(True)
    expect(page.get_by_text("The item went back unscored.")).to_be_visible()
    assert made.read()["state"] == "cancelled"
    assert (
        told == ["Send the item back? It ends unscored for everybody, at once, and cannot be undone."] * 2
    )


def looks(part: Locator, candidate: str) -> str:
    """A part of a page as it was sent, without what differs between any two items."""
    text = part.inner_html()
    for pattern, instead in (
        (re.escape(candidate), "CANDIDATE"),
        (r"[0-9a-f]{24}", "ID"),
        (r"item [0-9a-f]{8}|Item [0-9a-f]{8}", "item SHORT"),
        (r"data-(held|undo)-s=\"[^\"]*\"", "SECONDS"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d UTC|Yours for \d+ \w+ more", "TIME"),
        (r"\"seed\": \"[0-9a-f]+\"|&quot;seed&quot;: &quot;[0-9a-f]+&quot;", "SEED"),
        (r"C\d*H\d*O|<dd>\d+</dd>|[\d.]+ g/mol", "FACT"),
        (r"htmx-[\w-]+ ?|class=\"\"", ""),
    ):
        text = re.sub(pattern, instead, text)
    return text


def test_a_gold_item_looks_like_any_other(page: Page, site: BrowserServer) -> None:
    smiles = [f"{'C' * at}O" for at in range(2, 14)]
    made = desk(site, *smiles, gold_share=0.5)
    shown = {
        "prompt": "Design a molecule that keeps.",
        "inputs": {"seed": "0a1b2c3d"},
        "candidate": "C" * 20 + "O",
    }
    known: dict[str, Any] = {"queue": made.queue, "shown": shown, "expected": {"verdict": "accept"}}
    with site.client() as client:
        client.post("/v1/reviews/gold", json=known).raise_for_status()
    reviewer(site, page)
    found: dict[str, tuple[str, str]] = {}
    while len(found) < len(smiles) and not (shown["candidate"] in found and len(found) > 1):
        page.goto(f"{site.url}/ui/desk?find={made.queue}")
        page.get_by_role("button", name=f"Claim the next item of {made.queue}").click()
        candidate = page.locator("#smiles").inner_text()
        expect(page.get_by_text("g/mol")).to_be_visible()
        expect(page.locator("[data-claim-left]")).to_contain_text("Yours for")
        path, item = page.url, looks(page.locator("html"), candidate)
        page.goto(f"{site.url}/ui/desk")
        held = page.get_by_role("listitem").filter(has_text="yours until")
        expect(held).to_have_count(1)
        found[candidate] = item, looks(held, candidate)
        page.goto(path)
        page.keyboard.press("a")
        page.keyboard.press("Control+Enter")
        expect(page.get_by_role("heading", name="Decided")).to_be_visible()
        expect(page.locator("[data-undo-left]")).to_have_count(0)
    gold = found.pop(str(shown["candidate"]))
    for other in found.values():
        for one, another in zip(gold, other, strict=True):
            assert one.splitlines() == another.splitlines()


def test_hostile_evidence_is_text_and_breaks_no_layout(page: Page, site: BrowserServer) -> None:
    """What a check says of an answer may quote the answer."""
    for hostile in (SCRIPT, BIDI, WORD):
        tiers = {"fast": [{"use": "hostile"}]}
        answer = {"do": "say", "text": hostile}
        made = desk(site, answer, kind="json", tiers=tiers, prompt=hostile)
        reviewer(site, page)
        page.goto(f"{site.url}{made.path()}")
        told = page.get_by_role("region", name="Evidence of cheaper tiers").first
        expect(told).to_contain_text(hostile[:60])
        for width, height in ((1280, 720), (768, 1024)):
            page.set_viewport_size({"width": width, "height": height})
            assert page.evaluate(SIDEWAYS) <= 0, hostile[:20]
            send = page.locator("#send").bounding_box()
            assert send is not None
            assert send["x"] + send["width"] <= width
        assert page.evaluate("() => window.ran") is None
        assert page.locator("main script, main img:not([data-drawing])").count() == 0
        axe_in_both_themes(page)
        page.get_by_role("button", name="Sign out", exact=True).click()
