"""Which sandboxes and languages this machine has, and what is said where it lacks one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiers.sandbox import probe, seccomp, shops
from tiers.sandbox.languages import BadLanguages, declared
from tiers.sandbox.probe import NoSandbox

ROOT = Path(__file__).resolve().parents[2]


def test_without_a_sandbox_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoSandbox, match="switched off"):
        probe.find("off")
    with pytest.raises(NoSandbox, match="choose one of"):
        probe.find("chroot")
    monkeypatch.setenv("VERIFIER_SANDBOX", "remote")
    monkeypatch.delenv("VERIFIER_SANDBOX_URL", raising=False)
    with pytest.raises(NoSandbox, match="VERIFIER_SANDBOX_URL"):
        shops.chosen()


def test_the_filter_exists_for_both_architectures() -> None:
    for machine in ("x86_64", "aarch64"):
        assert len(seccomp.build(machine=machine)) % 8 == 0
        assert len(seccomp.build(machine=machine, alone=True)) > len(seccomp.build(machine=machine))
    with pytest.raises(seccomp.NoFilter):
        seccomp.build(machine="riscv64")


def test_landlock_holds_where_an_ordinary_user_works(tmp_path: Path) -> None:
    """As root there is no Landlock mode, so the trial runs as another user where there is one."""
    if os.geteuid() != 0:
        assert probe.find("landlock").kind == "landlock"
        return
    python = Path("/usr/bin/python3")
    if (
        not python.exists()
        or subprocess.run(
            [python, "-c", "import sys; sys.exit(sys.version_info[:2] != (3, 11))"]
        ).returncode
    ):
        with pytest.raises(NoSandbox, match="ordinary user"):
            probe.find("landlock")
        return
    site = next(each for each in sys.path if each.endswith("site-packages"))
    code = "from tiers.sandbox import probe; print(probe.find('landlock').kind)"
    ended = subprocess.run(
        [str(python), "-B", "-c", code],
        env={"PYTHONPATH": f"{ROOT}:{site}", "PATH": "/usr/bin:/bin"},
        cwd="/",
        user=65_534,
        group=65_534,
        extra_groups=[],
        capture_output=True,
        text=True,
    )
    assert ended.stdout == "landlock\n", ended.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("{}", "JSON list"),
        ('["cobol"]', "cobol"),
        ('[{"name": 1}]', "name"),
        ('[{"name": "x", "run": ["no-such-program"]}]', "no-such-program"),
    ],
)
def test_languages_that_cannot_be_had_are_named(text: str, words: str) -> None:
    with pytest.raises(BadLanguages, match=words):
        declared(text)
