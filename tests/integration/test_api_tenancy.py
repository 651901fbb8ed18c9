"""Runs, groups, ladders, the catalogue and the desk over HTTP."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support import server
from tests.support.server import JUDGED, act, fresh, identity, submit


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with server.shared().client() as client:
        yield client


def soon(found: Callable[[], Any], seconds: float = 10.0) -> Any:
    until = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)
    return value


def test_a_run_is_declared_changed_and_listed(client: httpx.Client) -> None:
    run = fresh()
    spec = {"budgets": {"compute": 5, "human": 0}, "horizon": {"trajectories": 100}, "on_close": "drain"}
    created = client.put(f"/v1/runs/{run}", json=spec)
    assert created.status_code == 201
    stored = created.json()["run"]
    assert stored["spec"]["budgets"] == {"compute": 5.0, "human": 0.0}
    assert {account["kind"]: account["limit"] for account in stored["accounts"]} == {
        "compute": 5.0,
        "human": 0.0,
    }
    changed = client.put(f"/v1/runs/{run}", json={"budgets": {"compute": 9}})
    assert changed.status_code == 200
    assert changed.json()["run"]["spec"]["budgets"] == {"compute": 9.0, "human": None}
    assert client.get(f"/v1/runs/{run}").json()["run"] == changed.json()["run"]
    assert client.get("/v1/runs").json()["runs"][0]["id"] == run


@pytest.mark.parametrize(
    "spec",
    [
        {"budgets": {"compute": -1}},
        {"budgets": {"compute": "5"}},
        {"horizon": {"until": "tomorrow"}},
        {"objective": "fame"},
        {"audit_share": 1.5},
        {"budget": {}},
        [],
    ],
)
def test_a_strange_run_is_refused(client: httpx.Client, spec: Any) -> None:
    answer = client.put(f"/v1/runs/{fresh()}", json=spec)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_report_counts(client: httpx.Client) -> None:
    run = fresh()
    submit(client, run, identity("CCO"), identity("C"), identity("not a molecule"), act("raise_permanent"))
    report = client.get(f"/v1/runs/{run}").json()
    assert report["trajectories"] == 4
    assert report["statuses"] == {"final": 3, "unscored": 1}
    fast = report["tiers"][0]
    assert fast["tier"] == "fast"
    assert fast["succeeded"] > 0
    assert fast["failed"] == 1
    assert report["run"]["accounts"][0]["spent"] > 0


def test_closing_finalises_and_is_idempotent(client: httpx.Client) -> None:
    run = fresh()
    item = identity("CCO") | {"ladder": "reviewed"}
    submit(client, run, item, until="fast")
    closed = client.post(f"/v1/runs/{run}/close", params={"wait": 20})
    assert closed.status_code == 200
    assert closed.json()["run"]["state"] == "closed"
    assert closed.json()["statuses"] == {"final": 1}
    assert client.post(f"/v1/runs/{run}/close").status_code == 200
    assert client.post(f"/v1/runs/{fresh()}/close").status_code == 404


def test_closing_without_a_wait_says_202(client: httpx.Client) -> None:
    run = fresh()
    client.put(f"/v1/runs/{run}", json={}).raise_for_status()
    answer = client.post(f"/v1/runs/{run}/close")
    assert answer.status_code in (200, 202)
    soon(lambda: client.get(f"/v1/runs/{run}").json()["run"]["state"] == "closed")


def test_advantages_of_a_group(client: httpx.Client) -> None:
    run = fresh()
    items = [identity(answer, "CCO", group="g", group_size=4) for answer in ("CCO", "CCC", "OCC", "CC")]
    submit(client, run, *items)
    found = client.get(f"/v1/runs/{run}/groups/g").json()
    assert (found["mean"], found["std"], found["valid"], found["expected"]) == (0.5, 0.5, 4, 4)
    assert found["complete"] is True
    advantages = {member["trajectory"]: member["advantage"] for member in found["members"]}
    assert [advantages[item["id"]] for item in items] == pytest.approx([1, -1, 1, -1], abs=1e-4)
    rloo = client.get(f"/v1/runs/{run}/groups/g", params={"estimator": "rloo", "ddof": 1}).json()
    assert rloo["std"] == pytest.approx(math.sqrt(1 / 3))
    assert [abs(member["advantage"]) for member in rloo["members"]] == pytest.approx([2 / 3] * 4)
    assert client.get(f"/v1/runs/{run}/groups/g", params={"estimator": "best"}).status_code == 422
    assert client.get(f"/v1/runs/{run}/groups/g", params={"ddof": 2}).status_code == 422


def test_ladders_are_versions(client: httpx.Client) -> None:
    name = fresh("ladder")
    document = {**JUDGED, "name": name}
    path = f"/v1/ladders/{name}"
    assert client.get(path).status_code == 404
    first = client.put(path, json=document)
    assert (first.status_code, first.json()["created"], first.json()["ladder"]["version"]) == (201, True, 1)
    same = client.put(path, json=document)
    assert (same.status_code, same.json()["created"], same.json()["ladder"]["version"]) == (200, False, 1)
    changed = client.put(path, json={**document, "deadline_s": 60})
    assert (changed.status_code, changed.json()["ladder"]["version"]) == (201, 2)
    assert client.get(path).json()["version"] == 2
    assert client.get(path, params={"version": 1}).json() == first.json()["ladder"]
    assert first.json()["ladder"]["spec"]["candidate"]["from"] == "answer"
    assert client.get(path, params={"version": 3}).status_code == 404
    listed = {ladder["name"]: ladder["version"] for ladder in client.get("/v1/ladders").json()["ladders"]}
    assert listed[name] == 2
    assert listed["organic-gap"] == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (
            {"tiers": {"fast": [{"use": "nothing.known"}]}, "outcome": {"use": "nothing.known"}},
            "tiers.fast.0.use",
        ),
        ({"tiers": {"simulation": [{"use": "hostile"}]}, "truth": "simulation"}, "tiers.simulation.0"),
        (
            {"tiers": {"fast": [{"use": "hostile", "params": {"path": "/etc"}}]}},
            "tiers.fast.0.params.params.path",
        ),
        ({"truth": "lab"}, None),
        ({"tiers": {}}, "tiers"),
        ({"name": "another"}, "name"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_ladder_is_refused(client: httpx.Client, change: dict[str, Any], field: str | None) -> None:
    name = fresh("ladder")
    answer = client.put(f"/v1/ladders/{name}", json={**JUDGED, "name": name, **change})
    assert answer.status_code == 422, answer.text
    assert answer.json().get("field") == field


def test_the_catalogue_says_what_is_missing(client: httpx.Client) -> None:
    listed = {each["info"]["name"]: each for each in client.get("/v1/verifiers").json()["verifiers"]}
    assert listed["missing"]["unavailable"] == "needs the extra 'chem'"
    assert listed["molecule.identity"]["unavailable"] is None
    assert listed["pyscf.gap"]["params_schema"]["properties"]


def review_of(client: httpx.Client, run: str) -> dict[str, Any]:
    """A fresh item on the desk, for a molecule of this run alone."""
    item = identity("CCCO", "OCCC", inputs={"run": run}) | {"ladder": "reviewed"}
    submit(client, run, item, until="fast")
    found = soon(lambda: [each for each in desk(client) if each["inputs"].get("run") == run])
    review: dict[str, Any] = found[0]
    return review


def desk(client: httpx.Client) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = client.get(
        "/v1/reviews", params={"queue": "chemists", "state": "open", "limit": 1000}
    ).json()["reviews"]
    return listed


def test_a_review_from_the_desk_to_the_record(client: httpx.Client) -> None:
    run = fresh()
    review = review_of(client, run)
    assert review["ladder"] == "reviewed"
    assert "reference" not in str(review)
    claim = {"reviewer": "ann", "review": review["id"]}
    mine = client.post("/v1/reviews/claim", json=claim).json()["review"]
    assert (mine["id"], mine["state"], mine["claimed_by"]) == (review["id"], "claimed", "ann")
    theirs = client.post("/v1/reviews/claim", json={**claim, "reviewer": "bob"})
    assert theirs.status_code == 409
    path = f"/v1/reviews/{review['id']}"
    vote = {"reviewer": "ann", "verdict": "reject", "reason": "cannot be made"}
    assert client.post(f"{path}/decision", json={**vote, "reviewer": "bob"}).status_code == 409
    first = client.post(f"{path}/decision", json=vote)
    assert (first.status_code, first.json()["created"]) == (201, True)
    same = client.post(f"{path}/decision", json=vote)
    assert (same.status_code, same.json()["created"]) == (200, False)
    other = client.post(f"{path}/decision", json={**vote, "verdict": "accept"})
    assert other.status_code == 409
    assert len(client.get(path).json()["votes"]) == 1
    [record] = soon(
        lambda: client.get(f"/v1/runs/{run}/rewards", params={"status": "final"}).json()["records"]
    )
    assert (record["reward"], record["tier"]) == (0.0, "lab")
    assert record["reason"]["message"] == "cannot be made"
    assert client.get(path).json()["state"] == "effective"
    assert client.post(f"{path}/release", json={"reviewer": "ann"}).status_code == 409


def test_a_claim_is_given_back(client: httpx.Client) -> None:
    run = fresh()
    review = review_of(client, run)
    claim = {"reviewer": "ann", "review": review["id"]}
    client.post("/v1/reviews/claim", json=claim).raise_for_status()
    path = f"/v1/reviews/{review['id']}/release"
    assert client.post(path, json={"reviewer": "bob"}).status_code == 409
    assert client.post(path, json={"reviewer": "ann"}).json()["state"] == "open"
    assert client.post("/v1/reviews/claim", json={**claim, "reviewer": "bob"}).status_code == 200
    client.post(f"/v1/runs/{run}/close", params={"wait": 10}).raise_for_status()


def test_two_people_never_get_one_item_and_an_empty_desk_gives_null(client: httpx.Client) -> None:
    runs = [fresh() for _ in range(4)]
    wanted = {review_of(client, run)["id"] for run in runs}

    def claim(number: int) -> Any:
        body = {"reviewer": f"r{number}", "queue": "chemists"}
        return client.post("/v1/reviews/claim", json=body).json()["review"]

    with ThreadPoolExecutor(16) as pool:
        claimed = [review["id"] for review in pool.map(claim, range(40)) if review is not None]
    assert len(claimed) == len(set(claimed))
    assert wanted <= set(claimed)
    assert claim(99) is None
    nothing = client.post("/v1/reviews/claim", json={"reviewer": "x", "queue": "nowhere"})
    assert (nothing.status_code, nothing.json()) == (200, {"review": None})
    for run in runs:
        client.post(f"/v1/runs/{run}/close").raise_for_status()


def test_unknown_reviews_are_404(client: httpx.Client) -> None:
    assert client.get("/v1/reviews/none").status_code == 404
    assert client.post("/v1/reviews/claim", json={"reviewer": "a", "review": "none"}).status_code == 404
    vote = {"reviewer": "a", "verdict": "accept"}
    assert client.post("/v1/reviews/none/decision", json=vote).status_code == 404
    assert client.post("/v1/reviews/none/release", json={"reviewer": "a"}).status_code == 404
