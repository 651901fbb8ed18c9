"""Pages in a real browser: a server for the session, a page per test, and what every test must keep.

A test fails when its page wrote an error to the console or broke the Content-Security-Policy. A picture
of the page at the end of each test goes to ``tests/browser/screenshots`` (``$BROWSER_SCREENSHOTS``), named
by module and test; of one that failed it is in ``failed`` there, beside its trace, which
``playwright show-trace`` opens.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests.browser.people import BrowserServer
from tests.support import browsers, server

VIEWPORT = {"width": 1280, "height": 720}
TIMEOUT_MS = 30_000
SCREENSHOTS = Path(os.environ.get("BROWSER_SCREENSHOTS", Path(__file__).with_name("screenshots")))
# What the browser and htmx say of an answer that a test asked for; what pages say of it is tested.
EXPECTED = re.compile(
    r"^(Failed to load resource: the server responded with a status of|Response Status Error Code) 4\d\d"
    # What drawing without a graphics card says.
    r"|^\[\.WebGL-\w+\]GL Driver Message .* GPU stall due to ReadPixels"
)
SNAPSHOTS = os.environ.get("BROWSER_SNAPSHOTS") == "1"  # of the page at each step; half as slow again
FAILED = pytest.StashKey[bool]()
expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture(scope="package")
def chrome() -> Iterator[Browser]:
    """Not longer than these tests: while Playwright runs, its event loop is the thread's, and tests of
    other folders in this process need one of their own."""
    with browsers.browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserServer]:
    """A real server, embedded, on SQLite, for all tests that leave it as they found it."""
    with server.running(tmp_path_factory.mktemp("site"), review_grace_s="0.5") as running:
        yield BrowserServer(running)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether a test has failed, for what is kept of it."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


def place_of(item: pytest.Item, suffix: str) -> Path:
    """Where something of a test is kept; the folder is there."""
    folder = SCREENSHOTS / "failed" if item.stash.get(FAILED, False) else SCREENSHOTS
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{item.path.stem}.{item.name}")
    return folder / f"{name[:180]}{suffix}"


@pytest.fixture
def context(chrome: Browser, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """A browser of somebody new: no cookies, nothing stored."""
    opened = chrome.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    opened.set_default_timeout(TIMEOUT_MS)
    opened.tracing.start(snapshots=SNAPSHOTS)
    yield opened
    failed = request.node.stash.get(FAILED, False)
    opened.tracing.stop(path=place_of(request.node, ".zip") if failed else None)
    opened.close()


@pytest.fixture
def page(context: BrowserContext, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page whose console is watched."""
    opened, complaints = context.new_page(), []

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not EXPECTED.match(message.text):
            complaints.append(f"{message.type}: {message.text} ({opened.url})")

    opened.on("console", heard)
    opened.on("pageerror", lambda error: complaints.append(f"exception: {error} ({opened.url})"))
    yield opened
    item = request.node
    item.stash[FAILED] = item.stash.get(FAILED, False) or complaints != []
    opened.screenshot(path=place_of(item, ".png"), full_page=True)
    assert complaints == []
