"""Every page of operators and reviewers that lists something, over a store of a million trajectories.

    python -m benchmarks.big_pages [--rows 1000000] [--times 10] [--only sqlite|postgres] [--bar 1.0]

The store is filled in the database itself (``benchmarks/big_store.py``): 80 % of the trajectories are of
the run ``big``, seven in a hundred wait on the desk, and people have voted on fourteen in a hundred. Then
`verifier serve` runs on it, with its sweep and its workers, and an admin, who is one of those people, opens
each page over HTTP. Figures of a whole run are counted aside: their panels say so until they are known, and
are opened again once they are.

Prints for each page, in milliseconds, ``cold`` (the first request, with the database's files out of the
system's memory), the median and the worst of ``--times`` requests after it, and the median of the API's
call for the same rows, which waits for figures of a whole run. Exits 1 when a page ever takes as long as
the bar, or does not answer.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from benchmarks.big_store import BASE, BIG, KINDS, QUEUES, described, fill, originals
from tests.support.databases import postgres_server
from tests.support.server import Server, running
from tests.support.surfing import Surfer, newcomer
from verifier_service.domain.cursors import cursor_of

PERSON = "person-3"
SETTINGS = {"learning": "false", "review_grace_s": "0.5", "log_level": "warning"}
LINES = 50


class Page(NamedTuple):
    """A page, and the call of the API that gives the same rows; empty where there is none. ``counted``: it
    shows figures of a whole run, or of a whole project. ``file``: it is a file of thousands of rows, which
    has no bar."""

    name: str
    path: str
    api: str = ""
    counted: bool = False
    file: bool = False


def pages(rows: int) -> list[Page]:
    """All of them. ``rows``: trajectories in the store."""
    return [*_runs(rows), *_cases(rows), *_operators(rows), *_desk(rows), *_figures()]


def _runs(rows: int) -> Iterator[Page]:
    yield Page("runs", "/ui/runs", "/v1/runs")
    places = {"": "", ", middle": cursor_of(BASE + rows // 2), ", last": cursor_of(BASE + 40)}
    chosen = [("", "")]
    chosen += [(f", {status}", f"&status={status}") for status in ("final", "pending", "retracted")]
    some = ("step1", f"step{rows // 8_192}/", "step0/1", "zzz")
    chosen += [(f", group {group}", f"&group={group}") for group in some]
    chosen += [(", group step1, final", "&group=step1&status=final")]
    for name, only in chosen:
        for place, after in places.items():
            query = (f"after={after}" if after else "") + only
            api = f"/v1/runs/{BIG}/trajectories?limit={LINES}&{query}"
            yield Page(f"run{name}{place}", f"/ui/runs/{BIG}?{query}", api)


def _figures() -> Iterator[Page]:
    """The last, because counting goes on beside what is opened next."""
    yield Page("runs: queues", "/ui/runs/queues", "/v1/queues", counted=True)
    panels = {"rewards": "/distribution", "spend": "/spending", "price": "/spending", "flow": ""}
    for panel, call in {**panels, "curve": "/economics"}.items():
        path = f"/ui/runs/{BIG}/panels/{panel}"
        yield Page(f"run: {panel}", path, f"/v1/runs/{BIG}{call}", counted=True)
    calibration = f"/ui/trust/calibration?run={BIG}&ladder="
    yield Page("trust: calibration", calibration, f"/v1/runs/{BIG}/calibration", counted=True)
    agreement = f"/v1/reviews/agreement?queue={QUEUES[0]}"
    yield Page("trust: reviewers", "/ui/trust/reviewers", agreement, counted=True)
    yield Page("desk: agreement", "/ui/desk/agreement", agreement, counted=True)


def _cases(rows: int) -> Iterator[Page]:
    """One trajectory of each kind, from the middle. The first numbers of a hundred that are in the run."""
    began, near = 0, rows // 2 // 100 * 100
    for kind in KINDS:
        number = next(n for n in range(near + began, near + began + kind.share) if n * 7 % 20 < 16)
        case = f"runs/{BIG}/trajectories/t{number}"
        yield Page(f"case, {kind.name}", f"/ui/{case}", f"/v1/{case}")
        if kind.name in ("measured", "stuck"):
            for part in ("state", "checks", "turns"):
                yield Page(f"case, {kind.name}: {part}", f"/ui/{case}/{part}", f"/v1/{case}")
        began += kind.share


def _operators(rows: int) -> Iterator[Page]:
    yield Page("trust", "/ui/trust", "/v1/alarms")
    yield Page("trust, big", f"/ui/trust?run={BIG}")
    yield Page("trust: alarms", "/ui/trust/alarms", "/v1/alarms")
    yield Page("operations", "/ui/operations", "/v1/checks/failed?limit=50")
    middle = cursor_of(BASE + rows * 4)
    yield Page("operations: failed", "/ui/operations/failed", "/v1/checks/failed?limit=50")
    yield Page(
        "operations: failed, middle",
        f"/ui/operations/failed?failed_after={middle}",
        f"/v1/checks/failed?limit=50&after={middle}",
    )
    yield Page("operations: stuck", "/ui/operations/stuck", "/v1/checks/stuck?limit=50")
    yield Page("operations: workers", "/ui/operations/workers", "/v1/workers")
    yield Page("operations: webhooks", "/ui/operations/webhooks", "/v1/webhooks")
    yield Page("lab", "/ui/lab")
    yield Page(
        "lab: requests", f"/ui/lab/requests?queue={QUEUES[2]}", f"/v1/lab-requests?queue={QUEUES[2]}"
    )


def _desk(rows: int) -> Iterator[Page]:
    yield Page("desk", "/ui/desk")
    yield Page("desk, find", "/ui/desk?find=chem")
    for state in ("", "open", "claimed", "disputed", "decided", "effective", "expired", "cancelled"):
        api = "/v1/reviews?limit=50" + (f"&state={state}" if state and state != "disputed" else "")
        yield Page(f"all items, {state or 'any'}", f"/ui/desk/all?state={state}", api)
    for state in ("", "open", "effective", "disputed"):
        for queue in (QUEUES[1], "nowhere"):
            query = f"queue={queue}&state={state}"
            yield Page(f"all items, {state or 'any'}, {queue}", f"/ui/desk/all?{query}")
        for place, after in (("middle", BASE + rows // 2), ("last", BASE + rows - 300)):
            yield Page(f"all items, {state or 'any'}, {place}", f"/ui/desk/all?state={state}&after={after}")
    began = sum(kind.share for kind in KINDS[: [kind.name for kind in KINDS].index("judged")])
    number = rows // 2 // 100 * 100 + began
    yield Page("item", f"/ui/desk/items/r{number}", f"/v1/reviews/r{number}")
    yield Page("item: turns", f"/ui/desk/items/r{number}/turns")


def timed(http: httpx.Client, path: str) -> float:
    """Milliseconds of one request. Raises ``SystemExit`` when it is no page."""
    began = time.perf_counter()
    answer = http.get(path, headers={"Accept": "text/html" if path.startswith("/ui") else "*/*"})
    took = (time.perf_counter() - began) * 1_000
    if answer.status_code != 200:
        raise SystemExit(f"{path} answered {answer.status_code}: {answer.text[:300]}")
    return took


def forget(files: Callable[[], list[Path]]) -> None:
    """Let the system forget what it has read of the files."""
    for file in files():
        try:
            number = os.open(file, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            os.fdatasync(number)
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(number)


def measured(
    server: Server, seen: list[Page], times: int, files: Callable[[], list[Path]], bar_ms: float
) -> bool:
    """Print all of them; whether each stayed below the bar."""
    surfer = Surfer(server.url)
    if (signed := surfer.sign_in(PERSON)).status_code != 303:
        raise SystemExit(signed.text)
    surfer.post("/ui/desk/claim", {"queue": QUEUES[1]}, page="/ui/desk")
    print(f"  load {os.getloadavg()[0]:.1f}; milliseconds")
    print(f"  {'':36}{'cold':>8}{'median':>8}{'worst':>8}{'API':>8}")
    slow = 0
    with server.client(timeout=1_200.0) as api:
        for page in seen:
            forget(files)
            figures, called = _opened(surfer.http, api, page, times)
            misses = max(figures) >= bar_ms and not page.file
            slow += misses
            cells = [*figures, *([called] if page.api else [])]
            line = f"  {page.name:36}" + "".join(f"{cell:>8.0f}" for cell in cells)
            print(line + ("  MISSES" if misses else "  (a file)" if page.file else ""), flush=True)
    print(f"  {len(seen)} pages, {slow} of them not below {bar_ms:.0f} ms; load {os.getloadavg()[0]:.1f}")
    return not slow


def _opened(
    surfing: httpx.Client, api: httpx.Client, page: Page, times: int
) -> tuple[tuple[float, float, float], float]:
    """How long a page took cold, in the middle and at worst, and the API's call."""
    cold = timed(surfing, page.path)
    if page.counted:
        aside = timed(surfing, page.path)
        called = timed(api, page.api)
        warm = sorted([aside, *(timed(surfing, page.path) for _ in range(times))])
    else:
        warm = sorted(timed(surfing, page.path) for _ in range(times))
        called = statistics.median(timed(api, page.api) for _ in range(3)) if page.api else 0.0
    return (cold, statistics.median(warm), warm[-1]), called


@contextmanager
def filled(folder: Path, url: str, rows: int) -> Iterator[None]:
    """The store, made and filled; nothing runs on it."""
    with running(folder, database_url=url, **SETTINGS) as server:
        originals(server)
        newcomer(server, "admin", login=PERSON, name="Person Three")
    began = time.perf_counter()
    fill(url, rows)
    print(f"  filled in {time.perf_counter() - began:.0f} s: " + "\n  ".join(described(url)), flush=True)
    yield


def on_sqlite(given: argparse.Namespace) -> bool:
    """SQLite on disk."""
    print("SQLite")
    with tempfile.TemporaryDirectory(prefix="big-pages-") as home:
        folder = Path(home)
        url = f"sqlite:///{folder / 'verifier.db'}"
        with filled(folder, url, given.rows), running(folder, database_url=url, **SETTINGS) as server:
            files = lambda: list(folder.glob("verifier.db*"))  # noqa: E731
            return measured(server, pages(given.rows), given.times, files, given.bar * 1_000)


def on_postgres(given: argparse.Namespace) -> bool:
    """Postgres on disk, with durable commits."""
    print("Postgres")
    with (
        postgres_server(durable=True) as postgres,
        tempfile.TemporaryDirectory(prefix="big-pages-") as home,
    ):
        folder, url = Path(home), postgres.empty()
        data = Path(tempfile.gettempdir())
        with filled(folder, url, given.rows), running(folder, database_url=url, **SETTINGS) as server:
            files = lambda: list(data.glob("vpg-*/data/base/*/[0-9]*"))  # noqa: E731
            return measured(server, pages(given.rows), given.times, files, given.bar * 1_000)


def main() -> int:
    """Measure on what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    parser.add_argument("--bar", type=float, default=1.0, help="seconds")
    given = parser.parse_args()
    measures = {"sqlite": on_sqlite, "postgres": on_postgres}
    chosen = [given.only] if given.only else list(measures)
    good = [measures[name](given) for name in chosen]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
