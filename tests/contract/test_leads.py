"""Parts that one process of all plays."""

from __future__ import annotations

import time

import pytest

from tests.support.databases import PostgresServer
from verifier_service.persistence import leads
from verifier_service.persistence.engine import create_store
from verifier_service.persistence.store import SqlStore


def test_who_leads_says_so_until_the_part_is_released(store: SqlStore) -> None:
    lead = store.lead("part")
    assert lead is not None
    assert store.led("part")
    assert lead.holds()
    lead.release()
    again = store.lead("part")
    assert again is not None
    again.release()


def test_one_session_leads_and_the_others_do_not(postgres: PostgresServer) -> None:
    url = postgres.migrated()
    one, two = create_store(url), create_store(url)
    try:
        assert not two.led("part")
        lead = one.lead("part")
        assert lead is not None
        assert two.lead("part") is None
        assert two.led("part")
        other = two.lead("another part")
        assert other is not None
        other.release()
        lead.release()
        assert not lead.holds()
        assert not two.led("part")
    finally:
        one.close()
        two.close()


def test_a_part_is_free_when_its_holder_s_connection_ends(postgres: PostgresServer) -> None:
    url = postgres.migrated()
    one, two = create_store(url), create_store(url)
    try:
        lead = one.lead("part")
        assert lead is not None
        with two.begin() as tx:
            tx._database.connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
                " AND pid <> pg_backend_pid()"
            )
        assert not lead.holds()
        lead.release()
        successor = two.lead("part")
        assert successor is not None
        successor.release()
    finally:
        one.close()
        two.close()


def test_a_part_is_taken_from_a_holder_that_hangs(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.migrated()
    one, two = create_store(url), create_store(url)
    try:
        lead = one.lead("part")
        assert lead is not None
        monkeypatch.setattr(leads, "SILENT_S", 1.0)
        for _ in range(4):
            time.sleep(0.4)
            assert lead.holds()  # it says so, however long it holds the part
            assert two.lead("part") is None
            assert two.led("part")
        time.sleep(1.2)
        assert not two.led("part")
        assert two.lead("part") is None  # its session is ended
        until = time.monotonic() + 10
        while (successor := two.lead("part")) is None:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert not lead.holds()
        assert successor.holds()
        successor.release()
    finally:
        one.close()
        two.close()
