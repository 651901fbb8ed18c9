"""What a file may not do: judge for somebody without the right, answer the sender's own submissions, or
tell gold items from others."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.integration.test_api_desk import claim, person, told, waiting
from tests.support import server
from tests.support.markets import forecast
from tests.support.server import Server, fresh, patience
from tests.support.surfing import newcomer, surfer


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server.running(tmp_path_factory.mktemp("senders"), review_grace_s="0") as running:
        yield running


@pytest.fixture
def http(running: Server) -> Iterator[httpx.Client]:
    with running.client() as client:
        yield client


def told_of(
    caller: httpx.Client, *rows: dict[str, Any], dry_run: bool = False
) -> list[tuple[str, list[str]]]:
    """What became of rows, and why."""
    answer = caller.post("/v1/lab-results", json={"rows": rows, "dry_run": dry_run}).raise_for_status()
    return [(row["status"], [error["code"] for error in row["errors"]]) for row in answer.json()["rows"]]


def test_nobody_answers_what_they_submitted(http: httpx.Client, running: Server) -> None:
    with person(http, running, "ann", "submit", "review", "operate") as ann:
        _, [review] = waiting(http, by=ann)
        measured = {"review": review, "quantity": "logP", "value": 1.5, "unit": "1"}
        for row in (measured, {"review": review, "verdict": "accept"}):
            assert told_of(ann, row) == [("refused", ["own_submission"])]
        assert review not in ann.get("/v1/lab-requests").text
        assert review in http.get("/v1/lab-requests").text
    assert http.get(f"/v1/reviews/{review}").json()["state"] == "open"
    with person(http, running, "bob", "review", "operate") as bob:
        assert told_of(bob, measured) == [("accepted", [])]


def test_the_key_of_a_reviewer_sends_no_files_and_sees_no_worklist(
    http: httpx.Client, running: Server
) -> None:
    _, [review] = waiting(http)
    with person(http, running, "bob", "review") as bob:
        row = {"review": review, "verdict": "accept"}
        for dry_run in (True, False):
            sent = bob.post("/v1/lab-results", json={"rows": [row], "dry_run": dry_run})
            assert told(sent)[:2] == (403, "missing_scope")
        for path in ("/v1/lab-requests", "/v1/lab-results/any", f"/v1/lab-results?check={'0' * 64}"):
            assert told(bob.get(path))[:2] == (403, "missing_scope"), path


def test_a_key_that_only_reviews_measures_and_neither_judges_nor_settles(
    http: httpx.Client, running: Server
) -> None:
    _, [review] = waiting(http)
    made = (
        http.post("/v1/keys", json={"name": fresh("lab"), "scopes": ["review"]}).raise_for_status().json()
    )
    headers = {"Authorization": f"Bearer {made['token']}"}
    measured = {"review": review, "quantity": "logP", "value": 1.5, "unit": "1"}
    with httpx.Client(base_url=running.url, headers=headers, timeout=60) as lab:
        assert told_of(lab, measured | {"verdict": "accept"}) == [("refused", ["may_not_judge"])]
        assert told_of(lab, measured | {"unit": "grade"}) == [("refused", ["may_not_judge"])]
        assert told_of(lab, {"event": fresh("event"), "actual": "yes"}) == [("refused", ["may_not_settle"])]
        assert told_of(lab, measured) == [("accepted", [])]


def test_a_verdict_by_file_is_in_the_trail_and_doubted(http: httpx.Client, running: Server) -> None:
    queue, [review] = waiting(http)
    name = fresh("eve")
    with person(http, running, name, "review", "operate") as eve:
        sent = eve.post("/v1/lab-results", json={"rows": [{"review": review, "verdict": "accept"}]})
        again = {"rows": [{"review": review, "verdict": "reject", "reason": "impure"}]}
        amended = eve.post("/v1/lab-results", json=again)
    assert (sent.status_code, amended.status_code) == (201, 201)
    trail = http.get("/v1/reviews/trail", params={"actor": name}).raise_for_status().json()["events"]
    keys = {one["id"] for one in http.get("/v1/keys").json()["keys"] if one["owner"] == name}
    assert [(one["kind"], one["review"], one["queue"]) for one in trail] == [
        ("answered", review, queue),
        ("amended", review, queue),
    ]
    assert {one["key"] for one in trail} == keys
    first, second = (one["detail"] for one in trail)
    assert (first["import"], first["verdict"]) == (sent.json()["id"], "accept")
    assert (second["import"], second["verdict"], second["reason"]) == (
        amended.json()["id"],
        "reject",
        "impure",
    )


def test_what_became_of_an_event_is_in_the_trail(http: httpx.Client, running: Server) -> None:
    name, event = fresh("una"), fresh("event")
    with person(http, running, name, "review", "operate") as una:
        assert told_of(una, {"event": event, "actual": "yes"}) == [("accepted", [])]
    [act] = http.get("/v1/reviews/trail", params={"actor": name}).json()["events"]
    assert (act["kind"], act["detail"]["events"]) == ("answered", [event])


def test_who_forecast_an_event_does_not_settle_it(http: httpx.Client, running: Server) -> None:
    ladder = {
        "name": fresh("asked"),
        "candidate": {"kind": "forecast", "format": "json", "from": "answer"},
        "outcome": {"use": "market.settlement"},
        "truth": "lab",
        "tiers": {"lab": [{"use": "market.settlement"}]},
    }
    http.put(f"/v1/ladders/{ladder['name']}", json=ladder).raise_for_status()
    event, close = fresh("rain"), datetime.fromtimestamp(time.time() + 3_600, tz=UTC).isoformat()
    item = forecast(event, 0.8, id=event, close=close) | {"ladder": ladder["name"]}
    name = fresh("kai")
    with person(http, running, name, "submit", "review", "operate") as kai:
        kai.post(f"/v1/runs/{fresh()}/trajectories", json={"trajectories": [item]}).raise_for_status()
        end = time.monotonic() + patience(20)
        row = {"event": event, "actual": "yes"}
        while (found := told_of(kai, row, dry_run=True)) == [("accepted", [])]:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert found == [("refused", ["own_submission"])]
    assert told_of(http, row, dry_run=True) == [("accepted", [])]


def test_an_operators_page_takes_measurements_and_no_verdicts(http: httpx.Client, running: Server) -> None:
    _, [review, other] = waiting(http, 2)
    for role, expected in (("operator", "may_not_judge"), ("admin", None)):
        who = surfer(running, role)
        row = f"review,verdict\n{review},accept\n".encode()
        shown = who.http.post(
            "/ui/lab/results",
            data={"csrf": who.token("/ui/lab"), "mode": "all"},
            files={"file": ("a.csv", row, "text/csv")},
            headers={"HX-Request": "true"},
        ).text
        assert ("no verdicts" in shown) == (expected is not None)
    assert re.search("1 row would be imported", shown)
    assert http.get(f"/v1/reviews/{review}").json()["state"] == "open"
    assert other


def _answers(bob: httpx.Client, login: str, item: dict[str, Any]) -> str:
    """How rows on an item are answered while it is held, and after it was given back."""
    rows: tuple[dict[str, Any], ...] = (
        {"review": item["id"], "verdict": "accept"},
        {"review": item["id"], "candidate": item["candidate"], "verdict": "accept"},
        {"review": item["id"], "candidate": "CCN(C)C=O", "verdict": "accept"},
        {"review": item["id"], "quantity": "q", "value": 1, "unit": "eV"},
        {"candidate": item["candidate"], "verdict": "accept"},
        {"review": item["id"], "run": "r", "trajectory": "t", "verdict": "accept"},
    )
    held = [told_of(bob, row, dry_run=True) for row in rows]
    bob.post(f"/v1/reviews/{item['id']}/release", json={"reviewer": login}).raise_for_status()
    return repr((held, [told_of(bob, row, dry_run=True) for row in rows]))


def test_rows_on_gold_items_are_answered_like_others(http: httpx.Client, running: Server) -> None:
    queue, _ = waiting(http, 2, gold_share=0.5)
    for at in range(2):
        shown = {"candidate": f"known {at}", "ladder": queue}
        gold = {"id": f"{queue}{at}", "queue": queue, "shown": shown, "expected": {"verdict": "accept"}}
        http.post("/v1/reviews/gold", json=gold).raise_for_status()
    said: dict[bool, list[str]] = {True: [], False: []}
    login = newcomer(running, "reviewer")
    with person(http, running, login, "review", "operate") as bob:
        for _ in range(100):
            item = claim(bob, login, queue=queue)
            assert item is not None
            gold_one = item["candidate"].startswith("known")
            said[gold_one].append(_answers(bob, login, item))
            if gold_one:  # which is kept for this reviewer
                claim(bob, login, review=item["id"])
                skip = {"reviewer": login, "reason": "seen", "for": "me"}
                bob.post(f"/v1/reviews/{item['id']}/skip", json=skip).raise_for_status()
            if all(said.values()):
                break
    assert said[True]
    assert said[False]
    assert len({*said[True], *said[False]}) == 1
    assert "check_claimed" in said[True][0]
    assert "accepted" in said[True][0]


def test_a_file_that_answers_a_gold_item_does_so_as_of_any_other(
    http: httpx.Client, running: Server
) -> None:
    queue, _ = waiting(http, 1, gold_share=0.5)
    gold = {"id": queue, "queue": queue, "shown": {"candidate": "known"}, "expected": {"verdict": "accept"}}
    http.post("/v1/reviews/gold", json=gold).raise_for_status()
    login = newcomer(running, "reviewer")
    with person(http, running, login, "review", "operate") as bob:
        for _ in range(100):
            item = claim(bob, login, queue=queue)
            bob.post(f"/v1/reviews/{item['id']}/release", json={"reviewer": login}).raise_for_status()
            if item["candidate"] == "known":
                break
        assert item["candidate"] == "known"
        assert told_of(bob, {"review": item["id"], "verdict": "accept"}) == [("accepted", [])]
    assert http.get(f"/v1/reviews/{item['id']}").json()["state"] == "effective"
