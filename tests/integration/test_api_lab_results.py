"""Results of a laboratory over HTTP, by the client and by the command line, against a running server."""

from __future__ import annotations

import base64
import csv
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openpyxl
import pytest
from typer.testing import CliRunner, Result

from tests.support import server
from tests.support.server import REVIEWED, Server, fresh, identity, patience, submit
from verifier_service.cli.application import app
from verifier_service.client import AsyncClient, Client, InvalidRequest
from verifier_service.domain.lab_results import ImportState

HEADER = "run,trajectory,quantity,value,unit\n"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server.running(tmp_path_factory.mktemp("lab"), review_grace_s="0") as running:
        with running.client() as http:
            http.put(f"/v1/ladders/{REVIEWED['name']}", json=REVIEWED).raise_for_status()
        yield running


@pytest.fixture
def http(running: Server) -> Iterator[httpx.Client]:
    with running.client() as client:
        yield client


@pytest.fixture
def client(running: Server) -> Iterator[Client]:
    with Client(running.url, running.key) as client:
        yield client


def waiting(client: Client, http: httpx.Client, count: int = 1) -> tuple[str, list[dict[str, str]]]:
    """A run of molecules that wait at the lab, and the worklist's rows about it."""
    run = fresh()
    molecules = ["C" * (20 + at) + "O" for at in range(count)]
    items = [
        {**identity(one, one), "ladder": "reviewed", "id": f"t{at}"} for at, one in enumerate(molecules)
    ]
    for item in items:
        item["problem"] = {**item["problem"], "inputs": {"of": run}}
    submit(http, run, *items, until="fast")
    until = time.monotonic() + patience(20)
    while True:
        rows = list(csv.DictReader(io.StringIO(client.lab_requests(), newline="")))
        found = [row for row in rows if row["run"] == run]
        if len(found) == count:
            return run, found
        assert time.monotonic() < until, rows
        time.sleep(0.1)


def encoded(text: str, name: str = "a.csv") -> dict[str, Any]:
    return {"file": {"name": name, "content": base64.b64encode(text.encode()).decode()}}


def test_the_first_is_201_and_the_same_again_200(client: Client, http: httpx.Client) -> None:
    run, _ = waiting(client, http)
    body = encoded(f"{HEADER}{run},t0,logP,4.5,1\n") | {"by": "ann"}
    tried = http.post("/v1/lab-results", json=body | {"dry_run": True})
    assert (tried.status_code, tried.json()["state"], tried.json()["id"]) == (200, "dry_run", None)
    first = http.post("/v1/lab-results", json=body)
    assert (first.status_code, first.json()["created"], first.json()["state"]) == (201, True, "imported")
    again = http.post("/v1/lab-results", json=body)
    assert (again.status_code, again.json()["created"]) == (200, False)
    stored = http.get(f"/v1/lab-results/{first.json()['id']}").json()
    assert stored == again.json()
    assert client.lab_import(stored["id"]).counts == {"accepted": 1}
    [record] = [one for one in client.rewards(run).records if "lab" in one.tiers]
    assert record.measurements[-1].quantity == "logP"
    taken = http.post("/v1/lab-results", json=body | {"id": stored["id"], "by": "bob"})
    assert (taken.status_code, taken.json()["code"]) == (409, "import_conflict")


def test_a_wrong_row_is_200_and_refused(client: Client, http: httpx.Client) -> None:
    run, _ = waiting(client, http)
    answer = http.post("/v1/lab-results", json=encoded(f"{HEADER}{run},t0,logP,1e999,1\n"))
    assert (answer.status_code, answer.json()["state"]) == (200, "refused")
    [row] = answer.json()["rows"]
    assert (row["line"], row["errors"][0]["code"], row["errors"][0]["column"]) == (2, "not_finite", "value")


def test_a_file_beyond_a_limit_is_422_with_the_limit(http: httpx.Client) -> None:
    content = base64.b64encode(b"," * 10_000_000).decode()
    answer = http.post("/v1/lab-results", json={"file": {"name": "a.csv", "content": content}})
    assert (answer.status_code, answer.json()["code"]) == (422, "file_too_large")
    assert answer.json()["limit"] == 8 * 1024 * 1024
    assert http.get("/v1/lab-results/nothing").json()["code"] == "import_not_found"


def test_versions_are_told_by_check(client: Client, http: httpx.Client) -> None:
    run, _ = waiting(client, http)
    rows = {"run": run, "trajectory": "t0", "quantity": "logP", "unit": "1"}
    first = client.import_lab_results(rows=[rows | {"value": 1.5}])
    second = client.import_lab_results(rows=[rows | {"value": "1,75"}], decimal="comma", by="bob")
    assert (first.counts, second.counts) == ({"accepted": 1}, {"amended": 1})
    kept = client.lab_versions(first.values[0].check)
    assert [(one.value.version, one.value.measurements[0].value, one.by) for one in kept] == [
        (2, 1.75, "bob"),
        (1, 1.5, None),
    ]
    feed = client.rewards(run).records
    assert feed[-1].supersedes == feed[-2].seq


def test_a_workbook_comes_as_it_is(client: Client, http: httpx.Client) -> None:
    run, [row] = waiting(client, http)
    book = openpyxl.Workbook()
    book.active.append(["review", "logP (1)", "note"])
    book.active.append([row["review"], 4.25, "=1+1"])
    file = io.BytesIO()
    book.save(file)
    done = client.import_lab_results(file.getvalue(), name="plate 7.xlsx")
    assert (done.counts, done.ignored_columns) == ({"accepted": 1}, ("note",))
    assert done.values[0].measurements[0].value == 4.25
    assert client.rewards(run).records[-1].measurements[-1].value == 4.25


async def of_async(running: Server) -> tuple[str, ImportState]:
    async with AsyncClient(running.url, running.key) as client:
        done = await client.import_lab_results(
            plates=[{"name": "P", "wells": [{"well": "A1", "role": "blank"}]}]
        )
        return await client.lab_requests(limit=1), done.state


def test_the_async_client_does_the_same(running: Server) -> None:
    import asyncio

    text, state = asyncio.run(of_async(running))
    assert text.startswith("review,run,trajectory,")
    assert state is ImportState.IMPORTED


def test_the_client_raises_what_the_server_refuses(client: Client) -> None:
    with pytest.raises(InvalidRequest, match="no column names the check"):
        client.import_lab_results(b"a,b\n1,2\n")


def test_commands_fetch_the_worklist_and_bring_it_back(
    running: Server, client: Client, http: httpx.Client, tmp_path: Path
) -> None:
    runner = CliRunner(env={"VERIFIER_URL": running.url, "VERIFIER_API_KEY": running.key})

    def shell(*command: str) -> Result:
        return runner.invoke(app, ["lab", *command])

    run, _ = waiting(client, http, 2)
    file = tmp_path / "work.csv"
    assert shell("worklist", "-o", str(file)).exit_code == 0
    assert file.read_bytes().startswith(b"\xef\xbb\xbfreview,")
    listed = [json.loads(line) for line in shell("worklist", "--json").stdout.splitlines()]
    mine = sorted((row for row in listed if row["run"] == run), key=lambda row: row["trajectory"])
    assert [row["trajectory"] for row in mine] == ["t0", "t1"]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(mine[0]))
    writer.writeheader()
    writer.writerow(mine[0] | {"quantity": "logP", "value": "4.5", "unit": "1"})
    writer.writerow(mine[1] | {"quantity": "logP", "value": "oops", "unit": "1"})
    file.write_text(text.getvalue(), newline="")
    refused = shell("import", str(file))
    assert refused.exit_code == 1
    assert "not_a_number" in refused.stdout
    assert "nothing was stored" in refused.stderr
    tried = shell("import", str(file), "--row-by-row", "--dry-run", "--json")
    assert json.loads(tried.stdout)["counts"] == {"accepted": 1, "refused": 1}
    done = shell("import", str(file), "--row-by-row", "--by", "ann")
    assert (done.exit_code, "1 accepted, 1 refused" in done.stdout) == (0, True)
    assert "there already" in shell("import", str(file), "--row-by-row", "--by", "ann").stdout
    assert shell("import", str(tmp_path / "none.csv")).exit_code == 2
    plates = tmp_path / "plates.json"
    plates.write_text('{"name": "P"}')
    assert shell("import", str(file), "--plates", str(plates)).exit_code == 2
