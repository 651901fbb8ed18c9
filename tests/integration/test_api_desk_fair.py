"""The desk over HTTP and in a browser: claims of others, gold items among the rest, lists that go on."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.integration.test_api_desk import claim, told, waiting
from tests.support import server
from tests.support.server import Server, patience
from tests.support.surfing import Surfer, newcomer, surfer
from verifier_service.client import Client, Conflict

ITEMS, GOLD = 24, 2
_NAMES = re.compile(r"[0-9a-f]{24}")
# Names, times, tokens and what is shown of a candidate differ between any two items.
_DIFFERENT = (
    (_NAMES, "ID"),
    (re.compile(r"[Ii]tem [0-9a-f]{8}\b"), "item ID"),
    (re.compile(r"\b\d+ (s|min)\b"), "WHILE"),
    (re.compile(r"\bvalue=\"[\w.-]{20,}\""), "TOKEN"),
    (re.compile(r"<svg.*?</svg>", re.DOTALL), "DRAWING"),
    (re.compile(r"\bC+O?\b"), "MOLECULE"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?"), "TIME"),
    (re.compile(r"data-[\w-]*(left|until|held|undo)[\w-]*=\"[\d.]+\""), "CLOCK"),
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("fair")
    with server.running(folder, review_grace_s="600", review_held="6") as running:
        yield running


@pytest.fixture
def http(running: Server) -> Iterator[httpx.Client]:
    with running.client() as client:
        yield client


def item_at(review: str) -> str:
    return f"/ui/desk/items/{review}"


def shape(value: Any) -> Any:
    """A document by its names and the kinds of what they hold."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value[:1]]
    return type(value).__name__


def test_an_undo_on_the_page_says_whose_the_item_is(http: httpx.Client, running: Server) -> None:
    _, [shared, own] = waiting(http, 2, approvals=2)
    ann = surfer(running, "reviewer")
    for review in (shared, own):
        ann.post("/ui/desk/claim", {"review": review}, page="/ui/desk")
        ann.post(f"{item_at(review)}/decision", {"verdict": "accept"}, page=item_at(review))
    claim(http, "bob", review=shared)
    answer = ann.post(f"{item_at(shared)}/undo", page="/ui/desk")
    assert "Somebody else holds the item now." in answer.text
    assert "yours again" not in answer.text
    item = http.get(f"/v1/reviews/{shared}").json()
    assert (item["claimed_by"], item["votes"]) == ("bob", [])
    vote = {"reviewer": "bob", "verdict": "accept"}
    assert http.post(f"/v1/reviews/{shared}/decision", json=vote).status_code == 201
    answer = ann.post(f"{item_at(own)}/undo", page="/ui/desk")
    assert "The item is yours again." in answer.text
    assert http.get(f"/v1/reviews/{own}").json()["claimed_by"] == ann.login


def test_one_person_holds_so_many_items(http: httpx.Client, running: Server) -> None:
    queue, reviews = waiting(http, 7)
    for _ in range(6):
        assert claim(http, "hoarder", queue=queue, minutes=1_440) is not None
    refused = http.post("/v1/reviews/claim", json={"reviewer": "hoarder", "queue": queue})
    assert told(refused)[:2] == (409, "too_many_held")
    assert "6 at most" in refused.json()["detail"]
    [left] = [one for one in reviews if http.get(f"/v1/reviews/{one}").json()["state"] == "open"]
    ann = surfer(running, "reviewer")
    ann.post("/ui/desk/claim", {"review": left}, page="/ui/desk")
    assert http.get(f"/v1/reviews/{left}").json()["claimed_by"] == ann.login
    _, more = waiting(http, 6)
    answers = [ann.post("/ui/desk/claim", {"review": one}, page="/ui/desk") for one in more]
    assert [one.status_code for one in answers] == [303] * 5 + [409]
    assert "decide or release one first" in answers[-1].text, "and the page says so"


def refused(http: httpx.Client, wanted: dict[str, Any]) -> list[str | None]:
    """Why each item of a bulk action was refused."""
    answer = http.post("/v1/reviews/reassign", json=wanted).raise_for_status().json()
    assert answer["done"] == sum(one["done"] for one in answer["results"])
    return [one["code"] for one in answer["results"]]


def test_nothing_is_kept_for_who_does_not_exist(http: httpx.Client, running: Server) -> None:
    _, [review] = waiting(http)
    wanted = {"reviews": [review], "hours": 720}
    for name, code in (
        ("no-such-person", "no_such_reviewer"),
        (newcomer(running, "operator"), "not_a_reviewer"),
    ):
        assert refused(http, {**wanted, "to": name}) == [code]
    gone = newcomer(running, "reviewer")
    http.patch(f"/v1/users/{gone}", json={"disabled": True}).raise_for_status()
    assert refused(http, {**wanted, "to": gone}) == ["reviewer_disabled"]
    assert http.get(f"/v1/reviews/{review}").json()["assigned_to"] is None
    there = newcomer(running, "lead")
    assert refused(http, {**wanted, "to": there}) == [None]
    assert http.get(f"/v1/reviews/{review}").json()["assigned_to"] == there


def test_lists_go_on(http: httpx.Client, running: Server) -> None:
    queue, reviews = waiting(http, 5)
    seen: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = http.get("/v1/reviews", params={"queue": queue, "limit": 2, **after}).raise_for_status()
        seen += [item["id"] for item in page.json()["reviews"]]
        if page.json()["next"] is None:
            break
        assert page.json()["next"] == seen[-1]
        after = {"after": seen[-1]}
    assert seen == reviews
    assert http.get("/v1/reviews", params={"queue": queue, "limit": 5}).json()["next"] is None
    unknown = http.get("/v1/reviews", params={"after": "nowhere"})
    assert told(unknown)[:2] == (404, "review_not_found")
    with Client(running.url, running.key) as client:
        assert [item.id for item in client.reviews(queue=queue, after=reviews[2])] == reviews[3:]


def test_taking_back_again_in_other_words_says_what_to_do(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        server.running(tmp_path_factory.mktemp("words"), review_grace_s="0") as running,
        Client(running.url, running.key) as client,
        running.client() as http,
    ):
        _, [review] = waiting(http)
        client.claim("ann", review=review)
        client.decide(review, reviewer="ann", verdict="accept")
        until = time.monotonic() + patience(20)
        while client.review(review).state != "effective":
            assert time.monotonic() < until
            time.sleep(0.1)
        client.retract_review(review, reason="a mix-up")
        assert client.retract_review(review, reason="a mix-up").retracted, "the same again is the same"
        with pytest.raises(Conflict) as raised:
            client.retract_review(review, reason="a mix-up, ask again", again=True)
        assert raised.value.code == "retraction_conflict"
        named = re.search(r"POST /v1/retractions/(\S+)/reverify", str(raised.value))
        assert named is not None
        assert client.reverify(named[1]).id == f"review-{review}"
        queue = client.review(review).queue
        until = time.monotonic() + patience(20)
        while not client.reviews(queue=queue, state="open"):
            assert time.monotonic() < until, "people are asked again"
            time.sleep(0.1)


def page_of(ann: Surfer, path: str) -> str:
    """A page without what differs between any two items."""
    text = ann.get(path).text
    for pattern, word in _DIFFERENT:
        text = pattern.sub(word, text)
    return text


def counted(ann: Surfer, queue: str) -> list[int]:
    """Open to you, yours and escalated, as the desk's page says."""
    row = re.search(rf'<th scope="row">{queue}</th>(.*?)</tr>', ann.get("/ui/desk").text, re.DOTALL)
    assert row is not None
    return [int(one) for one in re.findall(r"<td class=\"number\">(\d+)", row[1])]


def test_pages_and_answers_are_alike_for_gold_items(http: httpx.Client, running: Server) -> None:
    queue, reviews = waiting(http, ITEMS, gold_share=0.5, approvals=2)
    real = http.get(f"/v1/reviews/{reviews[0]}").json()
    for n in range(GOLD):
        shown = {name: real[name] for name in ("ladder", "prompt", "inputs", "evidence")}
        shown["candidate"] = "C" * (70 + n) + "O"
        gold = {"id": f"{queue}{n}", "queue": queue, "shown": shown, "expected": {"verdict": "accept"}}
        http.post("/v1/reviews/gold", json=gold).raise_for_status()
    ann = surfer(running, "reviewer")
    _, [before_all] = waiting(http)
    ann.post("/ui/desk/claim", {"review": before_all}, page="/ui/desk")
    ann.post(f"{item_at(before_all)}/decision", {"verdict": "accept"}, page=item_at(before_all))
    seen: dict[bool, list[Any]] = {}
    for _ in range(ITEMS):
        before = counted(ann, queue)
        answer = ann.post("/ui/desk/claim", {"queue": queue}, page="/ui/desk")
        review = answer.headers["location"].rpartition("/")[2]
        known = review not in reviews
        tale = [
            [after - was for after, was in zip(counted(ann, queue), before, strict=True)],
            shape(http.get(f"/v1/reviews/{review}").json()),
            page_of(ann, item_at(review)),
        ]
        other = http.post("/v1/reviews/claim", json={"reviewer": "bob", "review": review})
        tale.append((other.status_code, _NAMES.sub("ID", other.json()["detail"])))
        ann.post(f"{item_at(review)}/decision", {"verdict": "accept"}, page=item_at(review))
        tale += [
            [after - was for after, was in zip(counted(ann, queue), before, strict=True)],
            shape(http.get(f"/v1/reviews/{review}").json()),
            page_of(ann, item_at(review)),
        ]
        assert tale == seen.setdefault(known, tale)
        if len(seen) == 2:
            break
    assert seen[True] == seen[False]
    listed = http.get("/v1/reviews", params={"queue": queue}).json()["reviews"]
    assert [item["created_at"] for item in listed] == sorted(item["created_at"] for item in listed)
    assert len({str(sorted(shape(item).items())) for item in listed if item["votes"]}) == 1
