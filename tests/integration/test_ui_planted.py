"""What comes in with data: scripts in candidates, turns, comments and cells, formulas on the way out, names
of files that are paths, and workbooks that are bombs."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import httpx
import openpyxl
import psutil
import pytest

from tests.browser.desks import Desk, api_vote, desk
from tests.browser.people import BrowserServer
from tests.support import server
from tests.support.route_table import table
from tests.support.surfing import Surfer, surfer
from verifier_service import bootstrap
from verifier_service.app import create_app
from verifier_service.domain.lab_sheets import MAX_FILE_BYTES
from verifier_service.settings import Settings

PLANTED = "\"'><planted onclick=1><script>planted()</script><img src=planted onerror=planted()>"
QUANTITY = {"name": "gap", "unit": "eV"}
TURNS = [
    {
        "message": PLANTED,
        "calls": [{"id": "1", "name": PLANTED, "arguments": {PLANTED: PLANTED}}],
        "observations": [{"call": "1", "text": PLANTED, "is_error": True, "data": {PLANTED: PLANTED}}],
    }
]
RUNS_AS_FORMULA = ("=", "+", "-", "@", "\t", "\r")
MIB = 2**20


class _Planted(HTMLParser):
    """The tags of an answer that were not ours."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        own = tag != "script" or values.get("src", "").startswith("/ui/static/")
        if tag == "planted" or not own or any(name.startswith("on") for name in values):
            self.found.append(self.get_starttag_text() or tag)
        if tag in ("img", "a", "form") and any(value == "planted" for value in values.values()):
            self.found.append(self.get_starttag_text() or tag)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserServer]:
    with server.running(tmp_path_factory.mktemp("planted"), review_grace_s="0.2") as running:
        yield BrowserServer(running)


@pytest.fixture(scope="module")
def admin(site: BrowserServer) -> Surfer:
    return surfer(site.server, "admin")


@pytest.fixture(scope="module")
def told(site: BrowserServer) -> Desk:
    """An item with something planted wherever people or policies write, decided by somebody who plants."""
    made = desk(
        site, f"C{PLANTED}", kind="text", turns=TURNS, prompt=PLANTED, instructions=PLANTED, approvals=2
    )
    api_vote(made, "ann", "reject", reason=PLANTED, comment=PLANTED)
    return made


def upload(who: Surfer, name: str, content: bytes, confirm: str = "") -> httpx.Response:
    """Send a file as the page of laboratories does."""
    form = {"mode": "rows", "by": PLANTED, **({"confirm": confirm} if confirm else {})}
    headers = {"Origin": who.url, "Sec-Fetch-Site": "same-origin", "X-CSRF-Token": who.token()}
    return who.http.post("/ui/lab/results", data=form, files={"file": (name, content)}, headers=headers)


def imported(who: Surfer, name: str, content: bytes) -> httpx.Response:
    """A dry run, and the import of what it checked."""
    checked = upload(who, name, content)
    assert checked.status_code == 200, checked.text
    digest = checked.text.partition('name="confirm" value="')[2].partition('"')[0]
    assert digest, checked.text
    return upload(who, name, content, digest)


def test_names_of_files_are_names(site: BrowserServer, admin: Surfer) -> None:
    made = desk(site, *(f"{'C' * at}N" for at in range(1, 9)), quantity=QUANTITY)
    data = site.server.data
    before = {path.name for path in data.parent.iterdir()} | {path.name for path in Path.cwd().iterdir()}
    names = {
        "../../../../tmp/planted-1.csv": "planted-1.csv",
        "/etc/planted-2.csv": "planted-2.csv",
        "..\\..\\planted-3.csv": "planted-3.csv",
        "C:\\planted-4.csv": "planted-4.csv",
        "a/../../planted-5.csv": "planted-5.csv",
        "..%2f..%2fplanted-6.csv": "..%2f..%2fplanted-6.csv",
        "planted-7\u202evsc.csv": "planted-7vsc.csv",
        "x" * 500 + "planted-8.csv": "planted-8.csv",
    }
    for (sent, _), review in zip(names.items(), made.items.values(), strict=True):
        row = f"review,quantity,value,unit\n{review},gap,4.31,eV\n".encode()
        assert "1 row was imported" in imported(admin, sent, row).text, sent
    listed = admin.get("/ui/lab").text
    for shown in names.values():
        assert shown in listed, shown
    for sent in ("/etc/", "../..", "C:", "\u202e", "\\"):
        assert sent not in listed.replace("..%2f..%2f", ""), sent
    after = {path.name for path in data.parent.iterdir()} | {path.name for path in Path.cwd().iterdir()}
    assert after == before
    assert [path for path in data.rglob("*planted*") if path.is_file()] == []


def test_a_bomb_is_refused_and_others_are_served(site: BrowserServer, admin: Surfer) -> None:
    assert upload(admin, "empty.xlsx", bomb({})).status_code == 422  # what reads workbooks is loaded
    process = psutil.Process(site.server.process.pid)
    resident = process.memory_info().rss
    for inside, words in (
        ({"xl/bomb.bin": b"\0" * 20_000_000}, "times its packed size"),
        ({"xl/bomb.bin": b"\0" * 200 * MIB}, "bytes unpacked"),
        ({f"xl/{at}.bin": b"\0" * 13_000_000 for at in range(3)}, "bytes unpacked"),
        ({f"xl/{at}": b"" for at in range(1_001)}, "entries"),
    ):
        answer = upload(admin, "bomb.xlsx", bomb(inside))
        assert answer.status_code == 422, answer.text
        assert words in answer.text
    assert process.memory_info().rss - resident < 100 * MIB
    assert admin.get("/ui/lab").status_code == 200


def bomb(inside: dict[str, bytes]) -> bytes:
    """A workbook with more in it."""
    packed = io.BytesIO()
    openpyxl.Workbook().save(packed)
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, content in inside.items():
            archive.writestr(name, content)
    assert len(packed.getvalue()) < MAX_FILE_BYTES
    return packed.getvalue()


def test_what_is_planted_is_text_on_every_page(
    site: BrowserServer, admin: Surfer, told: Desk, tmp_path: Path
) -> None:
    made = desk(site, "CCN", "CCO", quantity=QUANTITY)
    cells = f'"{PLANTED.replace(chr(34), chr(34) * 2)}"'
    rows = f"review,quantity,value,unit,{cells}\n{made.first},gap,4.31,eV,{cells}\n"
    rows += f"{cells},gap,1,eV,{cells}\n"
    done = imported(admin, f"{PLANTED[:40]}.csv", rows.encode()).text
    assert "1 row was imported, 1 was left out" in done
    lab = done.partition('<a href="/ui/lab/imports/')[2].partition('"')[0]
    at = {"review": told.first, "run": told.run, "trajectory": "t0", "id": lab}
    seen: dict[str, str] = {}
    for path in pages(tmp_path):
        url = path.format(**{**ABSENT, **{name: quote(value, safe="") for name, value in at.items()}})
        answer = admin.get(url)
        assert answer.status_code in (200, 303, 404, 422), url
        if answer.headers.get("content-type", "").startswith("text/html"):
            seen[url] = answer.text
            assert _Planted(answer.text).found == [], url
    assert sum("&lt;planted" in text for text in seen.values()) >= 6, "where is it shown?"


ABSENT = dict.fromkeys(("id", "webhook", "run", "trajectory", "review"), "absent")


def pages(folder: Path) -> list[str]:
    """Every address that a browser may look at."""
    service = bootstrap.build(Settings(data=folder))
    try:
        routes = table(create_app(service))
    finally:
        service.drawer.close()
        service.store.close()
    paths = [one.path for one in routes if one.method == "GET" and one.path.startswith("/ui/")]
    return [path.replace(":path}", "}") for path in paths if "logout" not in path]


@pytest.mark.parametrize(
    "smiles",
    ["C<script>planted()</script>", f"C{PLANTED}", 'CC"><planted/>', "]]><planted/>", "&lt;planted"],
)
def test_a_drawing_holds_nothing_of_what_was_written(admin: Surfer, smiles: str) -> None:
    answer = admin.get(f"/ui/drawings/molecule.svg?smiles={quote(smiles, safe='')}")
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert _Planted(answer.text).found == []


def test_no_export_runs_in_a_spreadsheet(site: BrowserServer, admin: Surfer) -> None:
    answers = [f"{start}cmd|' /C calc'!A0" for start in RUNS_AS_FORMULA]
    made = desk(site, *answers, kind="text", quantity=QUANTITY)
    listed = admin.get(f"/ui/lab/requests?queue={made.queue}")
    assert listed.headers["content-disposition"].startswith("attachment")
    api_vote(made, "@ann", "reject", reason="@SUM(A1)", comment="+1+cmd")
    with site.client() as client:
        trail = client.get("/v1/reviews/trail", params={"format": "csv"}).raise_for_status()
    for text, most in ((listed.text, 6), (trail.text, 2)):
        rows = list(csv.reader(io.StringIO(text, newline="")))
        cells = [cell for row in rows for cell in row]
        assert [cell for cell in cells if cell.startswith(RUNS_AS_FORMULA) and not number(cell)] == []
        assert len([cell for cell in cells if cell.startswith("'")]) >= most // 2


def number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
