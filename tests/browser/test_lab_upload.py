"""Results of a laboratory, uploaded: a dry run with every kind of bad row, then the import."""

from __future__ import annotations

import json
from pathlib import Path

import openpyxl
import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.desks import Desk, desk, reviewer
from tests.browser.people import BrowserServer, axe_in_both_themes

QUANTITY = {"name": "gap", "unit": "eV"}
HEADER = "quantity,review,value,unit,sigma,verdict,reason\n"


def measured(site: BrowserServer, count: int) -> Desk:
    """Items that a laboratory may answer."""
    return desk(site, *(f"{'C' * at}N" for at in range(1, count + 1)), quantity=QUANTITY)


def csv(*rows: str, name: str = "results.csv") -> FilePayload:
    return {
        "name": name,
        "mimeType": "text/csv",
        "buffer": (HEADER + "".join(f"gap,{row}\n" for row in rows)).encode(),
    }


def check(page: Page, file: FilePayload | str, *, rows: bool = False) -> None:
    """Choose a file and have it checked."""
    page.get_by_label("File", exact=True).set_input_files(file)
    page.get_by_label("Row by row" if rows else "All or nothing").check()
    page.get_by_role("button", name="Check the file").click()


def test_a_dry_run_says_what_is_wrong_with_seven_kinds_of_rows(page: Page, site: BrowserServer) -> None:
    made = measured(site, 8)
    ids = list(made.items.values())
    reviewer(site, page, "/ui/lab", "operator")
    bad = (
        f"{ids[0]},about four,eV,,,",  # no number
        f"{ids[1]},4.1,furlong,,,",  # no such unit
        f"{ids[2]},4.1,m,,,",  # not an energy
        f"{ids[3]},4.1,eV,-1,,",  # a negative deviation
        "nobody,4.1,eV,,,",  # no such check
        f"{ids[4]},=1+1,eV,,,",  # a formula
        f"{ids[5]},4.1,eV,,perhaps,",  # no verdict
        f"{ids[6]},inf,eV,,,",  # not finite
    )
    check(page, csv(*bad, f"{ids[7]},4.31,eV,0.05,,"))
    expect(page.get_by_role("heading", name="Dry run")).to_be_visible()
    expect(page.get_by_text("1 row would be imported, 8 are wrong. Nothing is stored yet.")).to_be_visible()
    table = page.get_by_role("region", name="Rows")
    for line in range(2, 10):
        row = table.get_by_role("row").filter(has=page.get_by_role("cell", name=str(line), exact=True))
        expect(row.get_by_text("refused")).to_be_visible()
        said = row.get_by_role("cell").all_inner_texts()
        assert all(said[at].strip() for at in (3, 4)), said
    expect(table.get_by_role("cell", name="Put the value there, not the formula.")).to_be_visible()
    expect(page.get_by_role("button", name="Import 1 row")).to_have_count(0)
    axe_in_both_themes(page)
    assert all(made.read(review)["state"] == "open" for review in ids)


def test_row_by_row_imports_the_right_ones_once(page: Page, site: BrowserServer) -> None:
    made = measured(site, 2)
    good, wrong = made.items.values()
    reviewer(site, page, "/ui/lab", "operator")
    file = csv(f"{good},4.31,eV,0.05,,", f"{wrong},nothing,eV,,,")
    twice = page.context.new_page()
    twice.goto(f"{site.url}/ui/lab")
    for one in (page, twice):
        check(one, file, rows=True)
        expect(one.get_by_role("button", name="Import 1 row")).to_be_visible()
    page.get_by_role("button", name="Import 1 row").click()
    expect(page.get_by_text("1 row was imported, 1 was left out.")).to_be_visible()
    made.until("effective", good)
    assert made.read(wrong)["state"] == "open"
    twice.get_by_role("button", name="Import 1 row").click()
    expect(twice.get_by_text("The same was imported before. It is counted once.")).to_be_visible()
    check(twice, file, rows=True)
    expect(twice.get_by_text("0 rows would be imported, 1 is wrong, 1 is known already.")).to_be_visible()
    twice.close()
    page.reload()
    row = page.get_by_role("region", name="Imports").get_by_role("row").nth(1)
    expect(row).to_contain_text("results.csv")
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Import of results.csv")).to_be_visible()
    axe_in_both_themes(page)


def test_another_file_than_the_one_that_was_checked_is_refused(
    page: Page, site: BrowserServer, tmp_path: Path
) -> None:
    made = measured(site, 1)
    reviewer(site, page, "/ui/lab", "operator")
    check(page, csv(f"{made.first},4.31,eV,,,"))
    expect(page.get_by_role("button", name="Import 1 row")).to_be_visible()
    page.get_by_label("File", exact=True).set_input_files(csv(f"{made.first},9.99,eV,,,"))
    page.get_by_role("button", name="Import 1 row").click()
    expect(page.get_by_text("has changed since the dry run")).to_be_visible()
    assert made.read()["state"] == "open"


@pytest.mark.parametrize("kind", ["json", "xlsx"])
def test_other_formats(page: Page, site: BrowserServer, tmp_path: Path, kind: str) -> None:
    made = measured(site, 1)
    path = tmp_path / f"results.{kind}"
    rows = [{"review": made.first, "quantity": "gap", "value": 4.31, "unit": "eV"}]
    if kind == "json":
        path.write_text(json.dumps(rows))
    else:
        book = openpyxl.Workbook()
        for cells in (list(rows[0]), list(rows[0].values())):
            book.active.append(cells)
        book.save(path)
    reviewer(site, page, "/ui/lab", "operator")
    check(page, str(path))
    page.get_by_role("button", name="Import 1 row").click()
    expect(page.get_by_text("1 row was imported.")).to_be_visible()
    made.until("effective")


def test_what_cannot_be_read_is_told_and_nothing_runs(page: Page, site: BrowserServer) -> None:
    reviewer(site, page, "/ui/lab", "operator")
    name = "..%2f<img src=x onerror=alert(1)>.csv"
    for file, words in (
        ({"name": "a.xlsx", "mimeType": "", "buffer": b"PK\x03\x04 no"}, "This is no XLSX workbook"),
        ({"name": "a.exe", "mimeType": "", "buffer": b"review,value\n"}, "Its name must end in .csv"),
        (
            {"name": name, "mimeType": "", "buffer": b"<script>alert(1)</script>\n"},
            "No column names the check",
        ),
    ):
        check(page, file)
        expect(page.get_by_role("alert").filter(has_text=words)).to_be_visible()
    hostile = (
        "review,value,quantity,unit,<script>alert(2)</script>\n<img src=x onerror=alert(3)>,1,gap,eV,2\n"
    )
    check(page, {"name": name, "mimeType": "", "buffer": hostile.encode()})
    expect(page.get_by_text("<script>alert(2)</script>")).to_be_visible()
    assert page.locator("#result script, #result img").count() == 0
    axe_in_both_themes(page)


def test_too_large_a_file_is_told_before_it_is_sent(page: Page, site: BrowserServer) -> None:
    reviewer(site, page, "/ui/lab", "operator")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    large: FilePayload = {"name": "big.csv", "mimeType": "", "buffer": b"x" * (8 * 2**20 + 1)}
    page.get_by_label("File", exact=True).set_input_files(large)
    told = page.locator("#messages .message.bad")
    expect(told).to_have_text("The file has more than 8388608 bytes, the limit. Send less.")
    page.get_by_role("button", name="Check the file").click()
    assert [url for url in sent if url.endswith("/ui/lab/results")] == []
    page.get_by_label("File", exact=True).evaluate("field => { field.setCustomValidity('') }")
    page.get_by_role("button", name="Check the file").click()
    expect(told).to_contain_text("Nothing was stored.")
    check(page, csv())
    expect(page.get_by_text("Nothing was read").or_(page.get_by_text("Dry run"))).to_be_visible()


def test_the_worklist_comes_back_filled_in(page: Page, site: BrowserServer) -> None:
    made = measured(site, 2)
    reviewer(site, page, "/ui/lab", "operator")
    with page.expect_download() as started:
        page.get_by_role("link", name=made.queue).click()
    lines = Path(started.value.path()).read_text().splitlines()
    assert len(lines) == 3
    filled = [lines[0], *(line.replace(',,"eV",', ',4.2,"eV",') for line in lines[1:])]
    check(page, {"name": "back.csv", "mimeType": "text/csv", "buffer": "\n".join(filled).encode()})
    page.get_by_role("button", name="Import 2 rows").click()
    expect(page.get_by_text("2 rows were imported.")).to_be_visible()


def test_reviewers_do_not_get_at_it(page: Page, site: BrowserServer) -> None:
    reviewer(site, page)
    page.goto(f"{site.url}/ui/lab")
    expect(page.get_by_text("does not open this page")).to_be_visible()
    expect(page.get_by_role("link", name="Laboratory")).to_have_count(0)
