"""The commands without a server: usage, lines of files, errors and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from verifier_service.cli.application import app
from verifier_service.cli.demo import recorded
from verifier_service.cli.demo_server import free_port
from verifier_service.cli.lines import read_lines
from verifier_service.cli.reviews import _measurement
from verifier_service.cli.screen import money, number, plain

COMMANDS = (
    *(["serve"], ["demo"], ["submit"], ["rewards"], ["try"], ["conformance"], ["verifiers"], ["migrate"]),
    *(["workers"], ["retract"], ["retractions"]),
    *(["ladders", verb] for verb in ("list", "show", "put")),
    *(["keys", verb] for verb in ("list", "create", "revoke")),
    *(["runs", verb] for verb in ("list", "show", "close", "put")),
    *(["lab", verb] for verb in ("import", "worklist")),
    *(["reviews", verb] for verb in ("list", "show", "claim", "decide", "release", "renew", "skip")),
    *(["reviews", verb] for verb in ("queues", "put-queue", "reassign", "withdraw", "retract")),
    *(["reviews", verb] for verb in ("add-gold", "agreement", "trail")),
    ["settlements"],
)


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CliRunner:
    monkeypatch.setenv("VERIFIER_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("VERIFIER_DATA", str(tmp_path))
    monkeypatch.delenv("VERIFIER_API_KEY", raising=False)
    monkeypatch.setattr("verifier_service.cli.connection.RETRY_S", 0.0)
    return CliRunner()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(runner: CliRunner, command: list[str]) -> None:
    result = runner.invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.stdout
    if command not in (["serve"],):
        assert "--json" in result.stdout


def test_the_version(runner: CliRunner) -> None:
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.strip()[0].isdigit()


@pytest.mark.parametrize("command", [["runs", "list"], ["rewards"], ["keys", "list"], ["reviews", "list"]])
def test_no_server_is_exit_code_3(runner: CliRunner, command: list[str]) -> None:
    result = runner.invoke(app, [*command, "--json"])
    assert result.exit_code == 3
    assert result.stdout == ""
    assert "verifier serve" in result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["nonsense"],
        ["rewards", "--after", "-1"],
        ["submit", "-", "--wait", "forever"],
        ["keys", "create", "me", "--scope", "everything"],
        ["reviews", "decide", "r", "perhaps"],
        ["reviews", "decide", "r", "reject"],
        ["reviews", "decide", "r", "accept", "--measured", "gap is 4"],
        ["reviews", "decide", "r", "accept", "--score", "quality"],
        ["reviews", "skip", "r", "--reason", "no", "--for", "nobody"],
        ["reviews", "withdraw", "r"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(runner: CliRunner, command: list[str]) -> None:
    result = runner.invoke(app, command)
    assert result.exit_code == 2
    assert result.stdout == ""


@pytest.mark.parametrize("verb", [["show"], ["claim"], ["decide"], ["release"]], ids=" ".join)
def test_an_id_may_begin_with_a_dash(runner: CliRunner, verb: list[str]) -> None:
    rest = ["accept"] if verb == ["decide"] else []
    assert runner.invoke(app, ["reviews", *verb, "-eeWn7kjkETZgeSK", *rest]).exit_code == 3
    assert runner.invoke(app, ["reviews", *verb, "--revewer", "me", "x", "y", "z"]).exit_code == 2


@pytest.mark.parametrize("url", ["localhost:1", "ftp://a"])
def test_a_bad_url_is_wrong_usage(runner: CliRunner, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERIFIER_URL", url)
    result = runner.invoke(app, ["runs", "list"])
    assert result.exit_code == 2
    assert "VERIFIER_URL" in result.stderr


def test_a_missing_file_is_said_plainly(runner: CliRunner, tmp_path: Path) -> None:
    for command in (["submit", str(tmp_path / "no.jsonl")], ["ladders", "put", str(tmp_path / "no.json")]):
        result = runner.invoke(app, command)
        assert result.exit_code == 1
        assert "no.json" in result.stderr
        assert "Traceback" not in result.stderr


def test_a_bad_setting_names_its_variable(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERIFIER_CPU_HOUR", "cheap")
    result = runner.invoke(app, ["migrate"])
    assert result.exit_code == 2
    assert "VERIFIER_CPU_HOUR" in result.stderr


def test_migrate_makes_a_database(runner: CliRunner, tmp_path: Path) -> None:
    result = runner.invoke(app, ["migrate", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["migrated"] is True
    assert (tmp_path / "verifier.db").exists()


def test_lines_are_read_one_by_one() -> None:
    source = [
        b'\xef\xbb\xbf{"a": 1}\n',
        b"\n",
        b"{bad\n",
        b"[1]\n",
        b'{"a": 1}\r\n',
        b"\xff\n",
        b'{"id": "x"}',
    ]
    lines = list(read_lines(source))
    assert [line.number for line in lines] == [1, 3, 4, 5, 6, 7]
    assert [line.item is not None for line in lines] == [True, False, False, True, False, True]
    first, second = (line.item["id"] for line in lines if line.item and "a" in line.item)
    assert first != second
    assert first.rpartition("-")[0] == second.rpartition("-")[0]
    assert [line.item for line in read_lines(source)] == [line.item for line in lines]


def test_a_line_nested_without_end_costs_only_itself() -> None:
    deep = b'{"a":' * 100_000
    lines = list(read_lines([deep, b'{"a": 1}']))
    assert [line.item is not None for line in lines] == [False, True]


def test_measurements_are_read() -> None:
    found = _measurement("ks_gap@r2scan/def2-svp//gfn2=4.5±0.1 eV")
    assert (found.quantity, found.value, found.sigma, found.unit) == (
        "ks_gap@r2scan/def2-svp//gfn2",
        4.5,
        0.1,
        "eV",
    )
    assert _measurement("yield=-1.5e-2 g").sigma is None
    assert _measurement("yield=3+-0.5 g").sigma == 0.5


def test_text_of_models_cannot_steer_the_terminal() -> None:
    assert plain("\x1b[31mred\x07\n[bold]") == " [31mred  [bold]"


def test_numbers_for_people() -> None:
    assert (number(None), number(0.123456), money(0.00012345), money(3.0)) == (
        "–",
        "0.123",
        "0.00012",
        "3.00",
    )


def test_the_recorded_trajectories_travel_along() -> None:
    lines = recorded()
    assert len(lines) == 98
    assert len({line["id"] for line in lines}) == 96
