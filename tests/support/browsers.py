"""A real Chromium for tests: ``$CHROMIUM``, PATH, Playwright's own, ``playwright install``, ``apt-get``.

When none works the tests that need it fail; they never skip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Playwright, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
INSTALL_S = 900
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


def chromium(playwright: Playwright) -> str:
    """The path of a Chromium that is here, or that could be brought here."""
    given = os.environ.get("CHROMIUM")
    if given:
        return given
    own = Path(playwright.chromium.executable_path)
    if (found := _on_path()) is not None:
        return found
    if own.exists() or (_ran([sys.executable, "-m", "playwright", "install", "chromium"]) and own.exists()):
        return str(own)
    if os.geteuid() == 0 and shutil.which("apt-get"):
        _ran(["apt-get", "install", "-y", "-qq", "chromium"])
        if (found := _on_path()) is not None:
            return found
    raise RuntimeError("no Chromium: set CHROMIUM, install chromium, or run `playwright install chromium`")


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless browser for one block, with a profile of its own."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(playwright), args=list(FLAGS))
        try:
            yield opened
        finally:
            opened.close()


def _on_path() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def _ran(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=INSTALL_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
