"""The API keeps to its own description: generated requests, right and wrong, and no surprise in any answer.

Every operation of the description is sent requests that fit it and requests that do not, with all checks of
Schemathesis. A right request that needs something to exist, or says what a schema cannot, is written here:
an operation that no request brings to a 2xx fails.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from tests.support import server
from tests.support.server import JUDGED, REVIEWED, Server, act, fresh, identity, patience, submit
from verifier_service.domain.models import Alarm, LadderKey
from verifier_service.persistence.engine import create_store

EXAMPLES = 8
WEBHOOK = "http://127.0.0.1:9/hook"
LADDER = {
    "name": "of-schema",
    "candidate": {"kind": "act"},
    "outcome": {"use": "hostile"},
    "truth": "fast",
    "tiers": {"fast": [{"use": "hostile"}]},
}
INTEGRAL = "1.0 is an integer in JSON Schema, and is not read as one"
GOLD = {"queue": "chemists", "shown": {"candidate": "C"}, "expected": {"verdict": "accept"}}
PASSWORDS = "a password is not the login, and not among those that everybody tries"
PLATE = {"name": "P1", "wells": [{"well": "A1", "role": "blank"}]}
# What fits the schema may be refused by rules between fields, with 422 and a name; the written request
# below reaches 2xx.
RULES_BEYOND = {
    "POST /v1/runs/{run}/trajectories/{trajectory}/turns": INTEGRAL,
    "POST /v1/score/{run}/{ladder}": "the format that the query names decides about the body",
    "PUT /v1/runs/{run}": INTEGRAL,
    "PUT /v1/ladders/{name}": "a ladder has one outcome, and its truth is one of its tiers",
    "POST /v1/reviews/{review}/decision": "a rejection needs a reason",
    "PUT /v1/review-queues/{name}": "the name is that of the path, and grades go up",
    "POST /v1/reviews/gold": "what is known fits the form of the queue",
    "POST /v1/lab-results": "a file, rows or plates are sent, and a header says which check a row means",
    "POST /v1/webhooks": "what is sent to must be reachable and allowed",
    "PATCH /v1/webhooks/{webhook}": "what is sent to must be reachable and allowed",
    "POST /v1/webhooks/{webhook}/replay": INTEGRAL,
    "GET /v1/runs/{run}/trajectories": "a cursor comes from the page before",
    "GET /v1/checks/stuck": "a cursor comes from the page before",
    "GET /v1/checks/failed": "a cursor comes from the page before",
    "POST /v1/keys": "an owner is an active user",
    "POST /v1/users": PASSWORDS,
    "PATCH /v1/users/{login}": PASSWORDS,
    "POST /v1/retractions": "either checks or a verifier is named, and what is kept is verified again",
}
# A wrong item of a batch costs itself only: the answer is 200 and names it.
ITEMS_APART = {"POST /v1/runs/{run}/trajectories", "POST /v1/score/{run}/{ladder}"}
RUN = "kept-for-all"  # nothing that is generated closes it
KNOWN = {"run": RUN, "trajectory": "0", "group": "0", "ladder": "math", "name": "math"}


@dataclass
class Stage:
    """A server with something of everything in it, and what was answered so far by operation."""

    running: Server
    http: httpx.Client
    seen: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    lengths: Iterator[int] = field(default_factory=lambda: count(20))

    def closed(self) -> str:
        """A new run that is closed."""
        run = fresh()
        submit(self.http, run, act("ok"))
        self.http.post(f"/v1/runs/{run}/close", params={"wait": 30}).raise_for_status()
        return run

    def growing(self) -> str:
        """A trajectory that is not finished."""
        item = act("ok") | {"finished": False, "answer": None}
        self.http.post(f"/v1/runs/{RUN}/trajectories", json={"trajectories": [item]}).raise_for_status()
        return str(item["id"])

    def review(self, *, claimed: bool = False) -> str:
        """An open item of the desk."""
        molecule = "C" * (next(self.lengths)) + "O"
        submit(self.http, RUN, {**identity(molecule, molecule), "ladder": "reviewed"}, until="fast")
        body, until = {"reviewer": "r", "queue": "chemists"}, time.monotonic() + patience(10)
        while (item := self.http.post("/v1/reviews/claim", json=body).json()["review"]) is None:
            assert time.monotonic() < until
            time.sleep(0.05)
        if not claimed:
            self.http.post(f"/v1/reviews/{item['id']}/release", json={"reviewer": "r"}).raise_for_status()
        return str(item["id"])

    def effective(self) -> str:
        """An item that a file has answered, since the grace of this server is long."""
        name = self.review()
        row = {"review": name, "verdict": "accept"}
        self.http.post("/v1/lab-results", json={"rows": [row]}).raise_for_status()
        return name

    def gold(self) -> str:
        """A known item."""
        made = self.http.post("/v1/reviews/gold", json=GOLD | {"id": fresh()})
        return str(made.raise_for_status().json()["item"]["id"])

    def queue(self) -> str:
        """A declared queue."""
        self.http.put("/v1/review-queues/of-schema", json={"name": "of-schema"}).raise_for_status()
        return "of-schema"

    def key(self) -> str:
        """A key to revoke."""
        made = self.http.post("/v1/keys", json={"name": "k", "scopes": ["gold"]})
        return str(made.json()["key"]["id"])

    def user(self) -> str:
        """Somebody to change."""
        made = self.http.post("/v1/users", json={"login": fresh("u"), "name": "U", "role": "reviewer"})
        return str(made.raise_for_status().json()["login"])

    def retraction(self) -> str:
        """A retraction of nothing."""
        wanted = {"verifier": "test.nowhere", "reason": "it was wrong", "id": fresh()}
        return str(self.http.post("/v1/retractions", json=wanted).json()["retraction"]["id"])

    def lab_import(self) -> str:
        """An import of a map of a plate."""
        return str(self.http.post("/v1/lab-results", json={"plates": [PLATE], "id": fresh()}).json()["id"])

    def alarm(self) -> str:
        """An alarm that stands: audits enough to raise one would take too long here."""
        store = create_store(f"sqlite:///{self.running.data / 'verifier.db'}")
        name = f"s{next(self.lengths)}"
        alarm = Alarm(verifier="v 1", stratum=name, statistic=2.0, threshold=1.0, audits=9)
        with store.begin() as tx:
            tx.alarms.raise_(LadderKey("default", "math", 1), alarm)
        store.close()
        return str(self.http.get("/v1/alarms").json()["alarms"][0]["id"])

    def failed(self) -> str:
        """A check that has failed."""
        submit(self.http, RUN, act("exit", n=next(self.lengths)))
        return str(self.http.get("/v1/checks/failed").json()["checks"][0]["key"])

    def webhook(self) -> str:
        """A registered endpoint."""
        made = self.http.post("/v1/webhooks", json={"url": WEBHOOK})
        return str(made.raise_for_status().json()["webhook"]["id"])


def _path(**names: Callable[[Stage], str]) -> Callable[[Stage], dict[str, Any]]:
    return lambda stage: {"path_parameters": {name: make(stage) for name, make in names.items()}}


def _with(body: Any, **names: Callable[[Stage], str]) -> Callable[[Stage], dict[str, Any]]:
    return lambda stage: _path(**names)(stage) | {"body": body, "media_type": "application/json"}


def _kept(_: Stage) -> str:
    return RUN


WRITTEN: dict[str, Callable[[Stage], dict[str, Any]]] = {
    "POST /v1/runs/{run}/trajectories/{trajectory}/turns": _with(
        {"index": 0, "turns": [{"message": "x"}]},
        run=_kept,
        trajectory=Stage.growing,
    ),
    "POST /v1/score/{run}/{ladder}": lambda stage: (
        _with(
            {"query": ["p\\boxed{2}"], "prompts": ["p"], "labels": ["2"]},
            run=_kept,
            ladder=lambda _: "math",
        )(stage)
        | {"query": {"format": "openrlhf", "seconds": 20}}
    ),
    "POST /v1/runs/{run}/close": _path(run=Stage.closed),
    "GET /v1/runs/{run}/archive": _path(run=Stage.closed),
    "POST /v1/runs/{run}/purge": _path(run=Stage.closed),
    "PUT /v1/ladders/{name}": _with(LADDER, name=lambda _: "of-schema"),
    "GET /v1/reviews/{review}": _path(review=Stage.review),
    "POST /v1/reviews/{review}/decision": _with(
        {"reviewer": "r", "verdict": "accept"}, review=lambda stage: stage.review(claimed=True)
    ),
    "POST /v1/reviews/{review}/release": _with(
        {"reviewer": "r"}, review=lambda stage: stage.review(claimed=True)
    ),
    "POST /v1/reviews/{review}/renew": _with(
        {"reviewer": "r"}, review=lambda stage: stage.review(claimed=True)
    ),
    "POST /v1/reviews/{review}/skip": _with(
        {"reviewer": "r", "reason": "no", "for": "back"}, review=lambda stage: stage.review(claimed=True)
    ),
    "POST /v1/reviews/{review}/retract": _with({"reason": "it was wrong"}, review=Stage.effective),
    "POST /v1/reviews/gold/{gold}/retire": _path(gold=Stage.gold),
    "POST /v1/reviews/gold": _with(GOLD),
    "PUT /v1/review-queues/{name}": _with({"name": "of-schema"}, name=lambda _: "of-schema"),
    "GET /v1/review-queues/{name}": _path(name=Stage.queue),
    "POST /v1/lab-results": _with({"plates": [PLATE], "rows": [{"candidate": "C", "verdict": "accept"}]}),
    "GET /v1/lab-results/{id}": _path(id=Stage.lab_import),
    "DELETE /v1/keys/{key}": _path(key=Stage.key),
    "POST /v1/users": lambda stage: _with({"login": fresh("u"), "name": "U", "role": "lead"})(stage),
    "PATCH /v1/users/{login}": _with({"role": "lead"}, login=Stage.user),
    "POST /v1/alarms/{alarm}/clear": _path(alarm=Stage.alarm),
    "POST /v1/webhooks": _with({"url": WEBHOOK}),
    "GET /v1/webhooks/{webhook}": _path(webhook=Stage.webhook),
    "PATCH /v1/webhooks/{webhook}": _with({"enabled": False}, webhook=Stage.webhook),
    "DELETE /v1/webhooks/{webhook}": _path(webhook=Stage.webhook),
    "POST /v1/webhooks/{webhook}/rotate": _path(webhook=Stage.webhook),
    "POST /v1/webhooks/{webhook}/test": _path(webhook=Stage.webhook),
    "GET /v1/webhooks/{webhook}/deliveries": _path(webhook=Stage.webhook),
    "POST /v1/webhooks/{webhook}/replay": _with({"run": RUN}, webhook=Stage.webhook),
    "POST /v1/retractions": _with({"verifier": "test.nowhere", "reason": "it was wrong", "dry_run": True}),
    "GET /v1/retractions/{retraction}": _path(retraction=Stage.retraction),
    "POST /v1/retractions/{retraction}/reverify": _path(retraction=Stage.retraction),
    "POST /v1/checks/{check}/retry": _path(check=Stage.failed),
    "POST /v1/checks/{check}/cancel": _path(check=Stage.failed),
    "GET /v1/runs/{run}/trajectories": _path(run=_kept),
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server of its own: generated requests close and purge runs, and store ladders."""
    hooks = {"webhook_http": "true", "webhook_allow": "127.0.0.1", "max_webhooks": "1000"}
    folder = tmp_path_factory.mktemp("schema")
    with server.running(folder, review_grace_s="60", **hooks) as running, running.client() as http:
        for ladder in (JUDGED, REVIEWED):
            http.put(f"/v1/ladders/{ladder['name']}", json=ladder).raise_for_status()
        submit(http, RUN, identity("CCO") | {"id": "0", "group": "0"}, act("ok"))
        yield Stage(running, http)


@pytest.fixture(scope="module")
def operations(stage: Stage) -> dict[str, Any]:
    schema = schemathesis.openapi.from_url(f"{stage.running.url}/openapi.json")
    # Text with NUL is refused everywhere, and said so; the key is ours, a missing one is tried elsewhere.
    schema.config.generation.update(allow_x00=False, with_security_parameters=False)
    found = {operation.label: operation for operation in (one.ok() for one in schema.get_all_operations())}
    assert len(found) > 35
    return found


def checks(label: str) -> list[Any]:
    """All that there are, but what an operation is excused from above."""
    chosen = list(CHECKS.get_all())
    assert {negative_data_rejection, positive_data_acceptance} <= set(chosen)
    assert len(chosen) > 10
    if label in ITEMS_APART:
        chosen.remove(negative_data_rejection)
    if label in RULES_BEYOND:
        chosen.remove(positive_data_acceptance)
    return chosen


def send(stage: Stage, label: str, case: Any) -> int:
    """One request, its answer compared with the description; the status."""
    answer = case.call(headers=stage.running.headers)
    stage.seen[label][answer.status_code] += 1
    case.validate_response(answer, headers=stage.running.headers, checks=checks(label))
    return int(answer.status_code)


def exercise(stage: Stage, operation: Any, mode: GenerationMode) -> None:
    """Generated requests of one operation, those that fit about things that exist."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def go(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        if mode is GenerationMode.POSITIVE:
            case.path_parameters.update(
                {
                    name: KNOWN[name]
                    for name in case.path_parameters
                    if name in KNOWN and not _ends(operation)
                }
            )
        _in_time(case, operation)
        status = send(stage, operation.label, case)
        if status == 422 and mode is GenerationMode.POSITIVE:
            assert operation.label in RULES_BEYOND

    try:
        go()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "there is a request that fits"
        assert not operation.definition.raw.get("parameters"), "nothing can be wrong about it"


def _ends(operation: Any) -> bool:
    """Whether it would end the run that the others use."""
    return re.search("/(close|purge)$", operation.path) is not None


def _in_time(case: Any, operation: Any) -> None:
    """No waits: they are drawn from up to minutes, and a stream has no end."""
    if isinstance(case.query, dict):
        for name in ("wait", "seconds"):
            if isinstance(case.query.get(name), int | float):
                case.query[name] = 0
        if operation.path.endswith("/stream"):
            case.query.setdefault("wait", 0)
    if isinstance(case.body, dict):
        case.body.pop("wait", None)


def test_answers_are_as_described(stage: Stage, operations: dict[str, Any]) -> None:
    for operation in operations.values():
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            exercise(stage, operation, mode)


def test_a_body_may_be_too_large_and_a_run_gone(stage: Stage) -> None:
    """413 of every operation with a body, 410 of those that read or declare a run; and no keyword of a
    later OpenAPI."""
    document = stage.http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert "itemSchema" not in str(document)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert "requestBody" not in operation or "413" in operation["responses"], (method, path)
    run = stage.closed()
    stage.http.post(f"/v1/runs/{run}/purge", params={"wait": 30}).raise_for_status()
    gone = {
        ("get", "/v1/runs/{run}/rewards"): None,
        ("get", "/v1/runs/{run}/rewards/stream"): None,
        ("post", "/v1/runs/{run}/rewards/query"): {"ids": ["x"]},
        ("get", "/v1/runs/{run}/hindsight"): None,
        ("get", "/v1/runs/{run}/archive"): None,
        ("put", "/v1/runs/{run}"): {},
    }
    for (method, path), body in gone.items():
        answer = stage.http.request(method, path.replace("{run}", run), json=body)
        assert (answer.status_code, answer.json()["code"]) == (410, "run_purged"), path
        assert "410" in document["paths"][path][method]["responses"], path


def test_every_operation_can_succeed(stage: Stage, operations: dict[str, Any]) -> None:
    assert WRITTEN.keys() | RULES_BEYOND.keys() | ITEMS_APART <= operations.keys()
    for label, write in WRITTEN.items():
        send(stage, label, operations[label].Case(**write(stage)))
    never = [label for label in operations if not any(200 <= status < 300 for status in stage.seen[label])]
    assert never == [], "write a request that succeeds"
