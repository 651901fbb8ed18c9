"""Archive and purge of runs over HTTP and from the command line, against a real server."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyarrow import parquet
from typer.testing import CliRunner, Result

from tests.support import server as servers
from tests.support.server import Server, fresh, identity, patience, submit
from verifier_service.cli.application import app
from verifier_service.cli.archive_files import NAMES
from verifier_service.client import (
    AsyncClient,
    Client,
    NotAllowed,
    NotFound,
    UnexpectedAnswer,
    VerifierUnavailable,
)
from verifier_service.client import archives as archived
from verifier_service.client.exchange import Session
from verifier_service.domain.archive import COLUMNS
from verifier_service.domain.runs import RunState

GOLD = "CCO"
TABLES = {"trajectory": "trajectories", "demand": "demands", "reward": "rewards"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.running(tmp_path_factory.mktemp("archive")) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, server.key) as opened:
        yield opened


def shell(server: Server, *command: str, key: str | None = None, code: int = 0) -> Result:
    runner = CliRunner(env={"VERIFIER_URL": server.url, "VERIFIER_API_KEY": key or server.key})
    result = runner.invoke(app, list(command))
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result


def closed(http: httpx.Client, *items: dict[str, Any], name: str | None = None) -> str:
    """A run with these trajectories, judged, and closed; its name."""
    run = name or fresh("run")
    submit(http, run, *items)
    answer = http.post(f"/v1/runs/{run}/close", params={"wait": 30})
    assert answer.status_code == 200, answer.text
    return run


def sql(server: Server, query: str, *values: object) -> list[Any]:
    with sqlite3.connect(server.data / "verifier.db") as connection:
        return connection.execute(query, values).fetchall()


def rows_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    with gzip.open(folder / f"{NAMES[kind]}.jsonl.gz", "rb") as file:
        return [json.loads(line) for line in file.read().split(b"\n")[:-1]]


def test_an_archive_reads_back_as_what_is_stored(
    server: Server, http: httpx.Client, tmp_path: Path
) -> None:
    odd = {"note": "a line\u2028separator,\u0085a nul-like \x1f and ünïcode"}
    items = [identity("OCC", metadata=odd), identity("CCC", group="g"), identity("C1=CC", group="g")]
    run = closed(http, *items)
    out = tmp_path / "deep" / "archive"
    shown = shell(server, "runs", "archive", run, "--out", str(out)).stdout
    assert "3 trajectories" in shown
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["format"], manifest["version"], manifest["run"]) == ("verifier-archive", 1, run)
    assert manifest["references"] is True
    counts = {one["kind"]: one["rows"] for one in manifest["files"]}
    assert set(counts) == set(COLUMNS)
    [(pk, seq)] = sql(server, "SELECT pk, seq FROM runs JOIN feeds ON run = pk WHERE id = ?", run)
    assert manifest["through"] == seq
    for kind, table in TABLES.items():
        [(stored,)] = sql(server, f"SELECT count(*) FROM {table} WHERE run = ?", pk)
        assert counts[kind] == stored > 0, kind
    mine = "FROM demands WHERE run = ? AND check_pk IS NOT NULL"
    [(checks,)] = sql(server, f"SELECT count(DISTINCT check_pk) {mine}", pk)
    assert counts["check"] == checks
    [(tried,)] = sql(
        server, f"SELECT count(*) FROM attempts WHERE check_pk IN (SELECT check_pk {mine})", pk
    )
    assert counts["attempt"] == tried
    for one in manifest["files"]:
        assert hashlib.sha256((out / one["name"]).read_bytes()).hexdigest() == one["sha256"]
        assert len(rows_of(out, one["kind"])) == one["rows"]
    assert subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=out).returncode == 0
    trajectories = {row["id"]: row for row in rows_of(out, "trajectory")}
    assert trajectories.keys() == {item["id"] for item in items}
    assert trajectories[items[0]["id"]]["body"]["metadata"] == odd
    assert trajectories[items[0]["id"]]["body"]["reference"] == {"smiles": GOLD}
    feed = http.get(f"/v1/runs/{run}/rewards").json()["records"]
    assert [row["record"] for row in rows_of(out, "reward")] == feed
    ladder = json.loads((Path("tiers") / "ladders" / "molecule-identity.json").read_text())
    assert rows_of(out, "ladder")[0]["spec"]["name"] == ladder["name"]


def test_parquet_holds_the_same_rows(server: Server, http: httpx.Client, tmp_path: Path) -> None:
    run = closed(http, identity("OCC"), identity("CCN", group="g", group_size=2))
    for layout in ("jsonl", "parquet"):
        shell(server, "runs", "archive", run, "--out", str(tmp_path / layout), "--format", layout, "--json")
    for kind, columns in COLUMNS.items():
        table = parquet.read_table(tmp_path / "parquet" / f"{NAMES[kind]}.parquet")
        assert table.column_names == list(columns)
        documents = [name for name, shape in columns.items() if shape == "json"]
        rows = [
            {**row, **{name: row[name] and json.loads(row[name]) for name in documents}}
            for row in table.to_pylist()
        ]
        assert rows == rows_of(tmp_path / "jsonl", kind), kind


async def all_of(server: Server, run: str) -> list[archived.ArchiveRow]:
    async with AsyncClient(server.url, server.key) as client:
        return [row async for row in client.archive(run)]


def test_both_clients_read_an_archive(server: Server, http: httpx.Client, client: Client) -> None:
    run = closed(http, identity("OCC"), identity("CCCN"))
    whole = list(client.archive(run))
    assert whole[0].kind == "head"
    assert whole[1:] == asyncio.run(all_of(server, run))[1:]
    with pytest.raises(NotFound):
        asyncio.run(all_of(server, "nobody"))


def test_who_may_archive_and_purge(
    server: Server, http: httpx.Client, client: Client, tmp_path: Path
) -> None:
    run = closed(http, identity("OCC"))
    operator = client.create_key("operator", ["operate", "read"]).token
    shown = shell(server, "runs", "archive", run, "--out", str(tmp_path / "a"), key=operator)
    assert "needs a key with the scope gold" in shown.stderr
    assert "reference" not in rows_of(tmp_path / "a", "trajectory")[0]["body"]
    shell(server, "runs", "archive", run, "--out", str(tmp_path / "b"), "--without-references")
    assert "reference" not in rows_of(tmp_path / "b", "trajectory")[0]["body"]
    with Client(server.url, operator) as asking, pytest.raises(NotAllowed):
        asking.purge_run(run)
    reader = client.create_key("reader", ["read", "gold"]).token
    with Client(server.url, reader) as asking, pytest.raises(NotAllowed):
        next(asking.archive(run))


def test_commands_say_what_is_wrong(server: Server, http: httpx.Client, tmp_path: Path) -> None:
    run = fresh("open")
    submit(http, run, identity("OCC"))
    out = tmp_path / "out"
    assert "close it first" in shell(server, "runs", "archive", run, "--out", str(out), code=1).stderr
    assert "close it" in shell(server, "runs", "purge", run, "--yes", code=1).stderr
    assert not list(tmp_path.iterdir())
    closed(http, identity("CCC"), name=run)
    refused = shell(server, "runs", "purge", run, code=2).stderr
    assert "2 trajectories" in refused
    assert f"verifier runs archive {run}" in refused
    shell(server, "runs", "archive", run, "--out", str(tmp_path), "--format", "csv", code=2)
    (tmp_path / "file").touch()
    assert (
        "not an empty folder"
        in shell(server, "runs", "archive", run, "--out", str(tmp_path), code=2).stderr
    )
    assert http.get(f"/v1/runs/{run}").json()["run"]["state"] == "closed"
    shell(server, "runs", "archive", "nobody", "--out", str(out), code=1)
    shell(server, "runs", "purge", "nobody", "--yes", code=1)


def test_a_purged_run_is_gone_and_others_keep_what_they_cite(
    server: Server, http: httpx.Client, client: Client
) -> None:
    shared, alone = "CCCCO", "CCCCCCN"
    run = closed(http, identity(shared), identity(alone))
    other = fresh("other")
    mine = identity(shared, group="g", group_size=1)
    submit(http, other, mine)
    path = f"/v1/runs/{other}"
    views = (f"{path}/trajectories/{mine['id']}", f"{path}/rewards", f"{path}/groups/g", path)
    before = [http.get(view).json() for view in views]
    paid = {demand["check"]["payer"] for demand in before[0]["demands"]}
    assert run in paid
    spent = http.get(f"/v1/runs/{run}").json()["run"]["accounts"]
    assert "2 trajectories were removed" in shell(server, "runs", "purge", run, "--yes").stdout
    assert [http.get(view).json() for view in views] == before

    report = http.get(f"/v1/runs/{run}").json()
    assert (report["run"]["state"], report["trajectories"]) == ("purged", 0)
    assert report["run"]["accounts"] == spent
    assert sql(server, "SELECT count(*) FROM checks WHERE item LIKE ?", f"%{alone}%") == [(0,)]
    for call in (
        http.get(f"/v1/runs/{run}/rewards"),
        http.get(f"/v1/runs/{run}/hindsight"),
        http.get(f"/v1/runs/{run}/archive"),
        http.post(f"/v1/runs/{run}/rewards/query", json={"ids": ["a"]}),
        http.put(f"/v1/runs/{run}", json={}),
    ):
        assert (call.status_code, call.json()["code"]) == (410, "run_purged"), call.text
    for call in (
        http.get(f"/v1/runs/{run}/rewards/stream"),
        http.get(f"/v1/runs/{run}/groups/g"),
        http.get(f"/v1/runs/{run}/trajectories/a"),
    ):
        assert call.status_code in (404, 410), call.text
    again = http.post(f"/v1/runs/{run}/trajectories", json={"trajectories": [identity("CCO")]})
    assert again.status_code == 409
    assert "purged" in again.json()["detail"]
    assert shell(server, "runs", "purge", run, "--yes").stdout
    with pytest.raises(NotFound):
        next(client.archive(run))


def test_who_waits_on_a_run_learns_of_its_purge(server: Server, http: httpx.Client, client: Client) -> None:
    run = closed(http, identity("CCCO"))
    head = http.get(f"/v1/runs/{run}/rewards").json()["cursor"]
    answers: list[httpx.Response] = []

    def wait() -> None:
        with server.client() as waiting:
            answers.append(waiting.get(f"/v1/runs/{run}/rewards", params={"after": head, "wait": 60}))

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.5)
    began = time.monotonic()
    client.purge_run(run, wait_s=30)
    waiter.join(30)
    assert time.monotonic() - began < 15
    assert answers[0].status_code in (404, 410), answers[0].text
    assert answers[0].json()["code"] in ("run_not_found", "run_purged")


def test_who_waits_for_a_purge_with_a_revoked_key_is_told(tmp_path: Path) -> None:
    """In an application without workers, so that nothing is purged."""

    async def go() -> httpx.Response:
        async with servers.in_process(tmp_path) as admin:
            (await admin.put("/v1/runs/r", json={})).raise_for_status()
            application: Any = admin._transport.app  # type: ignore[attr-defined]
            application.state.context.service.unit(
                lambda tx: tx.runs.set_state("default", "r", RunState.CLOSED)
            )
            made = (await admin.post("/v1/keys", json={"name": "k", "scopes": ["admin"]})).json()
            headers = {"Authorization": f"Bearer {made['token']}"}
            asked = admin.post("/v1/runs/r/purge", params={"wait": 60}, headers=headers)
            waiting = asyncio.create_task(asked)
            await asyncio.sleep(1.0)
            (await admin.delete(f"/v1/keys/{made['key']['id']}")).raise_for_status()
            return await asyncio.wait_for(waiting, patience(8))

    answer = asyncio.run(go())
    assert (answer.status_code, answer.json()["code"]) == (401, "bad_key")


def rows(chunks: list[bytes]) -> list[archived.ArchiveRow]:
    """The rows of an archive that came in ``chunks``."""
    reading = archived.Reading(Session(url="http://here"))
    found = [row for chunk in chunks for row in reading.take(chunk)]
    reading.finish()
    return found


def test_an_archive_that_is_cut_short_is_none() -> None:
    head = {
        "project": "p",
        "run": "r",
        "through": 1,
        "references": True,
        "created_at": "2026-01-01T00:00:00Z",
    }
    whole = [
        {"kind": "head", "row": {"format": "verifier-archive", "version": 1, **head}},
        {"kind": "reward", "row": {"seq": 1}},
        {"kind": "end", "row": {"rows": {"reward": 1}}},
    ]
    lines = [json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in whole]
    text = b"".join(lines)
    for size in (1, 7, len(text)):
        chunks = [text[at : at + size] for at in range(0, len(text), size)]
        assert [row.kind for row in rows(chunks)] == ["head", "reward"]
    for broken in (
        lines[:2],
        [*lines[:1], *lines[2:]],
        lines[1:],
        [b"<html>"],
        [],
        [*lines[:1], lines[1][:9]],
    ):
        with pytest.raises(UnexpectedAnswer):
            list(rows(broken))
    newer = lines[0].replace(b'"version":1', b'"version":2')
    with pytest.raises(UnexpectedAnswer, match="version 2"):
        list(rows([newer, *lines[1:]]))


SMALL_STEPS = """
import sys
from verifier_service import bootstrap
from verifier_service.services import purge
from verifier_service.settings import Settings
from verifier_service.worker.purge import Purger
purge.CASES_PER_STEP = 3
service = bootstrap.build(Settings())
service.unit(lambda tx: purge.begin_purge(tx, "default", sys.argv[1]))
Purger(service).purge_all()
"""


def test_a_purge_whose_process_is_killed_goes_on_in_the_next(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with servers.running(data) as server, server.client() as http:
        kept = closed(http, identity("CCO"), identity("CCCC"))
        items = [identity("C" * (n % 40 + 1), inputs={"n": n % 97}) for n in range(300)]
        big = closed(http, *items)
    of_run = "SELECT count(*) FROM trajectories JOIN runs r ON run = r.pk WHERE r.id = ?"
    purging = subprocess.Popen(
        [sys.executable, "-c", SMALL_STEPS, big], env={**os.environ, "VERIFIER_DATA": str(data)}
    )
    while sql(server, of_run, big)[0][0] == len(items):
        assert purging.poll() is None
        time.sleep(0.005)
    purging.kill()
    purging.wait()
    [(left,)] = sql(server, of_run, big)
    assert 0 < left < len(items)
    with servers.running(data) as server, Client(server.url, server.key) as client:
        until = time.monotonic() + 60
        while client.run(big).run.state != "purged":
            assert time.monotonic() < until
            time.sleep(0.1)
        assert client.run(kept).run.state == "closed"
        tables = ("trajectories", "bodies", "checks")
        rows = [sql(server, f"SELECT count(*) FROM {one}")[0][0] for one in tables]
        [(cited,)] = sql(server, "SELECT count(DISTINCT check_pk) FROM demands")
        assert rows == [2, 2, cited]
        assert sql(server, "PRAGMA foreign_key_check") == []
        assert sql(server, "PRAGMA integrity_check") == [("ok",)]


def test_a_server_that_ends_in_an_archive_leaves_no_folder(tmp_path: Path) -> None:
    server = servers.start(tmp_path / "data")
    try:
        with server.client() as http, Client(server.url, server.key) as client:
            blob = {"text": "x" * 200_000}
            run = closed(http, *(identity("CCO", metadata=blob) for _ in range(200)))
            reading = client.archive(run)
            assert next(reading).kind == "head"
            server.kill()
            with pytest.raises((VerifierUnavailable, UnexpectedAnswer)):
                list(reading)
    finally:
        server.close()
