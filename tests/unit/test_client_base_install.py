"""The client needs pydantic and httpx and nothing of the server: a trainer installs it beside torch."""

from __future__ import annotations

import subprocess
import sys
import time

SERVER = "fastapi starlette uvicorn sqlalchemy alembic psycopg pydantic_settings orjson structlog psutil"
EXTRAS = "platformdirs typer rich click rdkit tblite pyscf numpy ase"
BLOCKED = tuple(f"{SERVER} {EXTRAS}".split())
SCRIPT = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ModuleNotFoundError(f"{{name}} is not in the base install", name=name)
sys.meta_path.insert(0, Block())
{{body}}
"""


def run(body: str) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.replace("{body}", body)
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_client_imports_with_the_base_install_alone() -> None:
    done = run(
        "import verifier_service.client as c\n"
        "c.Client('http://127.0.0.1:1', 'k').close()\n"
        "ours = {n for n in sys.modules if n.startswith('verifier_service.')}\n"
        "sys.stdout.write(' '.join(sorted({n.split('.')[1] for n in ours})))"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "client domain"


def test_the_import_is_quick() -> None:
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", "import httpx, pydantic.v1"], timeout=60, check=False)
    base = time.perf_counter() - began
    began = time.perf_counter()
    done = run("import verifier_service.client")
    assert done.returncode == 0, done.stderr
    assert time.perf_counter() - began < base + 20.0


def test_the_command_line_names_the_extra_it_needs() -> None:
    done = run(
        "import importlib.util as u\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda n, p=None: None if n in ('typer', 'rich') else real(n, p)\n"
        "from verifier_service.cli import main\n"
        "main()"
    )
    assert done.returncode == 1
    assert "pip install 'verifier-service[cli]'" in done.stderr
    assert done.stdout == ""
