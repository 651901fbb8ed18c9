"""kill -9 at any point, restart, and the rewards are those of an undisturbed run."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.server import Server, running, start

# Small enough for seconds of DFT, different enough to be told apart; each written in three ways.
MOLECULES = [
    ("CO", "OC", "C(O)"),
    ("C=O", "O=C", "C(=O)"),
    ("C#N", "N#C", "C(#N)"),
    ("C=C", "C(=C)", "[CH2]=[CH2]"),
    ("C#C", "C(#C)", "[CH]#[CH]"),
    ("CN", "NC", "C(N)"),
    ("CF", "FC", "C(F)"),
    ("CS", "SC", "C(S)"),
]
QUANTITY = "ks_gap@pbe/sto-3g//gfn2"
LADDER: dict[str, Any] = {
    "name": "tiny-gap",
    "candidate": {"kind": "molecule", "format": "smiles", "from": "answer"},
    "quantity": {"name": QUANTITY, "unit": "eV"},
    "utility": {"kind": "linear", "zero": 0.0, "one": 20.0},
    "truth": "high_fidelity",
    "process": {"weight": 0.2, "checks": [{"use": "turns.tool_calls"}]},
    "tiers": {
        "fast": [{"use": "molecule.validity", "gate": "hard"}],
        "simulation": [{"use": "xtb.gap"}],
        "high_fidelity": [{"use": "pyscf.gap", "params": {"functional": "pbe", "basis": "sto-3g"}}],
    },
}
TURN = {
    "calls": [{"id": "c", "name": "f", "arguments": "{}"}],
    "observations": [{"call": "c", "text": "ok"}],
}
BATCH = [
    {"id": f"t{index}-{spelling}", "ladder": "tiny-gap", "answer": text, "turns": [TURN]}
    for index, spellings in enumerate(MOLECULES)
    for spelling, text in enumerate(spellings)
]
IDS = [str(item["id"]) for item in BATCH]
Told = dict[str, tuple[str, str | None, float | None]]


def submit(server: Server) -> None:
    with server.client() as client:
        client.put("/v1/ladders/tiny-gap", json=LADDER).raise_for_status()
        answer = client.post("/v1/runs/r/trajectories", json={"trajectories": BATCH})
        assert answer.status_code in (200, 202), answer.text


def settled(server: Server, seconds: float) -> Told | None:
    """Status, tier and reward per trajectory once everything rests, ``None`` before."""
    body = {"ids": IDS, "wait": {"until": "final", "seconds": seconds}}
    with server.client(timeout=seconds + 30) as client:
        answer = client.post("/v1/runs/r/rewards/query", json=body)
    if answer.status_code != 200:
        return None
    records = answer.json()["records"]
    return {r["trajectory"]: (r["status"], r["tier"], r["reward"]) for r in records}


def assert_same(disturbed: Told, undisturbed: Told) -> None:
    assert disturbed.keys() == undisturbed.keys() == set(IDS)
    for name, (status, tier, reward) in undisturbed.items():
        assert disturbed[name][:2] == (status, tier), name
        assert disturbed[name][2] == pytest.approx(reward, abs=1e-6), name


def assert_one_evidence_per_check(server: Server) -> None:
    """In the database itself: no key was ever judged twice, and no final record was followed."""
    server.close()
    with contextlib.closing(sqlite3.connect(server.data / "verifier.db")) as database:
        judged = database.execute(
            "SELECT key, count(*) FROM checks WHERE evidence IS NOT NULL GROUP BY key"
        ).fetchall()
        finals = database.execute(
            "SELECT trajectory, count(*) FROM rewards WHERE status = 'final' GROUP BY trajectory"
        ).fetchall()
    assert len(judged) > len(MOLECULES) * 3
    assert {count for _, count in judged} == {1}
    assert [count for _, count in finals] == [1] * len(BATCH)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Told:
    with running(tmp_path_factory.mktemp("undisturbed") / "data") as server:
        submit(server)
        told = settled(server, 110)
    assert told is not None
    assert {status for status, _, _ in told.values()} == {"final"}
    assert {tier for _, tier, _ in told.values()} == {"high_fidelity"}
    assert len({round(reward or 0.0, 9) for _, _, reward in told.values()}) == len(MOLECULES)
    return told


def test_the_server_is_killed_at_ten_points(tmp_path: Path, undisturbed: Told) -> None:
    server = start(tmp_path / "data")
    submit(server)
    for point in range(10):
        time.sleep(0.2 + 0.2 * point)
        server.kill()
        server.close()
        server = start(tmp_path / "data")
    try:
        told = None
        for _ in range(3):
            told = told or settled(server, 60)
        assert told is not None
        assert_same(told, undisturbed)
        assert_one_evidence_per_check(server)
    finally:
        server.close()


def test_the_worker_child_is_killed_during_dft(tmp_path: Path, undisturbed: Told) -> None:
    with running(tmp_path / "data") as server:
        submit(server)
        killed = _kill_children(server, 2)
        assert killed == 2, "no child was ever seen in a calculation"
        told = settled(server, 110)
        assert told is not None
        assert_same(told, undisturbed)
        assert_one_evidence_per_check(server)


def _kill_children(server: Server, count: int, seconds: float = 60.0) -> int:
    """SIGKILL the child of a running DFT check, ``count`` times."""
    killed = 0
    until = time.monotonic() + seconds
    while killed < count and time.monotonic() < until:
        time.sleep(0.05)
        if not _running(server, "high_fidelity"):
            continue
        for child in server.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        killed += 1
        time.sleep(2.0)
    return killed


def _running(server: Server, tier: str) -> bool:
    with server.client() as client, contextlib.suppress(httpx.HTTPError):
        tiers = client.get("/v1/runs/r").json()["tiers"]
        return any(row["tier"] == tier and row["running"] for row in tiers)
    return False
