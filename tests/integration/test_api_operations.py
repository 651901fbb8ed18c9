"""Operations over HTTP, from the client and the command line: lists, figures, retries, cancellations."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from tests.support import server
from tests.support.server import Server, act, fresh, patience, submit
from verifier_service.cli.application import app
from verifier_service.client import Client, NotFound
from verifier_service.domain.operations import ActStatus, FailedCheck


@pytest.fixture(scope="module")
def running() -> Server:
    return server.shared()


@pytest.fixture(scope="module")
def client(running: Server) -> Iterator[Client]:
    with Client(running.url, running.key) as made:
        yield made


@pytest.fixture(scope="module")
def http(running: Server) -> Iterator[httpx.Client]:
    with running.client() as made:
        yield made


def dead_letter(running: Server, folder: Path, run: str) -> tuple[str, Path]:
    """A trajectory whose check fails until a file is there, and that file."""
    file = folder / fresh("repaired")
    item = act("mended", file=str(file))
    with running.client() as http:
        [result] = submit(http, run, item)
    assert result["reward"]["status"] == "unscored"
    return str(item["id"]), file


def letters(client: Client, run: str) -> list[FailedCheck]:
    return list(client.failed_checks(run=run).checks)


def rewarded(client: Client, run: str, id: str) -> float | None:
    until = time.monotonic() + patience(20)
    while time.monotonic() < until:
        [record] = client.query(run, [id]).records
        if record.reward is not None:
            return record.reward
        time.sleep(0.1)
    return None


def test_a_dead_letter_is_retried_over_http(
    running: Server, client: Client, http: httpx.Client, tmp_path: Path
) -> None:
    run = fresh()
    id, file = dead_letter(running, tmp_path, run)
    [letter] = letters(client, run)
    assert (letter.trajectory, letter.unscored, letter.failure.code) == (id, 1, "not_mended")
    file.touch()
    answer = http.post(f"/v1/checks/{letter.key}/retry")
    assert (answer.status_code, answer.json()["status"]) == (200, "done")
    assert rewarded(client, run, id) == 1.0
    assert letters(client, run) == []
    assert http.post(f"/v1/checks/{letter.key}/retry").json()["status"] == "unchanged"
    assert http.post(f"/v1/checks/{letter.key}/cancel").json()["status"] == "unchanged"


def test_a_closed_run_is_a_typed_conflict(
    running: Server, client: Client, http: httpx.Client, tmp_path: Path
) -> None:
    run = fresh()
    dead_letter(running, tmp_path, run)
    [letter] = letters(client, run)
    http.post(f"/v1/runs/{run}/close", params={"wait": 30}).raise_for_status()
    answer = http.post(f"/v1/checks/{letter.key}/retry")
    assert (answer.status_code, answer.json()["code"]) == (409, "run_closed")
    assert http.post("/v1/checks/00ff/retry").json()["code"] == "check_not_found"
    assert letters(client, run)[0].closed


def test_the_command_line_retries_all(
    running: Server, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = fresh()
    made = [dead_letter(running, tmp_path, run) for _ in range(3)]
    monkeypatch.setenv("VERIFIER_URL", running.url)
    monkeypatch.setenv("VERIFIER_API_KEY", running.key)
    told = CliRunner().invoke(app, ["checks", "failed", "--run", run, "--json"])
    assert len(json.loads(told.stdout)["checks"]) == 3
    assert CliRunner().invoke(app, ["checks", "failed", "--run", run]).exit_code == 0
    for _, file in made:
        file.touch()
    told = CliRunner().invoke(app, ["checks", "retry", "--all", "--run", run])
    assert told.exit_code == 0, told.output
    assert told.stdout.count("asked again") == 3
    assert {rewarded(client, run, id) for id, _ in made} == {1.0}
    told = CliRunner().invoke(app, ["checks", "cancel", "00ff"])
    assert told.exit_code == 1
    assert "no check" in told.output
    assert CliRunner().invoke(app, ["checks", "stuck"]).exit_code == 0
    assert CliRunner().invoke(app, ["checks", "retry"]).exit_code == 2


def test_trajectories_are_listed_page_by_page(client: Client, http: httpx.Client) -> None:
    run = fresh()
    items = [act("ok") | {"id": f"t{n}", "group": f"g{n % 2}"} for n in range(7)]
    submit(http, run, *items)
    found, after = [], None
    for _ in range(9):
        page = client.trajectories(run, after=after, limit=3)
        found += [one.id for one in page.trajectories]
        after = page.next
        if after is None:
            break
    assert sorted(found) == [f"t{n}" for n in range(7)]
    assert len(client.trajectories(run, status="final").trajectories) == 7
    assert client.trajectories(run, status="unscored").trajectories == ()
    assert len(client.trajectories(run, group="g1").trajectories) == 3
    for wrong in ("x", "ay0x", "k5", "%00"):
        answer = http.get(f"/v1/runs/{run}/trajectories", params={"after": wrong})
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_cursor")
    with pytest.raises(NotFound):
        client.trajectories(fresh())


def test_figures_of_a_run(client: Client, http: httpx.Client) -> None:
    run = fresh()
    submit(http, run, *(act("ok") for _ in range(3)))
    figures = client.distribution(run)
    assert len(figures.bins) == 20
    assert (figures.bins[0].low, figures.bins[-1].high) == (0.0, 1.0)
    assert figures.bins[-1].counts == {"final": 3}
    assert figures.statuses == {"final": 3}
    assert {account.kind for account in client.spending(run).accounts} == {"compute", "human"}
    assert [line.tier for line in client.queues().queues] == ["fast", "simulation", "high_fidelity", "lab"]


def test_a_check_and_trajectories_are_cancelled(client: Client, http: httpx.Client) -> None:
    run = fresh()
    waiting = {**server.identity("C" * 28 + "O", "C" * 28 + "O"), "ladder": "reviewed"}
    submit(http, run, waiting, until="fast")
    until = time.monotonic() + patience(20)
    keys: list[str] = []
    while not keys:
        assert time.monotonic() < until
        case = client.trajectory(run, str(waiting["id"]))
        lines = [line for line in case.demands if line.tier == "lab" and line.check is not None]
        keys = [line.check.key for line in lines if line.check and line.check.state == "waiting_external"]
        time.sleep(0.05)
    [result] = client.cancel_checks(keys)
    assert (result.status, result.trajectories) == (ActStatus.DONE, 1)
    [item] = client.cancel_trajectories(run, [str(waiting["id"])])
    assert item.status is ActStatus.DONE
    assert client.trajectory(run, str(waiting["id"])).cancelled
