"""Pages of operators: runs with their panels, and a dead letter that is asked again."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.people import BrowserServer, axe_in_both_themes
from tests.support import server
from tests.support.server import JUDGED, act, fresh, submit


def dead_letter(site: BrowserServer, run: str, file: Path) -> str:
    """A trajectory whose check fails until the file is there."""
    item = act("mended", file=str(file))
    with site.client() as client:
        client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
        submit(client, run, item, act("ok"))
    return str(item["id"])


def test_an_operator_retries_a_dead_letter(page: Page, site: BrowserServer, tmp_path: Path) -> None:
    run, file = fresh(), tmp_path / "repaired"
    id = dead_letter(site, run, file)
    file.touch()
    site.signed_in(page, "operator", "/ui/operations")
    axe_in_both_themes(page)
    row = page.get_by_role("row", name=id)
    expect(row).to_contain_text("not_mended")
    page.get_by_role("checkbox", name=f"Retry the check of {id}").check()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Retry those ticked").click()
    expect(page.get_by_text("1 checks asked again.")).to_be_visible()
    expect(page.get_by_role("row", name=id)).to_have_count(0)
    with site.client() as client:
        body = {"ids": [id], "wait": {"until": "final", "seconds": 20}}
        [record] = client.post(f"/v1/runs/{run}/rewards/query", json=body).json()["records"]
    assert record["reward"] == 1.0


def test_a_run_shows_its_figures(page: Page, site: BrowserServer, tmp_path: Path) -> None:
    run = fresh()
    id = dead_letter(site, run, tmp_path / "never")
    site.signed_in(page, "operator", "/ui/runs")
    expect(page.get_by_role("row", name="high fidelity")).to_be_visible()
    axe_in_both_themes(page)
    page.get_by_role("link", name=run, exact=True).click()
    expect(page.get_by_role("img", name="Checks by tier and state")).to_be_visible()
    expect(page.get_by_role("img", name="Rewards by status")).to_be_visible()
    axe_in_both_themes(page)
    page.get_by_label("Status", exact=True).select_option("unscored")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("row", name=id)).to_contain_text("unscored")


def test_stuck_checks_are_paged_and_what_is_ticked_is_kept(
    page: Page, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The page renews itself meanwhile, but not what somebody is filling in."""
    run, folder = fresh(), tmp_path_factory.mktemp("stuck")
    with server.running(folder, embedded_workers="false") as alone:
        site = BrowserServer(alone)
        with site.client() as client:
            client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
            items = [act("ok", n=n) | {"id": f"of/{n:02}"} for n in range(60)]
            body = {"trajectories": items}
            client.post(f"/v1/runs/{run}/trajectories", json=body).raise_for_status()
        site.signed_in(page, "operator", "/ui/operations")
        expect(page.get_by_text("60 of hostile")).to_be_visible()
        boxes = page.get_by_role("checkbox")
        expect(boxes).to_have_count(50)
        axe_in_both_themes(page)
        page.get_by_role("link", name="More stuck checks").click()
        expect(boxes).to_have_count(10)
        name = boxes.first.get_attribute("aria-label") or ""
        boxes.first.check()
        with page.expect_response("**/ui/operations/workers"):
            page.get_by_role("heading", name="Operations", exact=True).click()
        expect(boxes.first).to_be_checked()
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Cancel those ticked").click()
        expect(page.get_by_text("1 checks cancelled.")).to_be_visible()
        expect(page.get_by_text("59 of hostile")).to_be_visible()
        page.get_by_role("link", name="More stuck checks").click()
        expect(page.get_by_role("checkbox", name=name, exact=True)).to_have_count(0)
        page.get_by_role("link", name="of/").first.click()
        expect(page.get_by_text("is queued, but")).to_be_visible()
