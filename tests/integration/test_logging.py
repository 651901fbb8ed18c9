"""What a log may hold: a traceback without the values of variables."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import logging, sys
from verifier_service.observability import configure_logging
configure_logging("info", as_json=sys.argv[1] == "json")
def handle(token):
    raise RuntimeError("broken")
try:
    handle("SECRET-" + "TOKEN")
except RuntimeError:
    logging.getLogger("x").exception("it failed")
"""


@pytest.mark.parametrize("form", ["json", "lines"])
def test_tracebacks_carry_no_local_variables(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, form], capture_output=True, text=True, check=True, timeout=60
    )
    assert "RuntimeError: broken" in done.stderr
    assert "in handle" in done.stderr
    assert "SECRET-TOKEN" not in done.stderr
