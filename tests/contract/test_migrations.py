"""Migrations on both databases: up, down, and equal to what the code declares."""

from __future__ import annotations

import pytest
from alembic.util import CommandError
from sqlalchemy import inspect

from tests.contract.samples import PROJECT, RUN, alter, prepare, together
from tests.support import desk
from tests.support.databases import PostgresServer, SqliteFiles
from verifier_service.domain.errors import NotFound
from verifier_service.domain.gold import NewGold
from verifier_service.domain.runs import RunState
from verifier_service.persistence import migrate
from verifier_service.persistence.engine import create_store, open_engines
from verifier_service.persistence.tables import metadata


def tables_at(url: str) -> set[str]:
    writer, _ = open_engines(url)
    names = set(inspect(writer).get_table_names())
    writer.dispose()
    return names


def test_up_down_up(databases: PostgresServer | SqliteFiles) -> None:
    url = databases.empty()
    assert not migrate.is_current(url)
    migrate.upgrade(url)
    assert migrate.is_current(url)
    assert tables_at(url) == {*metadata.tables, "alembic_version"}
    migrate.downgrade(url, "base")
    assert not migrate.is_current(url)
    assert tables_at(url) == {"alembic_version"}
    migrate.upgrade(url)
    migrate.upgrade(url)
    assert migrate.is_current(url)


def test_the_migrated_tables_are_the_declared_ones(databases: PostgresServer | SqliteFiles) -> None:
    url = databases.empty()
    migrate.upgrade(url)
    migrate.check(url)


@pytest.mark.parametrize("done", ["NULL", "2.0"])
def test_what_was_purged_does_not_become_a_closed_run(store_url: str, done: str) -> None:
    store = create_store(store_url)
    prepare(store)
    alter(store, f"UPDATE runs SET state = 'closed', purging_at = 1.0, purged_at = {done}")
    with pytest.raises(CommandError, match="1 runs were purged"):
        migrate.downgrade(store_url, "0003")
    with store.read() as tx:
        assert tx.runs.get(PROJECT, RUN).state in (RunState.PURGING, RunState.PURGED)
    store.close()
    assert migrate.is_current(store_url)


def test_what_people_decided_survives_the_way_down_and_up(store_url: str) -> None:
    store = create_store(store_url)
    prepare(store)
    desk.declare(store, gold_share=0.5)
    decided, waits = desk.wanted(store, "1"), desk.wanted(store, "2", priority=0.7)
    desk.vote(store, decided, "ann", "reject")
    with store.begin() as tx:
        known = {"id": "g", "queue": "q", "shown": {}, "expected": {"verdict": "accept"}}
        tx.gold.add(PROJECT, NewGold.model_validate(known), "g")
        instance = tx.gold.deal(PROJECT, "g", "ann", like=waits)
    desk.vote(store, instance, "ann")
    store.close()
    migrate.downgrade(store_url, "0010")
    migrate.upgrade(store_url)
    store = create_store(store_url)
    assert [(vote.reviewer, vote.verdict) for vote in desk.read(store, decided).votes] == [
        ("ann", "reject")
    ]
    item = desk.take(store, "bob")
    assert item is not None
    assert item.id == waits
    with store.read() as tx, pytest.raises(NotFound):
        tx.reviews.get(PROJECT, instance)
    store.close()


def test_concurrent_upgrades_queue(databases: PostgresServer | SqliteFiles) -> None:
    url = databases.empty()
    together(3, lambda _: migrate.upgrade(url))
    assert migrate.is_current(url)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://localhost/x"])
def test_unsupported_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"SQLite needs a file|unsupported database"):
        open_engines(url)
