"""Pages of operators: what belongs to another project, or to another role, is not theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.support import server
from tests.support.server import JUDGED, Server, act, fresh, submit
from tests.support.surfing import PASSWORD, Surfer, surfer
from verifier_service import bootstrap
from verifier_service.dashboard.pages import case_path
from verifier_service.domain.models import Alarm, LadderKey
from verifier_service.services import tenants
from verifier_service.settings import Settings

SETTINGS = {"webhook_http": "true", "webhook_allow": "127.0.0.1"}
ALARM = Alarm(verifier="v 1", stratum="fast|v 1|2", statistic=2.0, threshold=1.0, audits=20)


@dataclass
class Place:
    """A project with a trajectory, a webhook and an alarm; and somebody of another project."""

    site: Server
    run: str
    trajectory: str
    webhook: str
    alarm: str
    neighbour: Surfer


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    data = tmp_path_factory.mktemp("operators")
    with server.running(data, **SETTINGS) as site, site.client() as client:
        client.put(f"/v1/ladders/{JUDGED['name']}", json=JUDGED).raise_for_status()
        item, run = act("ok") | {"id": "a/b", "problem": {"reference": {"gold": "unseen"}}}, fresh()
        submit(client, run, item)
        wanted = {"url": "http://127.0.0.1:9/hook"}
        webhook = client.post("/v1/webhooks", json=wanted).raise_for_status().json()["webhook"]["id"]
        service = bootstrap.build(Settings(data=data))
        try:
            service.unit(lambda tx: tx.alarms.raise_(LadderKey("default", JUDGED["name"], 1), ALARM))
            service.unit(lambda tx: tenants.create_project(tx, service.catalog, "neighbours"))
            key = service.unit(lambda tx: tenants.create_key(tx, "neighbours", "n", tenants.EVERY_SCOPE))
        finally:
            service.store.close()
        [alarm] = client.get("/v1/alarms").json()["alarms"]
        yield Place(site, run, "a/b", webhook, alarm["id"], _admin(site, key.token))


def _admin(site: Server, token: str) -> Surfer:
    body = {"login": fresh("far"), "name": "Far", "role": "admin", "password": PASSWORD}
    headers = {"Authorization": f"Bearer {token}"}
    httpx.post(f"{site.url}/v1/users", json=body, headers=headers).raise_for_status()
    made = Surfer(site.url)
    made.sign_in(str(body["login"]))
    return made


def test_another_project_sees_and_changes_nothing(place: Place) -> None:
    case, hook = case_path((place.run, place.trajectory)), f"/ui/operations/webhooks/{place.webhook}"
    far = place.neighbour
    for path in (case, f"{case}/state", f"{case}/checks", f"{case}/turns", hook, f"{hook}/deliveries"):
        assert far.get(path).status_code == 404, path
    assert far.get(f"/ui/trust?run={place.run}").status_code == 404
    assert far.get(f"/ui/trust/calibration?run={place.run}").status_code == 404
    for path in ("/ui/trust", "/ui/trust/alarms", "/ui/operations", "/ui/operations/webhooks"):
        text = far.get(path).text
        assert not any(word in text for word in (place.alarm, place.webhook, place.run)), path
    for path, form in (
        (f"{case}/cancel", {}),
        (f"{hook}/again", {"run": place.run, "seq": "1"}),
        (f"{hook}/replay", {"run": place.run}),
        ("/ui/trust/alarms/clear", {"alarm": place.alarm}),
    ):
        assert far.post(path, form).status_code == 404, path
    with place.site.client() as client:
        [alarm] = client.get("/v1/alarms").json()["alarms"]
    assert alarm.get("cleared_at") is None


def test_who_sees_the_agreement_of_reviewers(place: Place) -> None:
    lead, operator = surfer(place.site, "lead"), surfer(place.site, "operator")
    assert lead.get("/ui/desk/agreement").status_code == 200
    assert operator.get("/ui/trust/reviewers").status_code == 200
    case = case_path((place.run, place.trajectory))
    assert (lead.get("/ui/trust").status_code, lead.get(case).status_code) == (403, 403)
    assert lead.post(f"{case}/cancel").status_code == 403


@pytest.mark.parametrize("role", ["operator", "admin"])
def test_no_role_sees_a_reference(place: Place, role: str) -> None:
    who, case = surfer(place.site, role), case_path((place.run, place.trajectory))
    for part in ("", "/state", "/checks", "/turns"):
        answer = who.get(f"{case}{part}")
        assert (answer.status_code, "unseen" in answer.text) == (200, False)


def test_an_operator_clears_an_alarm_once(place: Place) -> None:
    operator = surfer(place.site, "operator")
    assert "fast, measured by v 1, highest third of the outcomes" in operator.get("/ui/trust").text
    assert operator.post("/ui/trust/alarms/clear", {"alarm": place.alarm}).status_code == 303
    assert operator.post("/ui/trust/alarms/clear", {"alarm": place.alarm}).status_code == 404
    assert operator.post("/ui/trust/alarms/clear", {"alarm": "<b>"}).status_code == 422
    assert 'value="' + place.alarm not in operator.get("/ui/trust/alarms").text


def test_a_cancelled_case_is_told_so(place: Place) -> None:
    operator, case = surfer(place.site, "operator"), case_path((place.run, place.trajectory))
    for _ in range(2):
        assert operator.post(f"{case}/cancel").headers["location"] == case
    assert "Cancel this trajectory" not in operator.get(case).text
