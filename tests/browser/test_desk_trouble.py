"""What goes wrong at the desk: reloads, claims and sessions that end, votes that differ, hostile texts."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.desks import FORM, Desk, api_vote, claim, desk, reviewer
from tests.browser.people import BrowserServer, axe_in_both_themes

HOSTILE = "<script>window.ran = 1</script><img src=x onerror='window.ran = 1'>"
TYPED = "the ring would strain"
XYZ = "3\nwater\nO 0 0 0.117\nH 0 0.757 -0.469\nH 0 -0.757 -0.469\n"


def send(page: Page) -> None:
    page.keyboard.press("Control+Enter")


def typed_in(page: Page, made: Desk) -> None:
    """Claim, and begin to say no."""
    claim(page, made)
    page.get_by_label("Reject").check()
    page.get_by_label("Reason").fill(TYPED)


def test_what_was_typed_survives_a_reload(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO", form=FORM)
    reviewer(site, page)
    typed_in(page, made)
    page.get_by_label("5 keeps").check()
    page.get_by_label("Value, %").fill("12.5")
    page.reload()
    expect(page.get_by_text("What you had typed here before is back.")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value(TYPED)
    expect(page.get_by_label("5 keeps")).to_be_checked()
    expect(page.get_by_label("Value, %")).to_have_value("12.5")
    send(page)
    expect(page.get_by_role("heading", name="Decided")).to_be_visible()
    drafts = "() => Object.keys(localStorage).filter(key => key.startsWith('verifier-draft'))"
    assert page.evaluate(drafts) == []
    assert made.votes()[0]["measurements"][0]["value"] == 12.5


def test_an_expired_claim_is_refused_and_the_text_is_kept(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO", minutes=0.1)
    reviewer(site, page)
    typed_in(page, made)
    expect(page.get_by_text("Your claim on this item has ended.").first).to_be_visible()
    page.locator("#send").evaluate("button => { button.disabled = false }")  # a page whose clock is slow
    send(page)
    expect(page.get_by_text("holds review").first).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value(TYPED)
    assert made.votes() == []
    axe_in_both_themes(page)
    page.get_by_role("button", name="Claim this item").click()
    expect(page.locator("#send")).to_be_enabled()
    expect(page.get_by_label("Reason")).to_have_value(TYPED)
    send(page)
    expect(page.get_by_role("heading", name="Decided")).to_be_visible()


def test_a_session_that_ends_while_typing_keeps_the_text(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO")
    person = reviewer(site, page)
    typed_in(page, made)
    page.context.clear_cookies()
    send(page)
    expect(page.get_by_text("Your session has ended.")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value(TYPED)
    page.get_by_role("link", name="Sign in again and go on here").click()
    page.get_by_label("Login").fill(person.login)
    page.get_by_label("Password").fill(person.password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("Reason")).to_have_value(TYPED)
    send(page)
    expect(page.get_by_role("heading", name="Decided")).to_be_visible()
    assert made.votes()[0]["reason"] == TYPED


def test_what_does_not_fit_is_told_beside_its_field(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO", form=FORM | {"comment": "required"})
    reviewer(site, page)
    claim(page, made)
    page.keyboard.press("a")
    page.get_by_label("Value, %").fill("twelve")
    send(page)
    expect(page.get_by_text("Grade stability from 1 to 5.")).to_be_visible()
    expect(page.get_by_text("Write a number with a decimal point")).to_be_visible()
    expect(page.get_by_text("This queue asks for a comment.")).to_be_visible()
    expect(page.get_by_label("Value, %")).to_have_value("twelve")
    axe_in_both_themes(page)


def test_skipping_asks_why_and_keys_are_listed(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO", form=FORM)
    reviewer(site, page)
    claim(page, made)
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys on this page")
    for key in ("a", "r", "s", "e", "n", "1", "9"):
        expect(
            dialog.get_by_role("row").filter(has=page.get_by_text(key, exact=True)).first
        ).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    expect(page.get_by_text("more minutes.").first).to_be_visible()
    page.keyboard.press("s")
    asked = page.get_by_role("dialog", name="Put this item aside")
    axe_in_both_themes(page)
    asked.get_by_label("Why").fill("not my field")
    asked.get_by_role("button", name="Put aside").click()
    expect(page.get_by_text("The item is put aside; you are not offered it again.")).to_be_visible()


def test_two_who_disagree_are_settled_by_a_third(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO", approvals=2, blind=True)
    api_vote(made, "ann")
    api_vote(made, "bob", "reject")
    reviewer(site, page)
    claim(page, made)
    expect(
        page.get_by_text("Two reviewers disagreed on this item. Your decision settles it.")
    ).to_be_visible()
    for name in ("ann", "bob"):
        expect(page.get_by_text(name, exact=True)).to_have_count(0)
    page.keyboard.press("a")
    send(page)
    expect(page.get_by_role("heading", name="Decided")).to_be_visible()
    assert made.until("effective")["votes"][-1]["verdict"] == "accept"


@pytest.mark.parametrize("blind", [False, True])
def test_blind_queues_hide_what_others_found(page: Page, site: BrowserServer, blind: bool) -> None:
    fast = {"fast": [{"use": "molecule.validity", "gate": "hard"}]}
    made = desk(site, "CCO", tiers=fast, blind=blind, approvals=2)
    api_vote(made, "ann", comment="seen before")
    reviewer(site, page)
    claim(page, made)
    expect(page.get_by_text("This queue is blind")).to_have_count(int(blind))
    for told in (page.get_by_role("cell", name="molecule.validity"), page.get_by_text("seen before")):
        expect(told).to_have_count(int(not blind))
    axe_in_both_themes(page)


def test_hostile_content_never_runs(page: Page, site: BrowserServer) -> None:
    turns = [
        {
            "message": HOSTILE,
            "calls": [{"id": "1", "name": HOSTILE[:60], "arguments": HOSTILE}],
            "observations": [{"call": "1", "text": HOSTILE}],
        }
    ]
    made = desk(site, HOSTILE, kind="text", turns=turns, prompt=HOSTILE, instructions=HOSTILE, approvals=2)
    api_vote(made, "ann", "reject", comment=HOSTILE)
    reviewer(site, page)
    claim(page, made)
    expect(page.get_by_text(HOSTILE).first).to_be_visible()
    assert page.evaluate("() => window.ran") is None
    assert page.locator("main script, main img[src=x]").count() == 0
    smiles = desk(site, {"smiles": f"C{HOSTILE}"}, kind="json")
    page.goto(f"{site.url}{smiles.path()}")
    expect(page.get_by_role("heading", name="Candidate")).to_be_visible()
    page.goto(f"{site.url}/ui/desk")
    assert page.evaluate("() => window.ran") is None
    axe_in_both_themes(page)


def test_a_lead_withdraws_several_at_once(page: Page, site: BrowserServer) -> None:
    made = desk(site, "CCO", "CCN", "CCC", approvals=2)
    ids = list(made.items.values())
    api_vote(made, "ann", review=ids[0])
    reviewer(site, page, f"/ui/desk/all?queue={made.queue}", role="lead")
    axe_in_both_themes(page)
    page.get_by_label("Choose all of this page").check()
    page.get_by_label("Why").fill("made twice")
    page.on("dialog", lambda asked: asked.accept())
    page.get_by_role("button", name="Withdraw").click()
    expect(page.get_by_text("2 of 3 items are withdrawn.")).to_be_visible()
    expect(page.get_by_text("has a vote, which counts")).to_be_visible()
    assert [made.read(one)["state"] for one in ids] == ["open", "cancelled", "cancelled"]


@pytest.mark.parametrize(
    ("kind", "answer", "seen"),
    [
        ("molecule", "CCO", "SMILES"),
        ("geometry", XYZ, "Formula"),
        ("program", "def add(a, b):\n    return a + b\n", "return a + b"),
        ("json", {"forecast": [1.0, 2.5, 3.0], "lower": [0, 2, 2], "upper": [2, 3, 4]}, "forecast"),
        ("json", {"route": ["a", {"b": 1}]}, "route"),
    ],
    ids=["molecule", "geometry", "program", "series", "document"],
)
def test_every_kind_of_candidate(
    page: Page, site: BrowserServer, kind: str, answer: object, seen: str
) -> None:
    made = desk(site, answer, kind=kind)
    reviewer(site, page)
    claim(page, made)
    expect(page.get_by_text(seen).first).to_be_visible()
    if kind == "molecule":
        expect(page.get_by_role("img", name="Drawing of the molecule CCO")).to_be_visible()
        page.wait_for_function("() => document.querySelector('img[data-drawing]').naturalWidth > 0")
    if kind == "geometry":
        expect(page.locator("#structure canvas")).to_be_visible()
    axe_in_both_themes(page)
    page.set_viewport_size({"width": 768, "height": 1024})
    axe_in_both_themes(page)
