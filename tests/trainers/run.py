"""Make the trainers' environments and run their tests: ``python -m tests.trainers.run [NAME ...]``.

An environment is made again when its requirements change. Ends with a table of figures, and with status 1
when a test or an installation failed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INSTALL_TRIES = 2


@dataclass(frozen=True, slots=True)
class Environment:
    """A folder with an interpreter and a trainer's packages, and the tests that run there."""

    name: str
    interpreter: str
    tests: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return ROOT / ".venvs" / self.name

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin" / "python")

    @property
    def requirements(self) -> list[list[str]]:
        """Arguments of pip, one list a call."""
        files = HERE / "requirements"
        with_needs, alone = files / f"{self.name}.txt", files / f"{self.name}.no-deps.txt"
        calls = [["--requirement", str(with_needs)]]
        if alone.exists():
            calls.append(["--no-deps", "--requirement", str(alone)])
        return calls


@dataclass(frozen=True, slots=True)
class Figures:
    """What became of an environment's tests."""

    name: str
    passed: int
    failed: int
    seconds: float
    note: str = ""

    @property
    def good(self) -> bool:
        """All passed, and there were some."""
        return self.passed > 0 and self.failed == 0 and not self.note


def environments() -> list[Environment]:
    """All of ``environments.toml``, in its order."""
    tables = tomllib.loads((HERE / "environments.toml").read_text())
    return [
        Environment(name, _interpreter(table.get("python")), tuple(table["tests"]))
        for name, table in tables.items()
    ]


def _interpreter(version: str | None) -> str:
    """This one, or another version's: that on the path, else one of pyenv's, whose shim need not work."""
    if version is None:
        return sys.executable
    name = f"python{version}"
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for candidate in (name, *sorted(str(path) for path in root.glob(f"versions/{version}*/bin/{name}"))):
        if shutil.which(candidate) is None:
            continue
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return name


def make(environment: Environment) -> None:
    """Make it, unless it is as its requirements and the project say. Raises ``CalledProcessError``."""
    packages, project = environment.folder / ".packages", environment.folder / ".project"
    files = [Path(call[-1]) for call in environment.requirements]
    wanted = _digest(*files) + environment.interpreter
    if _read(packages) != wanted:
        subprocess.run(
            [environment.interpreter, "-m", "venv", "--clear", str(environment.folder)], check=True
        )
        for arguments in environment.requirements:
            _install(environment, arguments)
        packages.write_text(wanted)
    if _read(project) != (wanted := _digest(ROOT / "pyproject.toml")):
        _install(environment, ["--editable", str(ROOT)])
        project.write_text(wanted)


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _read(stamp: Path) -> str | None:
    return stamp.read_text() if stamp.exists() else None


def _install(environment: Environment, arguments: list[str]) -> None:
    pip = [environment.python, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir"]
    for left in reversed(range(INSTALL_TRIES)):
        if subprocess.run([*pip, "install", "-qq", *arguments], check=left == 0).returncode == 0:
            return


def test(environment: Environment) -> Figures:
    """Run its tests."""
    report = environment.folder / "report.xml"
    report.unlink(missing_ok=True)
    began = time.monotonic()
    done = subprocess.run(
        [environment.python, "-m", "pytest", "-c", str(HERE / "pytest.ini"), f"--junitxml={report}"]
        + [str(HERE / name) for name in environment.tests],
        cwd=ROOT,
        env={**os.environ, "VERIFIER_SERVER_PYTHON": sys.executable},
    )
    seconds = time.monotonic() - began
    if not report.exists():
        return Figures(environment.name, 0, 0, seconds, f"pytest ended with status {done.returncode}")
    counts = ElementTree.parse(report).getroot()[0].attrib
    failed, skipped = int(counts["failures"]) + int(counts["errors"]), int(counts["skipped"])
    note = f"{skipped} skipped" if skipped else ""
    return Figures(environment.name, int(counts["tests"]) - failed - skipped, failed, seconds, note)


def run(environment: Environment) -> Figures:
    """Make it and run its tests."""
    sys.stdout.write(f"== {environment.name}: {' '.join(environment.tests)}\n")
    sys.stdout.flush()
    try:
        make(environment)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        return Figures(environment.name, 0, 0, 0.0, f"not installed: {error}")
    return test(environment)


def lines(figures: list[Figures]) -> list[str]:
    """The table."""
    width = max(len("environment"), *(len(one.name) for one in figures))
    table = [f"{'environment':<{width}}  passed  failed  seconds\n"]
    for one in figures:
        row = f"{one.name:<{width}}  {one.passed:>6}  {one.failed:>6}  {one.seconds:>7.0f}"
        table.append(f"{row}  {one.note}".rstrip() + "\n")
    return table


def main(names: list[str]) -> int:
    """All environments, or those named; the exit status."""
    known = {environment.name: environment for environment in environments()}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.stderr.write(f"no such environment: {', '.join(unknown)}; there are {', '.join(known)}\n")
        return 2
    figures = [run(known[name]) for name in names or known]
    sys.stdout.write("\n" + "".join(lines(figures)))
    return 0 if all(one.good for one in figures) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
