"""``verifier try``: the shipped examples, ladders from files, bad lines, and nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner, Result

from verifier_service.cli.application import app

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WITH_EXPECTATIONS = sorted(
    path.parent.name for path in EXAMPLES.glob("*/trajectories.jsonl") if '"expected"' in path.read_text()
)
PLUGIN = "tests.support.measuring"
SECRET = "xyzzy-gold"


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CliRunner:
    """Commands whose temporary files and data folder can be looked at."""
    for name in ("VERIFIER_URL", "VERIFIER_API_KEY", "VERIFIER_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VERIFIER_DATA", str(tmp_path / "data"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return CliRunner(env={"COLUMNS": "80"})


def run(runner: CliRunner, *command: str, code: int = 0, text: str | bytes | None = None) -> Result:
    result = runner.invoke(app, ["try", *command], input=text)
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result


def told(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def lines(*items: dict[str, Any]) -> str:
    return "".join(json.dumps(item) + "\n" for item in items)


@pytest.fixture
def judging(tmp_path: Path) -> Path:
    file = tmp_path / "mine.json"
    file.write_text(
        json.dumps(
            {
                "name": "mine",
                "candidate": {"kind": "text", "from": "last_turn", "extract": {"tag": "answer"}},
                "outcome": {"use": "test.judge"},
                "truth": "fast",
                "process": {"weight": 0.5, "checks": [{"use": "turns.errors"}]},
                "tiers": {"fast": [{"use": "test.judge"}]},
            }
        )
    )
    return file


@pytest.mark.parametrize("name", WITH_EXPECTATIONS)
def test_every_example_ends_as_it_says(runner: CliRunner, name: str, tmp_path: Path) -> None:
    file = EXAMPLES / name / "trajectories.jsonl"
    expected = [json.loads(line)["metadata"]["expected"] for line in file.read_text().splitlines()]
    found = told(run(runner, name, str(file), "--json"))
    assert len(found) == len(expected) >= 8
    for each, wanted in zip(found, expected, strict=True):
        record = each["record"]
        reason = record["reason"] or {}
        ended = {"reward": record["reward"], "code": reason.get("code"), "detail": reason.get("detail")}
        assert {key: ended[key] for key in wanted} == wanted, (each["id"], ended)
    assert {item["reward"] for item in expected} >= {0.0, 1.0, None}
    assert not list((tmp_path / "temporary").iterdir())


def test_there_is_an_example_for_every_fast_ladder() -> None:
    assert {"code", "math", "structured"} <= set(WITH_EXPECTATIONS)


def test_tests_of_a_program_are_shown_one_by_one(runner: CliRunner) -> None:
    tests = [{"id": "good", "stdin": "1\n", "stdout": "1"}, {"id": "bad", "stdin": "2\n", "stdout": "77"}]
    item = {"answer": "print(input())", "problem": {"reference": {"tests": tests}}}
    shown = run(runner, "code", "-", text=lines(item)).stdout
    rows = [line.split() for line in shown.splitlines() if line.strip().startswith(("id", "good", "bad"))]
    assert [row[:2] for row in rows] == [["id", "result"], ["good", "passed"], ["bad", "wrong_answer"]]
    assert "77" not in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_it_explains_itself_in_80_columns(runner: CliRunner) -> None:
    shown = run(runner, "structured", str(EXAMPLES / "structured" / "trajectories.jsonl")).stdout
    assert max(len(line) for line in shown.splitlines()) <= 80
    for words in (
        "taken from   the answer",
        "held against reference.value, inputs.schema (values hidden",
        "schema.answer 1  fast/0, outcome  reject, score 0",
        "wrong_value: of the right form",
        "formats=",
        "jsonschema-rs",
        "1 = outcome 1 (score of schema.answer)",
        "bad_schema",
        "never a number",
        "14 lines in",
    ):
        assert words in shown, words


def test_references_are_shown_only_when_asked_for(runner: CliRunner) -> None:
    item = {"answer": "{}", "problem": {"reference": {"schema": {"const": SECRET}, "value": SECRET}}}
    for options in ([], ["--json"]):
        assert SECRET not in run(runner, "structured", "-", *options, text=lines(item)).stdout
        asked = run(runner, "structured", "-", *options, "--show-reference", text=lines(item))
        assert SECRET in asked.stdout


def test_a_ladder_from_a_file_with_a_plugin(runner: CliRunner, judging: Path) -> None:
    turns = [
        {
            "message": "look",
            "calls": [{"id": "1", "name": "f"}],
            "observations": [{"call": "1", "text": "ok", "is_error": True}],
        },
        {"message": "so <answer> 7 </answer>"},
    ]
    item = {"turns": turns, "problem": {"reference": {"value": "7"}}}
    [found] = told(run(runner, str(judging), "-", "--plugin", PLUGIN, "--json", text=lines(item)))
    assert (found["candidate"], found["source"]) == ("7", "the last <answer> of the last turn's message")
    assert found["compared_with"] == ["reference.value"]
    assert found["formula"].startswith("1 = outcome 1 (score of test.judge) + 0.5 x 0 (mean of 1")
    assert found["reference"] is None
    shown = run(runner, str(judging), "-", "--plugin", PLUGIN, text=lines(item)).stdout
    assert "candidate    7" in shown
    assert "per turn   0, –" in shown


def test_it_goes_as_high_as_it_is_told(runner: CliRunner, tmp_path: Path) -> None:
    from tests.support.story import LADDER

    file = tmp_path / "carbons.json"
    file.write_text(json.dumps(LADDER))
    text = lines({"answer": "CCCCCCCCCC"})
    [low] = told(run(runner, str(file), "-", "--plugin", PLUGIN, "--json", text=text))
    assert low["record"]["reward"] is None
    assert "simulation" in low["note"]
    [high] = told(
        run(runner, str(file), "-", "--plugin", PLUGIN, "--json", "--tier", "high_fidelity", text=text)
    )
    assert high["record"]["outcome"] == 1.0
    assert high["record"]["tier"] == "high_fidelity"
    assert "lab" in high["note"]


def test_a_failing_check_is_tried_again_and_then_told(runner: CliRunner, tmp_path: Path) -> None:
    from tests.support.story import LADDER

    file = tmp_path / "carbons.json"
    file.write_text(json.dumps(LADDER))
    item = {"answer": "CC", "problem": {"inputs": {"fail": "transient"}}}
    command = (str(file), "-", "--plugin", PLUGIN, "--tier", "simulation")
    [found] = told(run(runner, *command, "--json", text=lines(item)))
    [failed] = [check for check in found["checks"] if check["verifier"] == "test.rough"]
    assert (failed["attempts"], failed["failure"]["code"]) == (2, "test_failure")
    assert found["record"]["reward"] is None
    assert "transient / test_failure" in run(runner, *command, text=lines(item)).stdout


def test_a_bad_line_costs_only_itself_and_names_its_field(runner: CliRunner) -> None:
    good = {"answer": "1", "problem": {"reference": {"schema": {"type": "integer"}}}}
    text = "\n".join(
        [
            json.dumps({"id": "a"} | good),
            "{broken",
            json.dumps(good | {"problem": {"reference": [1]}}),
            json.dumps(good | {"answr": "1"}),
            '{"answer": "1", "answer": "2"}',
            '{"answer": {"x": NaN}}',
            "",
            json.dumps({"id": "a"} | good),
            json.dumps({"id": "a"} | good | {"answer": "2"}),
            json.dumps(good | {"ladder": "organic-gap"}),
        ]
    )
    result = run(runner, "structured", "-", "--json", text=text, code=1)
    found = told(result)
    assert [each["line"] for each in found] == [1, 2, 3, 4, 5, 6, 8, 9, 10]
    errors = {
        each["line"]: (each["error"]["code"], each["error"]["field"]) for each in found if each["error"]
    }
    assert errors == {
        2: ("invalid_json", None),
        3: ("wrong_type", "problem.reference"),
        4: ("unknown_field", "answr"),
        5: ("duplicate_key", None),
        6: ("not_finite", "answer.x"),
        9: ("id_conflict", "id"),
    }
    assert [each["record"]["reward"] for each in found if each["record"]] == [1.0, 1.0, 1.0]
    assert "line 4: unknown_field" in result.stderr
    shown = run(runner, "structured", "-", text=text, code=1).stdout
    assert "wrong_type: problem.reference:" in shown


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["no-such-ladder", "-"], 2, "organic-gap"),
        (["structured", "no-such-file.jsonl"], 1, "no-such-file.jsonl"),
        (["structured", "-", "--tier", "lab"], 2, "people"),
        (["structured", "-", "--tier", "top"], 2, "high_fidelity"),
        (["structured", "-", "--plugin", "no.such.module"], 1, "no.such.module"),
        (["LADDER:{broken", "-"], 1, "not JSON"),
        (['LADDER:{"name": "x"}', "-"], 1, "candidate"),
        (["LADDER:[]", "-"], 1, "is not a ladder"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_what_it_is_asked_wrongly_is_said_plainly(
    runner: CliRunner, tmp_path: Path, command: list[str], code: int, words: str
) -> None:
    if command[0].startswith("LADDER:"):
        (tmp_path / "l.json").write_text(command[0].removeprefix("LADDER:"))
        command = [str(tmp_path / "l.json"), *command[1:]]
    result = run(runner, *command, code=code, text="{}\n")
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_verifier_that_cannot_run_here_is_named(runner: CliRunner, tmp_path: Path) -> None:
    document = {
        "name": "absent",
        "candidate": {"kind": "text"},
        "outcome": {"use": "missing"},
        "truth": "fast",
        "tiers": {"fast": [{"use": "missing"}]},
    }
    (tmp_path / "l.json").write_text(json.dumps(document))
    result = run(
        runner, str(tmp_path / "l.json"), "-", "--plugin", "tests.support.verifiers", code=1, text="{}\n"
    )
    assert "missing cannot run here: needs the extra 'chem'" in result.stderr


def test_a_model_cannot_steer_the_terminal(runner: CliRunner) -> None:
    item = {"answer": "\x1b[2J\x1b]0;owned\x07[bold]x[/bold]", "problem": {"reference": {"schema": True}}}
    shown = run(runner, "structured", "-", text=lines(item)).stdout
    assert "\x1b" not in shown
    assert "[bold]x[/bold]" in shown


def test_an_empty_file_is_no_error(runner: CliRunner) -> None:
    assert "nothing to try" in run(runner, "structured", "-", text="\n\n").stdout
    assert run(runner, "structured", "-", "--json", text="").stdout == ""


def test_as_a_process_it_leaves_nothing_behind(tmp_path: Path) -> None:
    """A database of the environment is not touched, and files, folders and children are gone."""
    temporary, data = tmp_path / "temporary", tmp_path / "data"
    temporary.mkdir()
    file = EXAMPLES / "structured" / "trajectories.jsonl"
    before = {process.pid for process in psutil.process_iter()}
    ended = subprocess.run(
        [sys.executable, "-m", "verifier_service.cli", "try", "structured", str(file), "--json"],
        capture_output=True,
        env={
            "PATH": "/usr/bin:/bin",
            "TMPDIR": str(temporary),
            "VERIFIER_DATA": str(data),
            "VERIFIER_DATABASE_URL": f"sqlite:///{tmp_path / 'mine.db'}",
            "HOME": str(tmp_path),
        },
        cwd=EXAMPLES.parent,
        timeout=120,
        check=True,
    )
    assert len(ended.stdout.splitlines()) == 14
    assert ended.stderr == b""
    assert not list(temporary.iterdir())
    assert not data.exists()
    assert not (tmp_path / "mine.db").exists()
    left = [p for p in psutil.process_iter(["pid", "cmdline", "environ"]) if p.pid not in before]
    assert not [p for p in left if (p.info["environ"] or {}).get("TMPDIR") == str(temporary)]
