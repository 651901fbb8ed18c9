"""Webhooks on the page *Operations*: what was sent, what was given up, and sending it again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.people import BrowserServer, axe_in_both_themes
from tests.support import server
from tests.support.receivers import Receiver, receiver
from tests.support.server import fresh, identity, patience, submit

SETTINGS = {"webhook_http": "true", "webhook_allow": "127.0.0.1", "webhook_schedule_s": "0.1"}
PLANTED = "<script>window.planted = 1</script>\"'"


@pytest.fixture(scope="module")
def telling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserServer]:
    """A server that gives a delivery up soon."""
    with server.running(tmp_path_factory.mktemp("telling"), **SETTINGS) as running:
        yield BrowserServer(running)


@pytest.fixture
def taker() -> Iterator[Receiver]:
    with receiver() as taker:
        yield taker


def registered(site: BrowserServer, taker: Receiver, **wanted: Any) -> str:
    """The id of a new webhook."""
    with site.client() as client:
        answer = client.post("/v1/webhooks", json={"url": f"{taker.url}/secret-path", **wanted})
        body = answer.raise_for_status().json()
    taker.secrets.append(body["secret"])
    return str(body["webhook"]["id"])


def deliveries(site: BrowserServer, webhook: str, state: str, count: int) -> list[dict[str, Any]]:
    """The deliveries in a state, once there are so many."""
    end = time.monotonic() + patience(60.0)
    with site.client() as client:
        while True:
            answer = client.get(f"/v1/webhooks/{webhook}/deliveries", params={"state": state})
            found: list[dict[str, Any]] = answer.raise_for_status().json()["deliveries"]
            if len(found) >= count:
                return found
            assert time.monotonic() < end, found
            time.sleep(0.1)


def test_what_was_given_up_is_sent_again(page: Page, telling: BrowserServer, taker: Receiver) -> None:
    taker.status = 500
    run = fresh("run/of")
    webhook = registered(telling, taker, description=PLANTED)
    with telling.client() as client:
        submit(client, run.replace("/", "%2F"), identity("CCO"), identity("CCN"))
    given_up = deliveries(telling, webhook, "failed", 2)
    telling.signed_in(page, "operator", "/ui/operations")
    row = page.get_by_role("row").filter(has_text=PLANTED)
    expect(row).to_contain_text("failed")
    expect(row).not_to_contain_text("secret-path")
    axe_in_both_themes(page)
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Deliveries, newest first")).to_be_visible()
    axe_in_both_themes(page)
    taker.status = 204
    chosen = given_up[0]
    again = page.get_by_role("button", name=f"Send record {chosen['seq']} of {run} again", exact=True)
    page.once("dialog", lambda dialog: dialog.accept())
    again.click()
    expect(page.get_by_text(f"Record {chosen['seq']} of {run} is due again.")).to_be_visible()
    [sent] = taker.await_records(1).values()
    assert sent == (run, chosen["seq"])
    expect(page.get_by_role("row", name=f"{run}, {chosen['seq']}")).to_contain_text("delivered")
    page.get_by_label("Run", exact=True).fill(run)
    page.get_by_label("Up to record").fill(str(max(one["seq"] for one in given_up)))
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Send again", exact=True).click()
    left = len(given_up) - 1
    expect(page.get_by_text(f"{left} records are due again.")).to_be_visible()
    assert len(taker.await_records(len(given_up))) == len(given_up)
    page.get_by_label("State").select_option("failed")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text("None.")).to_be_visible()
    assert page.evaluate("window.planted") is None


def test_admins_see_the_whole_address_and_what_is_not_there_is_refused(
    page: Page, telling: BrowserServer, taker: Receiver
) -> None:
    run, other = fresh(), fresh()
    webhook = registered(telling, taker, run=run)
    with telling.client() as client:
        submit(client, run, identity("CCO"))
        submit(client, other, identity("CCO"))
    [sent, *_] = deliveries(telling, webhook, "delivered", 1)
    path = f"/ui/operations/webhooks/{webhook}"
    telling.signed_in(page, "admin", path)
    expect(page.get_by_role("heading", name="secret-path")).to_be_visible()
    token = page.locator("input[name=csrf]").first.get_attribute("value") or ""
    for form, status in (
        ({"run": run, "seq": str(sent["seq"] + 50)}, 409),
        ({"run": other, "seq": "1"}, 409),
        ({"run": "absent", "seq": "1"}, 404),
        ({"run": run, "seq": "0"}, 422),
        ({"run": run, "seq": str(2**70)}, 422),
        ({"run": "\N{TEST TUBE}", "seq": "1"}, 422),
    ):
        answer = page.request.post(f"{telling.url}{path}/again", form={"csrf": token, **form})
        assert answer.status == status, (form, answer.text()[:2_000])
    wrong: tuple[dict[str, str], ...] = ({"run": other}, {"run": run, "until": "0"}, {"after": "0"})
    for form in wrong:
        answer = page.request.post(f"{telling.url}{path}/replay", form={"csrf": token, **form})
        assert answer.status == 422, form
    assert page.request.get(f"{telling.url}{path}?before={2**70}").status == 422
    assert page.request.get(f"{telling.url}{path}/deliveries?state=odd").status == 422


def test_a_page_of_operations_renews_itself(page: Page, telling: BrowserServer, taker: Receiver) -> None:
    telling.signed_in(page, "operator", "/ui/operations")
    webhook = registered(telling, taker, description=json.dumps(fresh("shown")))
    expect(page.get_by_role("link", name="127.0.0.1").first).to_be_visible()
    with telling.client() as client:
        found = client.get(f"/v1/webhooks/{webhook}").json()["description"]
    expect(page.get_by_role("row").filter(has_text=found)).to_be_visible()
