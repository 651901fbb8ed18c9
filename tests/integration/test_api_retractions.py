"""Retractions over HTTP and from the command line: asked for, watched, and seen in the case."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support import server
from tests.support.server import Server, fresh, identity, patience, submit
from verifier_service.cli.application import app
from verifier_service.client import Client, Conflict, InvalidRequest, NotAllowed, NotFound
from verifier_service.domain.retractions import Retraction, RetractionState
from verifier_service.domain.states import RewardStatus
from verifier_service.domain.wire import CheckLine

LENGTHS = iter(range(30, 90))


@pytest.fixture(scope="module")
def running() -> Server:
    return server.shared()


@pytest.fixture(scope="module")
def client(running: Server) -> Iterator[Client]:
    with Client(running.url, running.key) as made:
        yield made


def scored(running: Server) -> tuple[str, str]:
    """A run with a final record on a molecule of its own, and the id."""
    molecule = "C" * next(LENGTHS) + "SC"  # chains with other ends are in other files
    run, item = fresh(), identity(molecule, molecule)
    with running.client() as http:
        [result] = submit(http, run, item)
    assert result["reward"]["reward"] == 1.0
    return run, str(item["id"])


def judgement(client: Client, run: str, id: str) -> CheckLine:
    """The latest check that judged it."""
    lines = [line for line in client.trajectory(run, id).demands if line.path == "fast/0"]
    assert lines[-1].check is not None
    return lines[-1].check


def done(client: Client, one: Retraction | None) -> Retraction:
    assert one is not None
    until = time.monotonic() + patience(20)
    while one.state is not RetractionState.DONE:
        assert time.monotonic() < until
        time.sleep(0.1)
        one = client.retraction(one.id)
    return one


def test_it_is_counted_done_and_shown(running: Server, client: Client) -> None:
    run, id = scored(running)
    key = judgement(client, run, id).key
    dry = client.retract(reason="wrong", checks=[key], dry_run=True)
    assert dry.extent is not None
    assert (dry.retraction, dry.extent.checks, dry.extent.trajectories, dry.extent.runs) == (None, 1, 1, 1)
    answer = client.retract(reason="it was wrong", checks=[key])
    assert answer.created
    finished = done(client, answer.retraction)
    assert (finished.checks, finished.done, finished.records, finished.by.name) == (1, 1, 1, "admin")
    assert finished.finished_at is not None
    assert finished.selection.checks == (key,)
    again = client.retract(reason="it was wrong", checks=[key])
    assert (again.created, again.retraction) == (False, finished)
    assert finished in client.retractions()
    record = client.query(run, [id]).records[0]
    assert (record.status, record.reward, record.reason and record.reason.code) == (
        RewardStatus.RETRACTED,
        None,
        "retracted",
    )
    check = judgement(client, run, id)
    assert check.evidence is not None
    assert check.retracted is not None
    assert (check.retracted.id, check.retracted.reason) == (finished.id, "it was wrong")
    assert check.retracted.by.name == "admin"
    assert check.build is not None
    waiting = client.trajectory(run, id).waiting
    assert any("taken back and is not asked for again" in words for words in waiting)


def test_the_feed_has_it_and_the_number_that_follows(running: Server, client: Client) -> None:
    run, id = scored(running)
    before = client.rewards(run).cursor
    key = judgement(client, run, id).key
    done(client, client.retract(reason="wrong", checks=[key], reverify=True).retraction)
    seen: list[str] = []
    for record in client.follow(run, after=before, idle_s=patience(5)):
        seen.append(record.status)
        if record.status is RewardStatus.FINAL:
            break
    assert seen == ["retracted", "final"]
    assert judgement(client, run, id).retracted is None


def test_it_can_be_asked_for_after_all(running: Server, client: Client) -> None:
    run, id = scored(running)
    key = judgement(client, run, id).key
    one = done(client, client.retract(reason="wrong", checks=[key]).retraction)
    runner = CliRunner(env={"VERIFIER_URL": running.url, "VERIFIER_API_KEY": running.key})
    assert runner.invoke(app, ["retractions", "--reverify"]).exit_code == 2
    asked = runner.invoke(app, ["retractions", one.id, "--reverify", "--json"])
    assert asked.exit_code == 0, asked.stderr
    assert Retraction.model_validate_json(asked.stdout).reverify
    until = time.monotonic() + patience(20)
    while client.query(run, [id]).records[0].status is not RewardStatus.FINAL:
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"reason": "x"}, InvalidRequest),
        ({"reason": " ", "verifier": "v"}, InvalidRequest),
        ({"reason": "x" * 501, "verifier": "v"}, InvalidRequest),
        ({"reason": "x", "verifier": "v", "keep": True}, InvalidRequest),
        ({"reason": "x", "verifier": "v", "keep": True, "reverify": True}, InvalidRequest),
        ({"reason": "x", "checks": ["ab"], "verifier": "v"}, InvalidRequest),
        ({"reason": "x", "checks": ["ab"], "version": "1"}, InvalidRequest),
        ({"reason": "x", "checks": ["ab"]}, NotFound),
    ],
)
def test_what_cannot_be_meant_is_refused(
    client: Client, wanted: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        client.retract(**wanted)


def test_an_id_stands_for_one_retraction(client: Client) -> None:
    id = fresh("retraction")
    first = client.retract(reason="x", verifier="test.nowhere", id=id).retraction
    assert first is not None
    assert first.id == id
    with pytest.raises(Conflict, match="something else"):
        client.retract(reason="y", verifier="test.nowhere", id=id)
    with pytest.raises(NotFound):
        client.retraction(fresh())


def test_only_the_administrator_may(running: Server, client: Client) -> None:
    token = client.create_key("operator", ["operate", "read", "submit", "review", "gold"]).token
    with Client(running.url, token) as other:
        for call in (other.retractions, lambda: other.retract(reason="x", verifier="v")):
            with pytest.raises(NotAllowed, match="admin"):
                call()


def test_the_command_counts_first(running: Server, client: Client) -> None:
    run, id = scored(running)
    key = judgement(client, run, id).key
    runner = CliRunner(env={"VERIFIER_URL": running.url, "VERIFIER_API_KEY": running.key})
    command = ["retract", "--check", key, "--reason", "wrong by the command"]
    counted = runner.invoke(app, command)
    assert counted.exit_code == 0, counted.stderr
    assert "1 checks, 1 trajectories in 1 runs would be" in counted.stdout
    assert "say --yes" in counted.stderr
    assert client.query(run, [id]).records[0].status is RewardStatus.FINAL
    made = runner.invoke(app, [*command, "--yes"])
    assert made.exit_code == 0, made.stderr
    assert "done; 1 checks retracted, 1 of 1 trajectories in 1 runs dealt with, 1 records" in made.stdout
    assert client.query(run, [id]).records[0].status is RewardStatus.RETRACTED
    same = runner.invoke(app, [*command, "--yes"])
    assert "the same was asked for at" in same.stderr
    listed = runner.invoke(app, ["retractions"])
    assert "wrong by the command" in listed.stdout
    shown = runner.invoke(app, ["retractions", "--json"])
    assert Retraction.model_validate_json(shown.stdout.splitlines()[0]).reason == "wrong by the command"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--params", "{"], "--params"),
        (["--params", "[1]"], "a JSON object is needed"),
        (["--since", "yesterday"], "--since"),
    ],
)
def test_the_command_says_what_it_cannot_read(running: Server, more: list[str], message: str) -> None:
    runner = CliRunner(env={"VERIFIER_URL": running.url, "VERIFIER_API_KEY": running.key})
    result = runner.invoke(app, ["retract", "--verifier", "v", "--reason", "x", *more])
    assert result.exit_code == 2
    assert message in result.stderr
