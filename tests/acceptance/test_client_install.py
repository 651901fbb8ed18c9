"""What a trainer installs beside torch: few packages, and nothing of the server is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_PACKAGES = 12
LOOK = """
import importlib.metadata, json, sys
import verifier_service.client
import verifier_service.trainers.scoring, verifier_service.trainers.replay
ours = sorted({".".join(n.split(".")[:2]) for n in sys.modules if n.startswith("verifier_service.")})
names = sorted({d.name for d in importlib.metadata.distributions()})
print(json.dumps({"ours": ours, "packages": names}))
"""
SECONDS = "import time; began = time.process_time(); {}; print(time.process_time() - began)"
DEPENDENCIES = "import httpx, pydantic; pydantic.create_model('A', a=(int, 1))"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the base install."""
    folder = tmp_path_factory.mktemp("client") / "environment"
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    interpreter = folder / "bin" / "python"
    install = [*uv, "pip", "install", "--quiet", "--python", str(interpreter), str(ROOT)]
    subprocess.run(install, check=True, timeout=300)
    return interpreter


def test_the_base_install_is_small(python: Path) -> None:
    looked = json.loads(run(python, LOOK))
    assert looked["ours"] == [f"verifier_service.{part}" for part in ("client", "domain", "trainers")]
    assert "verifier-service" in looked["packages"]
    assert len(looked["packages"]) <= MOST_PACKAGES, looked["packages"]


def test_the_import_costs_little_beside_its_two_dependencies(python: Path) -> None:
    ours = min(float(run(python, SECONDS.format("import verifier_service.client"))) for _ in range(5))
    bare = min(float(run(python, SECONDS.format(DEPENDENCIES))) for _ in range(5))
    assert ours < 2 * bare


def run(python: Path, code: str) -> str:
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, cwd="/").stdout
