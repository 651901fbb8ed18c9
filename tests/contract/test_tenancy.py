"""Projects, keys and ladder versions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.contract.samples import LADDER, PROJECT, ladder_spec, together
from verifier_service.domain.errors import Conflict, NotFound
from verifier_service.domain.runs import Key, Scope
from verifier_service.persistence.store import SqlStore


def key(name: str, created: int = 0, project: str = PROJECT) -> Key:
    return Key(
        id=name,
        project=project,
        name=f"key {name}",
        scopes=frozenset({Scope.SUBMIT, Scope.READ}),
        created_at=datetime.fromtimestamp(1_700_000_000 + created, UTC),
    )


def test_a_project_is_created_once(store: SqlStore) -> None:
    with store.begin() as tx:
        assert tx.projects.ensure("b")
        assert tx.projects.ensure("a")
        assert not tx.projects.ensure("b")
        assert tx.projects.names() == ("a", "b")


def test_keys_are_found_with_their_hash(store: SqlStore) -> None:
    with store.begin() as tx:
        tx.projects.ensure(PROJECT)
        tx.projects.ensure("q")
        tx.keys.add(key("late", 5), "hash 1")
        tx.keys.add(key("early", 1), "hash 2")
        tx.keys.add(key("foreign", project="q"), "hash 3")
    with store.read() as tx:
        assert tx.keys.find("late") == (key("late", 5), "hash 1")
        assert tx.keys.find("unknown") is None
        assert [one.id for one in tx.keys.of_project(PROJECT)] == ["early", "late"]


def test_a_key_id_is_used_once(store: SqlStore) -> None:
    with store.begin() as tx:
        tx.projects.ensure(PROJECT)
        tx.keys.add(key("a"), "hash")
        with pytest.raises(Conflict):
            tx.keys.add(key("a"), "other hash")
        assert tx.keys.find("a") == (key("a"), "hash")


def test_keys_that_open_nothing_are_told(store: SqlStore) -> None:
    with store.begin() as tx:
        tx.projects.ensure(PROJECT)
        for name in ("a", "b", "c"):
            tx.keys.add(key(name), "hash")
        tx.keys.revoke(PROJECT, "b")
        assert tx.keys.dead(["a", "b", "never"]) == {"b", "never"}
        assert tx.keys.dead([]) == set()


def test_revoking_twice_keeps_the_first_time(store: SqlStore) -> None:
    with store.begin() as tx:
        tx.projects.ensure(PROJECT)
        tx.keys.add(key("a"), "hash")
        revoked = tx.keys.revoke(PROJECT, "a")
        assert revoked.revoked_at is not None
        assert tx.keys.revoke(PROJECT, "a") == revoked
        found = tx.keys.find("a")
        assert found is not None
        assert found[0] == revoked
        for project, name in ((PROJECT, "unknown"), ("other", "a")):
            with pytest.raises(NotFound):
                tx.keys.revoke(project, name)


def test_a_changed_ladder_is_a_new_version(store: SqlStore) -> None:
    with store.begin() as tx:
        tx.projects.ensure(PROJECT)
        first, created = tx.ladders.put(PROJECT, ladder_spec(), "digest 1")
        assert (first.version, created) == (1, True)
        assert tx.ladders.put(PROJECT, ladder_spec(), "digest 1") == (first, False)
        changed = ladder_spec(deadline_s=5.0)
        second, created = tx.ladders.put(PROJECT, changed, "digest 2")
        assert (second.version, created) == (2, True)
        # Back to the first content: the latest version differs, so it is a version of its own.
        assert tx.ladders.put(PROJECT, ladder_spec(), "digest 1")[0].version == 3
    with store.read() as tx:
        assert tx.ladders.version(PROJECT, LADDER, 2).spec == changed
        latest = tx.ladders.latest(PROJECT, LADDER)
        assert latest is not None
        assert (latest.version, latest.digest) == (3, "digest 1")
        assert tx.ladders.latest(PROJECT, "unknown") is None
        assert tx.ladders.latest("other", LADDER) is None
        with pytest.raises(NotFound):
            tx.ladders.version(PROJECT, LADDER, 4)


def test_ladders_are_listed_by_name_at_their_latest(store: SqlStore) -> None:
    with store.begin() as tx:
        tx.projects.ensure(PROJECT)
        for name, digest in (("b", "1"), ("a", "1"), ("b", "2")):
            tx.ladders.put(PROJECT, ladder_spec(name), digest)
        listed = tx.ladders.of_project(PROJECT)
    assert [(one.name, one.version) for one in listed] == [("a", 1), ("b", 2)]


def test_a_rolled_back_version_is_forgotten(store: SqlStore) -> None:
    with store.begin() as tx:
        tx.projects.ensure(PROJECT)

    def lose() -> None:
        with store.begin() as tx:
            tx.ladders.put(PROJECT, ladder_spec(deadline_s=1.0), "lost")
            assert tx.ladders.version(PROJECT, LADDER, 1).digest == "lost"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lose()
    with store.begin() as tx:
        tx.ladders.put(PROJECT, ladder_spec(), "kept")
    with store.read() as tx:
        assert tx.ladders.version(PROJECT, LADDER, 1).digest == "kept"


def test_concurrent_puts_number_without_gaps(store: SqlStore) -> None:
    with store.begin() as tx:
        tx.projects.ensure(PROJECT)

    def put(index: int) -> int:
        with store.begin() as tx:
            return tx.ladders.put(PROJECT, ladder_spec(), f"digest {index % 4}")[0].version

    versions = together(8, put)
    assert sorted(set(versions)) == list(range(1, len(set(versions)) + 1))


def test_a_ladder_needs_its_project(store: SqlStore) -> None:
    with store.begin() as tx, pytest.raises(NotFound):
        tx.ladders.put("nowhere", ladder_spec(), "digest")
