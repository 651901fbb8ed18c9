"""The page *Trust*: a run with pairs that were compared, an alarm that is cleared, reviewers who differ."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.desks import api_vote, desk
from tests.browser.people import BrowserServer, axe_in_both_themes
from tests.support import noisy, server
from tests.support.noisy_story import PLUGINS, children
from tests.support.story import Story

RUN, GAMED = "learned/run", "gamed"


def items(n: int, seed: int, end: str = "") -> list[dict[str, Any]]:
    """Candidates of the noisy ladder."""
    rng = random.Random(seed)
    return [
        {
            "id": f"{seed}-{at}",
            "ladder": "noisy",
            "answer": f"{rng.random():.4f} {rng.random():.4f}{end}",
        }
        for at in range(n)
    ]


def learned(folder: Path) -> None:
    """A policy that is honest at first, and then games what the cheap tier looks at."""
    with children() as harness:
        told = Story(folder, harness, noisy.LADDER, plugins=PLUGINS)
        play(told, "teaches", items(64, 1))
        told.put_run(RUN, audit_share=1.0)
        play(told, RUN, items(100, 3), each=50)
        play(told, RUN, items(80, 4, f" {GAMED}"), each=80)
        told.close()


def play(told: Story, run: str, batch: list[dict[str, Any]], each: int = 24) -> None:
    """Submit in portions, and learn after each."""
    for start in range(0, len(batch), each):
        told.submit(run, *batch[start : start + each])
        told.rest(400)
        told.sweep._learner._rests.clear()
        told.sweep._learner._fitted_at.clear()


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserServer]:
    """A server on what the story left."""
    folder = tmp_path_factory.mktemp("trusted")
    with ThreadPoolExecutor(1) as alone:  # away from the event loop of the browser
        alone.submit(learned, folder).result()
    plugins = json.dumps([*server.PLUGINS, *PLUGINS])
    with server.running(folder, review_grace_s="0.2", plugins=plugins) as running:
        yield BrowserServer(running)


def test_figures_alarm_and_reviewers(page: Page, trusted: BrowserServer) -> None:
    made = desk(trusted, "CCO", "CCN", approvals=2)
    first, second = made.items.values()
    for review, verdicts in ((first, ("accept", "accept")), (second, ("reject", "reject"))):
        for name, verdict in zip(("ann", "bob"), verdicts, strict=True):
            api_vote(made, name, verdict, review=review)
        made.until("effective", review)
    trusted.signed_in(page, "operator", "/ui/runs")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", name="Trust", exact=True)).to_be_visible()
    page.get_by_label("Run", exact=True).select_option(RUN)
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("img", name="Bias by pair of tiers and build")).to_be_visible()
    expect(page.get_by_role("img", name="Coverage by pair of tiers and build")).to_be_visible()
    # By which of its levels a candidate reached the truth depends on what was learned when.
    name = re.compile("Reliability of noisy: (fast|simulation) foretells high fidelity, by ")
    expect(page.get_by_role("img", name=name).first).to_be_visible()
    expect(page.get_by_text("From the first to the second half")).to_be_visible()
    expect(page.get_by_role("img", name=f"How often reviewers of {made.queue} are wrong")).to_be_visible()
    expect(
        page.get_by_role("paragraph").filter(has_text="Cohen's kappa is 1 over 2 items.")
    ).to_be_visible()
    page.get_by_text("The figures as a table").first.click()
    expect(page.get_by_role("columnheader", name="rmse")).to_be_visible()
    axe_in_both_themes(page)


def test_an_alarm_is_cleared_after_a_question(page: Page, trusted: BrowserServer) -> None:
    with trusted.client() as client:
        standing = [one for one in client.get("/v1/alarms").json()["alarms"] if not one.get("cleared_at")]
    assert standing, "the story raised none"
    trusted.signed_in(page, "operator", "/ui/trust")
    clear = page.get_by_role("button", name="Clear the alarm of noisy")
    expect(clear).to_have_count(len(standing))
    page.once("dialog", lambda dialog: dialog.dismiss())
    clear.first.click()
    expect(clear).to_have_count(len(standing))
    page.once("dialog", lambda dialog: dialog.accept())
    clear.first.click()
    expect(page.get_by_text("The alarm of noisy is cleared.")).to_be_visible()
    expect(clear).to_have_count(len(standing) - 1)
    with trusted.client() as client:
        left = [one for one in client.get("/v1/alarms").json()["alarms"] if not one.get("cleared_at")]
    assert len(left) == len(standing) - 1


def test_leads_see_the_agreement_and_no_more(page: Page, trusted: BrowserServer) -> None:
    trusted.signed_in(page, "lead", "/ui/desk")
    page.get_by_role("link", name="Agreement of reviewers").click()
    expect(page.get_by_role("heading", name="Agreement of reviewers")).to_be_visible()
    axe_in_both_themes(page)
    assert page.request.get(f"{trusted.url}/ui/trust/reviewers").status == 403
    assert page.request.get(f"{trusted.url}/ui/trust").status == 403
