"""The page of a trajectory: found from its run whatever its id, complete, and deaf to what is planted."""

from __future__ import annotations

from typing import Any

import httpx
from playwright.sync_api import Page, expect

from tests.browser.desks import Desk, api_vote, waiting
from tests.browser.people import BrowserServer, axe_in_both_themes
from tests.support.server import JUDGED, act, fresh, submit
from verifier_service.dashboard.pages import case_path, segment

PLANTED = (
    "</svg></pre></textarea><script>window.planted = 1</script>"
    '<img src=x onerror="window.planted = 2">\'"&amp;{{ 7 * 7 }}{% raw %}${7*7}'
)
GOLD = "nobody-may-see-this"
TURNS: list[dict[str, Any]] = [
    {
        "message": PLANTED,
        "calls": [{"name": PLANTED, "arguments": {PLANTED: PLANTED}}],
        "observations": [{"text": PLANTED, "is_error": True, "data": {PLANTED: [PLANTED]}}],
    },
    {"message": "long " * 4_000 + PLANTED},
    *({"message": f"step {at}"} for at in range(3, 31)),
]


def judged_by_people(client: httpx.Client, kind: str = "molecule", format: str = "smiles") -> str:
    """A new ladder of candidates that people judge, in a queue of its name."""
    name = fresh("ladder")
    body = {
        "name": name,
        "candidate": {"kind": kind, "format": format},
        "outcome": {"use": "review"},
        "truth": "lab",
        "tiers": {"lab": [{"use": "review", "params": {"queue": name}}]},
    }
    client.put(f"/v1/ladders/{name}", json=body).raise_for_status()
    return name


def planted(id: str, ladder: str) -> dict[str, Any]:
    """A trajectory that tries to run something wherever texts go."""
    return {
        "id": id,
        "ladder": ladder,
        "policy_version": PLANTED,
        "problem": {
            "prompt": [{"role": PLANTED, "content": PLANTED}],
            "inputs": {PLANTED: PLANTED},
            "reference": {"gold": GOLD},
        },
        "turns": TURNS,
        "answer": f"C{PLANTED}",
        "metadata": {PLANTED: PLANTED},
    }


def deaf(page: Page) -> None:
    """Nothing that was planted has run, or become a part of the page."""
    assert page.evaluate("window.planted") is None
    assert page.locator("main img:not([data-drawing])").count() == 0
    assert page.locator("main script, main textarea").count() == 0


def test_a_hostile_trajectory_is_shown_as_text(page: Page, site: BrowserServer) -> None:
    run, id = fresh("run/of"), "a/b+c@d:e"
    with site.client() as client:
        ladder = judged_by_people(client)
        submit(client, segment(run), planted(id, ladder), until="fast")
    site.signed_in(page, "operator", f"/ui/runs/{segment(run)}")
    page.get_by_role("link", name=id, exact=True).click()
    expect(page.get_by_role("heading", name=id, exact=True)).to_be_visible()
    expect(page.get_by_text("waits for people")).to_be_visible()
    expect(page.get_by_role("region", name="Task", exact=True)).to_have_text(f"{PLANTED}: {PLANTED}")
    expect(page.get_by_role("region", name="Answer", exact=True)).to_have_text(f"C{PLANTED}")
    for folded in page.locator("main details").all():
        folded.locator("summary").first.click()
    expect(page.get_by_role("region", name="Turn 1", exact=True)).to_contain_text(PLANTED)
    long = page.get_by_role("region", name="Turn 2", exact=True)
    expect(long).not_to_contain_text("window.planted")
    long.get_by_role("button", name="Show the whole of turn 2").click()
    expect(long).to_contain_text(PLANTED)
    assert page.get_by_role("region", name="Turn 11", exact=True).count() == 0
    page.get_by_role("button", name="Show more: turns from 11 of 30").click()
    expect(page.get_by_role("region", name="Turn 11", exact=True)).to_contain_text("step 11")
    deaf(page)
    axe_in_both_themes(page)
    assert GOLD not in page.content()
    for part in ("", "/state", "/checks", "/turns", "/turns?only=2"):
        answer = page.request.get(f"{site.url}{case_path((run, id))}{part}")
        assert (answer.status, GOLD in answer.text(), "<script>window" in answer.text()) == (
            200,
            False,
            False,
        )


def test_what_a_reviewer_wrote_is_shown_as_text(page: Page, site: BrowserServer) -> None:
    run = fresh()
    with site.client() as client:
        ladder = judged_by_people(client)
        submit(client, run, planted("t0", ladder), until="fast")
    made = Desk(site, ladder, waiting(site, ladder, 1))
    api_vote(made, "robin", "reject", reason=PLANTED, comment=PLANTED)
    made.until("effective")
    site.signed_in(page, "operator", case_path((run, "t0")))
    expect(page.get_by_role("img", name="Reward by revision")).to_be_visible()
    expect(page.get_by_role("heading", name="Evidence")).to_be_visible()
    expect(page.get_by_text(PLANTED).first).to_be_visible()
    deaf(page)


def test_a_case_waits_is_cancelled_and_renews_itself(page: Page, site: BrowserServer) -> None:
    run = fresh()
    with site.client() as client:
        ladder = judged_by_people(client)
        items = [{"id": name, "ladder": ladder, "answer": "CC" * at} for at, name in enumerate("xy", 2)]
        submit(client, run, *items, until="fast")
        site.signed_in(page, "operator", case_path((run, "x")))
        expect(page.get_by_text("waits for people")).to_be_visible()
        page.once("dialog", lambda dialog: dialog.dismiss())
        page.get_by_role("button", name="Cancel this trajectory").click()
        expect(page.get_by_text("waits for people")).to_be_visible()
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Cancel this trajectory").click()
        expect(page.get_by_text("The trajectory is cancelled.")).to_be_visible()
        expect(page.get_by_role("button", name="Cancel this trajectory")).to_have_count(0)
        expect(page.get_by_text("Nothing: what is known will not change by itself.")).to_be_visible()
        page.goto(f"{site.url}{case_path((run, 'y'))}")
        expect(page.get_by_text("waits for people")).to_be_visible()
        client.post(f"/v1/runs/{run}/trajectories/cancel", json={"ids": ["y"]}).raise_for_status()
        expect(page.get_by_text("Nothing: what is known will not change by itself.")).to_be_visible()


def test_a_case_tells_of_its_failure_and_attempts(page: Page, site: BrowserServer) -> None:
    item = act("mended", file="/nowhere/at/all")
    run = fresh()
    with site.client() as client:
        client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
        submit(client, run, item)
    site.signed_in(page, "operator", case_path((run, item["id"])))
    expect(page.get_by_role("region", name="Checks").first).to_contain_text("not_mended")
    page.get_by_text("attempt at fast/0").or_(page.get_by_text("attempts at fast/0")).first.click()
    expect(page.get_by_role("columnheader", name="Worker")).to_be_visible()
    page.keyboard.press("u")
    expect(page.get_by_role("heading", name=run)).to_be_visible()


def test_candidates_are_drawn_as_on_the_desk(page: Page, site: BrowserServer) -> None:
    run = fresh()
    water = "3\nwater\nO 0 0 0.12\nH 0 0.76 -0.48\nH 0 -0.76 -0.48\n"
    with site.client() as client:
        shapes, molecules = judged_by_people(client, "geometry", "xyz"), judged_by_people(client)
        submit(client, run, {"id": "water", "ladder": shapes, "answer": water}, until="fast")
        submit(client, run, {"id": "ethanol", "ladder": molecules, "answer": "OCC"}, until="fast")
    site.signed_in(page, "operator", case_path((run, "ethanol")))
    drawing = page.get_by_role("img", name="Drawing of the molecule OCC")
    expect(drawing).to_be_visible()
    assert drawing.evaluate("image => image.naturalWidth") > 0
    axe_in_both_themes(page)
    page.goto(f"{site.url}{case_path((run, 'water'))}")
    page.get_by_text("Atoms and coordinates").first.click()
    expect(page.get_by_role("cell", name="0.7600", exact=True)).to_be_visible()
    expect(page.get_by_text("H2O")).to_be_visible()
    axe_in_both_themes(page)


def test_ids_that_are_none_are_refused_in_words(page: Page, site: BrowserServer) -> None:
    site.signed_in(page, "operator", f"/ui/runs/{fresh()}/trajectories/t")
    for strange in ("%F0%9F%A7%AA", "%3Cscript%3E", "a%00b", "x" * 201):
        answer = page.request.get(f"{site.url}/ui/runs/r/trajectories/{strange}")
        assert answer.status == 422
        assert "<script>" not in answer.text().replace('<script src="/ui/static', "")
    assert page.request.get(f"{site.url}/ui/runs/no%2Frun/trajectories/no%2Fone").status == 404
