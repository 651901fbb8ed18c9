"""The template of a verifier: built, installed into an environment of its own, and used from there."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "examples" / "verifier_plugin"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with this project, its libraries, and the template's wheel."""
    folder = tmp_path_factory.mktemp("plugin")
    code = f"from hatchling.build import build_wheel; print(build_wheel({str(folder)!r}))"
    built = subprocess.run(
        [sys.executable, "-c", code], cwd=TEMPLATE, capture_output=True, text=True, check=True
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    [site] = (folder / "env").glob("lib/python*/site-packages")
    (site / "project.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n{ROOT}\n")
    with zipfile.ZipFile(folder / built.stdout.split()[-1]) as wheel:
        wheel.extractall(site)
    return folder / "env" / "bin" / "python"


def run(python: Path, *arguments: str) -> str:
    ended = subprocess.run(
        [str(python), *arguments], cwd=TEMPLATE, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, (ended.stdout, ended.stderr)
    return ended.stdout


def test_it_is_found_by_its_entry_point(python: Path) -> None:
    code = "from tiers.catalog import VerifierCatalog as C; print(C().verifier('text.anagram').version)"
    assert run(python, "-c", code).strip() == "1"


def test_it_conforms(python: Path) -> None:
    shown = run(
        python,
        *("-m", "verifier_service.cli", "conformance", "anagram_verifier:Anagram"),
        *("--samples", "samples.jsonl", "--json"),
    )
    report = json.loads(shown)
    assert {check["verdict"] for check in report["checks"]} == {"passed", "skipped"}
    assert [c["name"] for c in report["checks"] if c["verdict"] == "skipped"] == ["precheck"]
    assert report["samples"] == 8


def test_its_ladder_can_be_tried(python: Path) -> None:
    shown = run(python, "-m", "verifier_service.cli", "try", "ladder.json", "trajectories.jsonl", "--json")
    found = [json.loads(line) for line in shown.splitlines()]
    assert [each["record"]["reward"] for each in found] == [1.0, 0.0, 0.0, None]
    assert [(each["record"]["reason"] or {}).get("detail") for each in found] == [
        None,
        "other_letters",
        "empty_answer",
        "bad_reference",
    ]


def test_its_own_tests_pass(python: Path) -> None:
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", "tests")


def test_the_how_to_shows_the_template_as_it_is() -> None:
    """Whoever copies from the documentation copies what is tested."""
    text = (ROOT / "docs" / "verifiers.md").read_text()
    code = (TEMPLATE / "anagram_verifier.py").read_text()
    blocks = [block.split("\n", 1)[1] for block in text.split("```")[1::2] if block.startswith("python\n")]
    assert any(block.strip() in code for block in blocks)
    assert '"text.anagram" = "anagram_verifier:Anagram"' in text
