"""Parts of a machine that are broken: drawings that take for ever or all memory, identities that failed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.desks import desk, reviewer
from tests.browser.people import BrowserServer, axe_in_both_themes
from tests.support import server, slow_drawings, unidentified
from tests.support.server import patience

PLUGINS = (*server.PLUGINS, unidentified.__name__)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserServer]:
    folder = tmp_path_factory.mktemp("broken")
    module = slow_drawings.__name__
    with server.running(folder, module=module, plugins=json.dumps(PLUGINS)) as running:
        yield BrowserServer(running)


def test_a_drawing_that_is_killed_is_told_and_others_are_served(page: Page, broken: BrowserServer) -> None:
    made = desk(broken, slow_drawings.ENDLESS, slow_drawings.GREEDY, "CCO")
    by = {made.read(review)["candidate"]: review for review in made.items.values()}
    endless, greedy, usual = by[slow_drawings.ENDLESS], by[slow_drawings.GREEDY], by["CCO"]
    reviewer(broken, page)
    other = page.context.new_page()
    other.goto(f"{broken.url}{made.path(usual)}")
    expect(other.get_by_text("C2H6O", exact=True)).to_be_visible()
    page.goto(f"{broken.url}{made.path(endless)}", wait_until="commit")
    begun = time.monotonic()
    assert other.request.get(f"{broken.url}/ui/drawings/molecule?smiles=CCCl").text().count("C2H5Cl") == 1
    assert time.monotonic() - begun < patience(30.0)
    expect(other.get_by_text("46.07 g/mol")).to_be_visible()
    expect(other.get_by_role("img", name="Drawing of the molecule CCO")).to_be_visible()
    expect(page.get_by_text("There is no drawing of it: drawing it took too long.")).to_be_visible()
    expect(page.get_by_role("button", name="Claim this item")).to_be_enabled()
    axe_in_both_themes(page)
    other.goto(f"{broken.url}{made.path(greedy)}")
    expect(
        other.get_by_text("There is no drawing of it: it takes too much memory to draw.")
    ).to_be_visible()
    other.close()
    children = [one for one in broken.server.children() if slow_drawings.CHILD in one.cmdline()]
    assert all(one.cpu_percent(0.1) < 50 for one in children), "what was given up draws no more"


def test_a_failed_identity_is_asked_again(page: Page, broken: BrowserServer, tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    made = desk(broken, f"OCC{unidentified.MARK}{mended}")
    broken.signed_in(page, "operator", "/ui/operations")
    row = page.get_by_role("row").filter(has_text=made.run)
    expect(row).to_contain_text("molecule.identify")
    expect(row).to_contain_text("not_mended")
    mended.touch()
    row.get_by_role("checkbox").check()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Retry those ticked").click()
    expect(page.get_by_text("1 checks asked again.")).to_be_visible()
    expect(row).to_have_count(0)
    end = time.monotonic() + patience(60.0)
    with broken.client() as client:
        while (found := identity_of(client.get(f"/v1/runs/{made.run}/trajectories/t0").json())) is None:
            assert time.monotonic() < end
            time.sleep(0.1)
    assert found == "CCO"


def identity_of(case: dict[str, object]) -> str | None:
    """The canonical form that the case has by now."""
    for one in case["demands"]:  # type: ignore[attr-defined]
        check = one["check"] or {}
        if check.get("verifier") == "molecule.identify" and check["evidence"]:
            return str(check["evidence"]["identity"]["canonical"])
    return None
