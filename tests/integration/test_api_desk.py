"""The desk over HTTP, by the client and by the command line: persons, forms, bulk actions, the trail."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from tests.support import server
from tests.support.server import REVIEWED, Server, fresh, identity, patience, submit
from verifier_service.cli.application import app
from verifier_service.client import Client, Conflict, NotAllowed

LENGTHS = count(20)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server.running(tmp_path_factory.mktemp("desk"), review_grace_s="0") as running:
        yield running


@pytest.fixture
def http(running: Server) -> Iterator[httpx.Client]:
    with running.client() as client:
        yield client


def person(http: httpx.Client, running: Server, owner: str, *scopes: str) -> httpx.Client:
    """A client with a key of somebody's, who is new where nobody of that name is known."""
    user(http, owner)
    wanted = {"name": f"of {owner}", "scopes": scopes or ["review"], "owner": owner}
    made = http.post("/v1/keys", json=wanted).raise_for_status().json()
    assert made["key"]["owner"] == owner
    headers = {"Authorization": f"Bearer {made['token']}"}
    return httpx.Client(base_url=running.url, headers=headers, timeout=60)


def user(http: httpx.Client, login: str, role: str = "reviewer") -> None:
    added = http.post("/v1/users", json={"login": login, "name": login, "role": role})
    assert added.status_code in (201, 409)


def waiting(
    http: httpx.Client, items: int = 1, by: httpx.Client | None = None, **queue: Any
) -> tuple[str, list[str]]:
    """Items on the desk, in a queue of their own: its name, and the reviews."""
    name = fresh("q")
    if queue:
        http.put(f"/v1/review-queues/{name}", json={"name": name, **queue}).raise_for_status()
    ladder = {**REVIEWED, "name": name}
    ladder["tiers"] = {**REVIEWED["tiers"], "lab": [{"use": "review", "params": {"queue": name}}]}
    http.put(f"/v1/ladders/{name}", json=ladder).raise_for_status()
    molecules = ["C" * next(LENGTHS) + "O" for _ in range(items)]
    submit(
        by or http, fresh(), *({**identity(one, one), "ladder": name} for one in molecules), until="fast"
    )
    until = time.monotonic() + patience(20)
    while True:
        found = http.get("/v1/reviews", params={"queue": name}).json()["reviews"]
        if len(found) == items:
            return name, [item["id"] for item in found]
        assert time.monotonic() < until, found
        time.sleep(0.1)


def claim(http: httpx.Client, reviewer: str, **more: Any) -> Any:
    answer = http.post("/v1/reviews/claim", json={"reviewer": reviewer, **more})
    return answer.raise_for_status().json()["review"]


def told(answer: httpx.Response) -> tuple[int, str, str | None]:
    body = answer.json()
    return answer.status_code, body.get("code"), body.get("field")


def test_who_reviews_through_an_owned_key_is_its_owner(http: httpx.Client, running: Server) -> None:
    _, [review] = waiting(http)
    with person(http, running, "ana") as ana:
        assert told(ana.post("/v1/reviews/claim", json={"reviewer": "bob"})) == (
            403,
            "not_your_name",
            "reviewer",
        )
        assert ana.get(f"/v1/reviews/{review}", params={"reviewer": "bob"}).status_code == 403
        assert claim(ana, "ana", review=review)["claimed_by"] == "ana"
        vote = {"reviewer": "bob", "verdict": "accept"}
        assert told(ana.post(f"/v1/reviews/{review}/decision", json=vote))[1] == "not_your_name"
        assert (
            ana.post(f"/v1/reviews/{review}/decision", json=vote | {"reviewer": "ana"}).status_code == 201
        )


def test_what_an_owned_key_submits_its_owner_cannot_judge(http: httpx.Client, running: Server) -> None:
    with person(http, running, "ana", "submit", "review") as ana:
        queue, [review] = waiting(http, by=ana)
        assert claim(ana, "ana", queue=queue) is None
        named = {"reviewer": "ana", "review": review}
        assert told(ana.post("/v1/reviews/claim", json=named)) == (403, "own_submission", None)
        assert told(http.post("/v1/reviews/claim", json=named))[1] == "not_your_name", "by any other key"
    assert claim(http, "bob", queue=queue)["id"] == review


@pytest.mark.parametrize("scopes", [["review"], ["admin", "review", "operate", "gold"]])
def test_nobody_reviews_in_the_name_of_somebody_who_has_a_login(
    http: httpx.Client, running: Server, scopes: list[str]
) -> None:
    _, [review] = waiting(http)
    login = fresh("lead")
    user(http, login, "lead")
    token = http.post("/v1/keys", json={"name": "of nobody", "scopes": scopes}).json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    path = f"/v1/reviews/{review}"
    with httpx.Client(base_url=running.url, headers=headers, timeout=60) as unowned:
        for name in (login, login.upper()):
            who = {"reviewer": name}
            answers = [
                unowned.get("/v1/reviews", params=who),
                unowned.get(path, params=who),
                unowned.post("/v1/reviews/claim", json=who),
                unowned.post(f"{path}/decision", json={**who, "verdict": "accept"}),
                unowned.post(f"{path}/release", json=who),
                unowned.post(f"{path}/renew", json=who),
                unowned.post(f"{path}/skip", json={**who, "reason": "x", "for": "back"}),
            ]
            assert {told(answer) for answer in answers} == {(403, "not_your_name", "reviewer")}
        assert claim(unowned, "a-free-name", review=review)["claimed_by"] == "a-free-name"


def test_a_vote_counts_once_and_needs_a_claim(http: httpx.Client) -> None:
    _, [review] = waiting(http, approvals=2)
    path, vote = f"/v1/reviews/{review}/decision", {"reviewer": "ann", "verdict": "accept"}
    assert told(http.post(path, json=vote)) == (409, "not_opened", None)
    http.get(f"/v1/reviews/{review}", params={"reviewer": "ann"}).raise_for_status()
    assert told(http.post(path, json=vote)) == (409, "claim_expired", None)
    claim(http, "ann", review=review)
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: http.post(path, json=vote).status_code, range(6)))
    assert sorted(answers) == [200] * 5 + [201]
    assert told(http.post(path, json=vote | {"verdict": "reject", "reason": "x"}))[:2] == (
        409,
        "already_decided",
    )
    assert len(http.get(f"/v1/reviews/{review}").json()["votes"]) == 1


FORM = {
    "scores": [{"name": "quality", "low": 1, "high": 5, "anchors": {"1": "useless", "5": "as new"}}],
    "measurements": [{"quantity": "yield", "unit": "%", "required": True}],
    "comment": "required",
}


@pytest.mark.parametrize(
    ("said", "code", "field"),
    [
        ({"scores": {}}, "score_needed", "scores.quality"),
        ({"scores": {"quality": 6}}, "score_out_of_range", "scores.quality"),
        ({"scores": {"quality": 5, "beauty": 1}}, "unknown_score", "scores.beauty"),
        ({"scores": {"quality": 4.5}}, "wrong_type", "scores.quality"),
        ({"measurements": []}, "measurement_needed", "measurements"),
        (
            {"measurements": [{"quantity": "yield", "value": 3.0, "unit": "g"}]},
            "wrong_unit",
            "measurements.0.unit",
        ),
        (
            {"measurements": [{"quantity": "mass", "value": 3.0, "unit": "g"}]},
            "unknown_measurement",
            "measurements.0.quantity",
        ),
        ({"comment": " "}, "comment_needed", "comment"),
    ],
)
def test_a_decision_fits_the_form(
    formed: tuple[httpx.Client, str], said: dict[str, Any], code: str, field: str
) -> None:
    http, review = formed
    good = {
        "reviewer": "ann",
        "verdict": "accept",
        "scores": {"quality": 5},
        "measurements": [{"quantity": "yield", "value": 81.0, "unit": "%"}],
        "comment": "clean",
    }
    answer = http.post(f"/v1/reviews/{review}/decision", json=good | said)
    assert told(answer) == (422, code, field)


@pytest.fixture(scope="module")
def formed(running: Server) -> Iterator[tuple[httpx.Client, str]]:
    """An item whose queue has a form, claimed by ann."""
    with running.client() as http:
        _, [review] = waiting(http, form=FORM)
        claim(http, "ann", review=review)
        yield http, review


def test_an_item_keeps_the_form_it_was_made_with(http: httpx.Client) -> None:
    queue, [review] = waiting(http, form={"comment": "none"}, instructions="old")
    changed = {"name": queue, "form": FORM, "instructions": "new"}
    stored = http.put(f"/v1/review-queues/{queue}", json=changed)
    assert (stored.status_code, stored.json()["queue"]["version"]) == (201, 2)
    assert http.put(f"/v1/review-queues/{queue}", json=changed).status_code == 200
    item = claim(http, "ann", review=review)
    mine = http.get(f"/v1/review-queues/{queue}", params={"version": item["queue_version"]}).json()
    assert mine["spec"]["instructions"] == "old"
    assert http.get(f"/v1/review-queues/{queue}").json()["version"] == 2
    vote = {"reviewer": "ann", "verdict": "accept"}
    assert http.post(f"/v1/reviews/{review}/decision", json=vote).status_code == 201


def test_items_are_given_and_withdrawn_each_by_itself(http: httpx.Client) -> None:
    queue, [first, second, third] = waiting(http, items=3, approvals=2)
    claim(http, "ann", review=first)
    http.post(
        f"/v1/reviews/{first}/decision", json={"reviewer": "ann", "verdict": "accept"}
    ).raise_for_status()
    given = {"reviews": [first, second, "nowhere"], "to": "ann"}
    answer = http.post("/v1/reviews/reassign", json=given).json()
    assert [(one["done"], one["code"]) for one in answer["results"]] == [
        (False, "already_voted"),
        (True, None),
        (False, "review_not_found"),
    ]
    kept = http.get("/v1/reviews", params={"assigned_to": "ann", "queue": queue}).json()["reviews"]
    assert [item["id"] for item in kept] == [second]
    gone = http.post("/v1/reviews/withdraw", json={"reviews": [first, third], "reason": "moved"}).json()
    assert [one["code"] for one in gone["results"]] == ["has_votes", None]
    assert gone["done"] == 1
    assert http.get(f"/v1/reviews/{third}").json()["state"] == "cancelled"


def test_the_trail_is_paged_and_exported(http: httpx.Client) -> None:
    queue, [review] = waiting(http)
    claim(http, "ann", review=review)
    skip = {"reviewer": "ann", "reason": "=HYPERLINK(1)", "for": "me"}
    http.post(f"/v1/reviews/{review}/skip", json=skip).raise_for_status()
    seen: list[dict[str, Any]] = []
    after, more = 0, True
    while more:
        page = http.get("/v1/reviews/trail", params={"queue": queue, "after": after, "limit": 2}).json()
        seen, after, more = [*seen, *page["events"]], page["cursor"], page["more"]
    assert [one["kind"] for one in seen] == ["made", "claimed", "skipped"]
    assert {one["key"] for one in seen[1:]} == {seen[1]["key"]}
    assert seen[1]["key"].startswith("vk_")
    answer = http.get("/v1/reviews/trail", params={"review": review, "format": "csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    assert int(answer.headers["next-cursor"]) == seen[-1]["seq"]
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [row["kind"] for row in rows] == [one["kind"] for one in seen]


def test_agreement_and_gold(http: httpx.Client) -> None:
    queue, reviews = waiting(http, items=4, approvals=2)
    item = {"queue": queue, "shown": {"candidate": "CCO"}, "expected": {"verdict": "accept"}}
    made = http.post("/v1/reviews/gold", json=item)
    assert (made.status_code, http.post("/v1/reviews/gold", json=item).status_code) == (201, 200)
    known = http.get("/v1/reviews/gold", params={"queue": queue}).json()["items"]
    assert [one["id"] for one in known] == [made.json()["item"]["id"]]
    for n, review in enumerate(reviews):
        for reviewer in ("ann", "bob"):
            claim(http, reviewer, review=review)
            verdict = {"verdict": "accept"} if n < 2 else {"verdict": "reject", "reason": "no"}
            http.post(
                f"/v1/reviews/{review}/decision", json={"reviewer": reviewer} | verdict
            ).raise_for_status()
    until = time.monotonic() + patience(20)
    while True:
        found = http.get("/v1/reviews/agreement", params={"queue": queue}).json()
        if found["items"] == 4:
            break
        assert time.monotonic() < until, found
        time.sleep(0.1)
    assert (found["verdicts"]["kind"], found["verdicts"]["value"]) == ("cohen", 1.0)
    assert [one["judged"] for one in found["reviewers"]] == [4, 4]
    assert found["mistaken"] == pytest.approx(0.5 / 18)
    back = http.post(f"/v1/reviews/{reviews[0]}/retract", json={"reason": "a mix-up"})
    assert back.json()["retracted"]
    assert told(http.post("/v1/reviews/none/retract", json={"reason": "x"}))[0] == 404


def test_the_client_does_all_of_it(http: httpx.Client, running: Server) -> None:
    queue, [first, second] = waiting(http, items=2)
    with Client(running.url, running.key) as client:
        stored = client.put_review_queue({"name": queue, "minutes": 5.0})
        assert stored.created
        assert queue in {one.spec.name for one in client.review_queues()}
        assert client.review_queue(queue, version=0).spec.instructions == ""
        item = client.claim("ann", queue=queue)
        assert item is not None
        assert client.renew(item.id, reviewer="ann", minutes=7).claimed_by == "ann"
        with pytest.raises(Conflict):
            client.renew(item.id, reviewer="bob")
        assert client.skip(item.id, reviewer="ann", reason="later", whom="others").assigned_to == "ann"
        assert client.reassign([item.id], None).done == 1
        assert client.withdraw_reviews([first], reason="gone").done == 1
        client.claim("ann", review=second)
        assert client.review(second, reviewer="ann").claimed_by == "ann"
        assert client.decide(second, reviewer="ann", verdict="accept", comment="fine").created
        assert client.agreement(queue).queue == queue
        gold = client.add_gold(
            {"queue": queue, "shown": {"candidate": "C"}, "expected": {"verdict": "accept"}}
        )
        assert client.retire_gold(gold.item.id).retired_at is not None
        assert [one.id for one in client.gold(queue=queue)] == [gold.item.id]
        assert client.trail(review=second).events[-1].kind in ("voted", "effective")
        user(http, "zoe")
        token = client.create_key("a", ["review"], owner="zoe").token
    with Client(running.url, token) as zoe, pytest.raises(NotAllowed):
        zoe.claim("ann")


def test_the_command_line_does_all_of_it(http: httpx.Client, running: Server, tmp_path: Path) -> None:
    queue, [first, second] = waiting(http, items=2)
    runner = CliRunner(env={"VERIFIER_URL": running.url, "VERIFIER_API_KEY": running.key})

    def run(*words: str, code: int = 0) -> Result:
        result = runner.invoke(app, ["reviews", *words])
        assert result.exit_code == code, result.output
        return result

    file = tmp_path / "queue.json"
    file.write_text(json.dumps({"name": queue, "instructions": "look", "approvals": 2}))
    assert "version 1" in run("put-queue", str(file)).stdout
    assert queue in run("queues").stdout
    assert "look" in run("queues", queue).stdout
    run("claim", first, "--reviewer", "ann")
    assert "yours until" in run("renew", first, "--reviewer", "ann").stdout
    assert "is open" in run("skip", first, "--reviewer", "ann", "--reason", "no").stdout
    assert "done" in run("reassign", first, "--to", "ann").stdout
    assert "review_not_found" in run("withdraw", "absent", "--reason", "x", code=1).stdout
    assert "done" in run("withdraw", first, "--reason", "x").stdout
    run("claim", second, "--reviewer", "ann")
    run("decide", second, "accept", "--reviewer", "ann", "--comment", "fine")
    file.write_text(
        json.dumps({"queue": queue, "shown": {"candidate": "C"}, "expected": {"verdict": "accept"}})
    )
    assert "c-" in run("add-gold", str(file)).stdout
    assert "a vote is wrong" in run("agreement", queue).stdout
    assert "withdrawn" in run("trail", "--queue", queue).stdout
    assert run("trail", "--queue", queue, "--csv").stdout.startswith("seq,at,kind")
    until = time.monotonic() + patience(20)
    while http.get(f"/v1/reviews/{second}").json()["state"] != "effective":
        assert time.monotonic() < until
        time.sleep(0.1)
    assert "taken back" in run("retract", second, "--reason", "a mix-up").stdout
