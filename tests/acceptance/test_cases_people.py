"""Cases of people and laboratories that were reported elsewhere (area 8: svc-09 and svc-11)."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.browser.desks import Desk, desk
from tests.browser.people import BrowserServer
from tests.support import server

PLACES = {"4": "duplicate_row", "5": "implausible", "6": "formula", "7": "not_a_number"}


@pytest.fixture(scope="module")
def site() -> BrowserServer:
    return BrowserServer(server.shared())


@pytest.fixture(scope="module")
def http(site: BrowserServer) -> Iterator[httpx.Client]:
    with site.client() as client:
        yield client


def decided(http: httpx.Client, made: Desk, verdict: str) -> httpx.Response:
    """What u1 says."""
    reason = "" if verdict == "accept" else "no"
    said = {"reviewer": "u1", "verdict": verdict, "reason": reason}
    return http.post(f"/v1/reviews/{made.first}/decision", json=said)


def test_svc_09_a_reviewer_who_submits_twice_has_one_vote(site: BrowserServer, http: httpx.Client) -> None:
    made = desk(site, "CCO", approvals=2)
    wanted = {"reviewer": "u1", "review": made.first}
    http.post("/v1/reviews/claim", json=wanted).raise_for_status()
    first, again, other = (decided(http, made, verdict) for verdict in ("accept", "accept", "reject"))
    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 409)
    assert first.json()["review"]["votes"] == again.json()["review"]["votes"]
    assert other.json()["code"] == "already_decided"
    assert [vote["verdict"] for vote in made.votes()] == ["accept"]
    trail = http.get("/v1/reviews/trail", params={"review": made.first}).json()["events"]
    assert [one["kind"] for one in trail].count("voted") == 1, "the history is kept, and tells of one vote"


def sent(http: httpx.Client, text: str, **wanted: Any) -> dict[str, Any]:
    """What became of a file."""
    file = {"name": "results.csv", "content": base64.b64encode(text.encode()).decode()}
    body = {"file": file, "all_or_nothing": False, **wanted}
    answer: dict[str, Any] = http.post("/v1/lab-results", json=body).raise_for_status().json()
    return answer


def test_svc_11_a_file_of_another_dialect_is_read_row_by_row(
    site: BrowserServer, http: httpx.Client
) -> None:
    a1, a2, a4 = ("CCCCCCCCCCC(F)Cl", "CCCCCCCCCCC(F)Br", "CCCCCCCCCCC(Cl)Br")
    made = desk(site, a1, a2, a4, quantity={"name": "yield", "unit": "%"})
    by = {made.read(review)["candidate"]: review for review in made.items.values()}
    text = (
        f'\ufeffcompound_id;yield_pct;note\r\n{a1};12,5;"line1\nline2; still"\r\n{a1};12,5;dup\r\n'
        f"{a2};1.234,50;x\r\n=cmd();3;\r\n{a4};n/a;\r\n"
    )
    tried = sent(http, text, dry_run=True)
    assert tried["state"] == "dry_run"
    assert {str(row["line"]): row["errors"][0]["code"] for row in tried["rows"] if row["errors"]} == PLACES
    assert [row["line"] for row in tried["rows"]] == [2, 4, 5, 6, 7], "a line number for every row"
    assert made.read(by[a1])["state"] == "open", "nothing is imported by a dry run"
    done = sent(http, text)
    assert (done["state"], done["created"], done["counts"]["accepted"]) == ("imported", True, 1)
    [value] = done["values"]
    assert (value["review"], value["measurements"][0]["value"]) == (by[a1], 12.5)
    made.until("effective", by[a1])
    assert [made.read(by[one])["state"] for one in (a2, a4)] == ["open", "open"]
    again = sent(http, text)
    assert (again["id"], again["created"]) == (done["id"], False), "the same file again does nothing"
    versions = http.get("/v1/lab-results", params={"check": value["check"]}).json()["versions"]
    assert len(versions) == 1
