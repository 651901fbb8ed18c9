"""The command line against a real server process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.support import server as servers
from tests.support.server import Server
from verifier_service.cli.application import app

LADDER = "molecule-identity"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.running(tmp_path_factory.mktemp("cli"), review_grace_s="0") as running:
        yield running


class Shell:
    """Runs commands in this process, as the server's administrator."""

    def __init__(self, server: Server) -> None:
        self.environ = {"VERIFIER_URL": server.url, "VERIFIER_API_KEY": server.key}
        self.runner = CliRunner(env=self.environ)

    def __call__(self, *command: str, code: int = 0, text: bytes | None = None) -> Result:
        result = self.runner.invoke(app, list(command), input=text)
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    def json(self, *command: str, code: int = 0, text: bytes | None = None) -> list[dict[str, Any]]:
        """The JSON lines on standard output; anything else there fails."""
        return [
            json.loads(line) for line in self(*command, "--json", code=code, text=text).stdout.splitlines()
        ]


@pytest.fixture
def shell(server: Server) -> Shell:
    return Shell(server)


def line(answer: str, **members: Any) -> bytes:
    item = {"ladder": LADDER, "answer": answer, "problem": {"reference": {"smiles": "CCO"}}, **members}
    return json.dumps(item).encode() + b"\n"


def test_lines_go_in_and_rewards_come_out(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_bytes(line("OCC") + b"{broken\n\n" + line("CC", ladder="none") + line("CCC") + line("OCC"))
    found = shell.json("submit", str(file), "--run", "lines", "--wait", "final", code=1)
    assert [one["line"] for one in found] == [1, 2, 4, 5, 6]
    assert [one["status"] for one in found] == ["accepted", "invalid", "invalid", "accepted", "accepted"]
    assert [one["error"]["code"] for one in found[1:3]] == ["bad_line", "unknown_ladder"]
    rewards = [one["reward"]["reward"] for one in found if one["reward"]]
    assert rewards == [1.0, 0.0, 1.0]
    again = shell.json("submit", str(file), "--run", "lines", code=1)
    assert [one["status"] for one in again] == ["duplicate", "invalid", "invalid", "duplicate", "duplicate"]
    feed = shell.json("rewards", "--run", "lines")
    assert [one["seq"] for one in feed] == list(range(1, len(feed) + 1))
    assert shell.json("rewards", "--run", "lines", "--after", "2", "--limit", "1") == feed[2:3]


def test_standard_input_and_people(shell: Shell) -> None:
    text = line("CCO", id="a") + b"oops\n"
    result = shell("submit", "-", "--run", "pipe", "--wait", "final", code=1, text=text)
    assert "line 2: invalid" in result.stderr
    assert "1 accepted, 1 invalid" in result.stderr
    assert "a" in result.stdout
    shown = shell("rewards", "--run", "pipe")
    assert "final" in shown.stdout


def test_runs(shell: Shell) -> None:
    [report] = shell.json("runs", "put", "paid", "--compute", "2.5", "--trajectories", "10")
    assert report["run"]["spec"]["budgets"] == {"compute": 2.5, "human": None}
    assert "paid" in [one["id"] for one in shell.json("runs", "list")]
    assert "2.5" in shell("runs", "show", "paid").stdout
    assert shell.json("runs", "close", "paid")[0]["run"]["state"] in ("closing", "closed")
    assert "no run" in shell("runs", "show", "unknown", code=1).stderr


def test_workers(shell: Shell) -> None:
    seen = _until_there(shell, "workers")
    assert {one["card"]["tier"] for one in seen} == {"fast", "simulation", "high_fidelity"}
    told = shell("workers").stdout
    assert "alive" in told
    assert "GiB" in told
    assert "does not run missing 1: needs the extra 'chem'" in told


def test_ladders_verifiers_and_reviews(shell: Shell, tmp_path: Path) -> None:
    [ladder] = shell.json("ladders", "show", LADDER)
    spec = ladder["spec"] | {
        "name": "looked-at",
        "tiers": ladder["spec"]["tiers"] | {"lab": [{"use": "review"}]},
    }
    spec["tiers"]["lab"][0]["params"] = {"queue": "chemists"}
    file = tmp_path / "looked-at.json"
    file.write_text(json.dumps(spec))
    assert [shell.json("ladders", "put", str(file))[0]["created"] for _ in range(2)] == [True, False]
    assert "looked-at" in shell("ladders", "list").stdout
    assert any(one["info"]["name"] == "molecule.identity" for one in shell.json("verifiers"))
    shell("submit", "-", "--run", "desk", "--wait", "fast", text=line("CCO", id="a", ladder="looked-at"))
    reviews = _until_there(shell, "reviews", "list", "--queue", "chemists")
    name = reviews[0]["id"]
    assert "CCO" in shell("reviews", "show", name).stdout
    assert shell.json("reviews", "claim", name, "--reviewer", "ann")[0]["state"] == "claimed"
    assert shell.json("reviews", "release", name, "--reviewer", "ann")[0]["state"] == "open"
    assert shell.json("reviews", "claim", "--reviewer", "bob")[0]["id"] == name
    [vote] = shell.json("reviews", "decide", name, "reject", "--reason", "no", "--reviewer", "bob")
    assert vote["created"] is True
    assert "nothing is free" in shell("reviews", "claim", "--reviewer", "bob").stderr
    records = shell.json(
        "submit", "-", "--run", "desk", "--wait", "final", text=line("CCO", id="a", ladder="looked-at")
    )
    assert records[0]["reward"]["outcome"] == 0.0


def _until_there(shell: Shell, *command: str) -> list[dict[str, Any]]:
    for _ in range(100):
        found = shell.json(*command)
        if found:
            return found
    raise AssertionError(f"nothing came of {command}")


def test_keys(shell: Shell, server: Server) -> None:
    [created] = shell.json("keys", "create", "reader", "-s", "read")
    reader = CliRunner(env={"VERIFIER_URL": server.url, "VERIFIER_API_KEY": created["token"]})
    assert reader.invoke(app, ["runs", "list"]).exit_code == 0
    refused = reader.invoke(app, ["keys", "list"])
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "verifier keys create" in refused.stderr
    assert shell.json("keys", "revoke", created["key"]["id"])[0]["revoked_at"] is not None
    gone = reader.invoke(app, ["runs", "list"])
    assert gone.exit_code == 1
    assert "VERIFIER_API_KEY" in gone.stderr


def test_the_command_as_a_process(server: Server) -> None:
    command = [sys.executable, "-m", "verifier_service.cli", "ladders", "list", "--json"]
    environ = {"VERIFIER_URL": server.url, "VERIFIER_DATA": str(server.data), "PATH": ""}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True)
    assert {json.loads(text)["name"] for text in done.stdout.splitlines()} >= {LADDER, "organic-gap"}
    assert done.stderr == ""


def test_serving_refuses_a_folder_in_use(server: Server) -> None:
    command = [
        sys.executable,
        "-m",
        "verifier_service.cli",
        "serve",
        "--data",
        str(server.data),
        "--port",
        "0",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "in use" in done.stderr
    assert "next:" in done.stderr
