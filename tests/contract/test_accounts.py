"""Users, sessions, one-time tokens, failed sign-ins, the trail."""

from __future__ import annotations

import pytest

from tests.contract.samples import PROJECT, alter, together
from verifier_service.domain.accounts import AccountAction, NewUser, Role, TicketKind, UserChange
from verifier_service.domain.errors import Conflict, LinkRefused, NotFound
from verifier_service.domain.ports.accounts import Throttle
from verifier_service.domain.ports.store import Transaction
from verifier_service.persistence.store import SqlStore
from verifier_service.services import accounts, sign_in

HOUR = 3_600.0
THROTTLE = Throttle(free=2, first_s=30.0, longest_s=100.0, forget_s=HOUR)


@pytest.fixture(autouse=True)
def projects(store: SqlStore) -> None:
    with store.begin() as tx:
        tx.projects.ensure(PROJECT)
        tx.projects.ensure("q")


def add(tx: Transaction, login: str, role: Role = Role.REVIEWER, project: str = PROJECT) -> None:
    tx.users.add(project=project, login=login, name=f"Name of {login}", role=role, password_hash="hash")


def open_session(tx: Transaction, login: str, token: str, ttl_s: float = HOUR) -> int:
    return tx.sessions.open(login, token, "csrf", ttl_s=ttl_s, address="::1", agent="Test").id


def test_a_login_is_one_persons_in_all_projects(store: SqlStore) -> None:
    with store.begin() as tx:
        add(tx, "ann")
        for project in (PROJECT, "q"):
            with pytest.raises(Conflict, match="ann"):
                add(tx, "ann", project=project)
        found = tx.users.find("ann")
        assert found is not None
        assert (found.user.project, found.password_hash, found.user.has_password) == (PROJECT, "hash", True)
        assert tx.users.find("ann", "q") is None
        assert tx.users.find("bob") is None


def test_a_subject_is_one_users(store: SqlStore) -> None:
    with store.begin() as tx:
        given = {"project": PROJECT, "name": "n", "role": Role.LEAD, "issuer": "https://i", "subject": "7"}
        made = tx.users.add(login="ann", **given)  # type: ignore[arg-type]
        assert tx.users.by_subject("https://i", "7") == made
        assert not made.has_password
        assert tx.users.by_subject("https://j", "7") is None
        with pytest.raises(Conflict):
            tx.users.add(login="bob", **given)  # type: ignore[arg-type]


def test_users_are_listed_and_changed(store: SqlStore) -> None:
    with store.begin() as tx:
        for login in ("b", "a"):
            add(tx, login)
        add(tx, "foreign", project="q")
        first = tx.users.update("a", name="A\x00", role=Role.ADMIN, disabled=True)
        assert (first.name, first.role) == ("A\ufffd", Role.ADMIN)
        again = tx.users.update("a", name="A", role=Role.ADMIN, disabled=True)
        assert again.disabled_at == first.disabled_at is not None
        assert tx.users.update("a", name="A", role=Role.ADMIN, disabled=False).disabled_at is None
        assert [user.login for user in tx.users.of_project(PROJECT)] == ["a", "b"]
        assert tx.users.admins(PROJECT) == ("a",)
        tx.users.set_password("a", "other")
        for change in (
            lambda: tx.users.update("c", name="C", role=Role.LEAD, disabled=False),
            lambda: tx.users.set_password("c", "hash"),
        ):
            with pytest.raises(NotFound):
                change()


def test_sessions_end_by_age_by_idleness_and_with_their_user(store: SqlStore) -> None:
    with store.begin() as tx:
        add(tx, "ann")
        for token, ttl_s in (("old", -1.0), ("good", HOUR)):
            open_session(tx, "ann", token, ttl_s)
    with store.read() as tx:
        assert tx.sessions.find("old", HOUR) is None
        assert tx.sessions.find("never", HOUR) is None
        visit = tx.sessions.find("good", HOUR)
        assert visit is not None
        assert (visit.user.login, visit.csrf, visit.session.address) == ("ann", "csrf", "::1")
        assert [one.id for one in tx.sessions.of_user("ann", HOUR)] == [visit.session.id]
    alter(store, "UPDATE sessions SET seen_at = seen_at - 7200")
    with store.begin() as tx:
        assert tx.sessions.find("good", HOUR) is None
        tx.sessions.touch(visit.session.id)
        assert tx.sessions.find("good", HOUR) is not None
        assert tx.sessions.sweep(HOUR) == 1
        tx.users.update("ann", name="n", role=Role.LEAD, disabled=True)
        assert tx.sessions.find("good", HOUR) is None
        with pytest.raises(NotFound):
            open_session(tx, "nobody", "t")


def test_one_ends_ones_own_sessions_only(store: SqlStore) -> None:
    with store.begin() as tx:
        for login in ("ann", "bob"):
            add(tx, login)
        first, second, third = (open_session(tx, "ann", token) for token in ("1", "2", "3"))
        assert not tx.sessions.end("bob", first)
        assert tx.sessions.end("ann", first)
        assert not tx.sessions.end("ann", first)
        assert tx.sessions.end_all("ann", but=third) == 1
        assert [one.id for one in tx.sessions.of_user("ann", HOUR)] == [third]
        assert second != third


def test_a_ticket_is_taken_once(store: SqlStore) -> None:
    with store.begin() as tx:
        tx.tickets.add(TicketKind.PASSWORD, "t", ttl_s=HOUR, login="ann", body="b")
        tx.tickets.add(TicketKind.SETUP, "late", ttl_s=-1.0)
        assert tx.tickets.find(TicketKind.SETUP, "t") is None
        assert tx.tickets.find(TicketKind.SETUP, "late") is None
        assert tx.tickets.find(TicketKind.PASSWORD, "t") == ("ann", "b")

    def take(_: int) -> bool:
        with store.begin() as tx:
            return tx.tickets.take(TicketKind.PASSWORD, "t") is not None

    assert sorted(together(4, take)) == [False, False, False, True]


def test_tickets_are_dropped_by_user(store: SqlStore) -> None:
    with store.begin() as tx:
        for login in ("ann", "bob"):
            tx.tickets.add(TicketKind.PASSWORD, login, ttl_s=HOUR, login=login)
        tx.tickets.drop(TicketKind.PASSWORD, "ann")
        assert tx.tickets.find(TicketKind.PASSWORD, "ann") is None
        assert tx.tickets.find(TicketKind.PASSWORD, "bob") is not None
        tx.tickets.drop(TicketKind.PASSWORD)
        assert tx.tickets.find(TicketKind.PASSWORD, "bob") is None


def test_failures_lock_for_longer_and_are_forgotten(store: SqlStore) -> None:
    with store.begin() as tx:
        assert tx.sign_ins.failures("login:x") == (0, None)
        locked = [tx.sign_ins.fail("login:x", THROTTLE).locked_until for _ in range(6)]
        now = tx.now()
        assert locked[:2] == [None, None]
        delays = [round(one - now) for one in locked[2:] if one is not None]
        assert delays == pytest.approx([30, 60, 100, 100], abs=2)
        assert tx.sign_ins.failures("login:x").times == 6
        assert tx.sign_ins.failures("login:y").times == 0
        tx.sign_ins.clear("login:x")
        assert tx.sign_ins.failures("login:x") == (0, None)
        tx.sign_ins.fail("login:x", THROTTLE)
    alter(store, "UPDATE sign_in_failures SET last_at = last_at - 7200")
    with store.begin() as tx:
        tx.sign_ins.fail("address:z", THROTTLE)
        assert tx.sign_ins.failures("login:x").times == 1, (
            "what is forgotten sooner takes only its own kind"
        )
        assert tx.sign_ins.fail("login:z", THROTTLE).times == 1
        assert tx.sign_ins.failures("login:x").times == 0


def test_the_trail_is_told_newest_first(store: SqlStore) -> None:
    with store.begin() as tx:
        for number in range(3):
            tx.users.note(PROJECT, "ann", AccountAction.ROLE, f"u{number}", "a to b")
        tx.users.note("q", "eve", AccountAction.CREATED, "foreign")
        assert [event.subject for event in tx.users.events(PROJECT, 2)] == ["u2", "u1"]


def test_two_admins_cannot_demote_each_other_at_the_same_time(store: SqlStore) -> None:
    logins = ("ann", "bob")
    with store.begin() as tx:
        for login in logins:
            add(tx, login, Role.ADMIN)

    def demote(index: int) -> bool:
        wanted = UserChange(role="reviewer")
        try:
            with store.begin() as tx:
                accounts.change(tx, PROJECT, logins[index], wanted, None, logins[1 - index])
        except Conflict:
            return False
        return True

    assert sorted(together(2, demote)) == [False, True]
    with store.read() as tx:
        assert len(tx.users.admins(PROJECT)) == 1


@pytest.mark.parametrize("change", [{"role": "lead"}, {"disabled": True}])
def test_a_change_of_rights_ends_sessions_and_links(store: SqlStore, change: dict[str, object]) -> None:
    with store.begin() as tx:
        add(tx, "root", Role.ADMIN)
        add(tx, "ann")
        open_session(tx, "ann", "t")
        link = accounts.make_link(tx, PROJECT, "ann", "root")
        accounts.change(tx, PROJECT, "ann", UserChange(name="Ann"), None, "root")
        assert tx.sessions.find("t", HOUR) is not None
        accounts.change(tx, PROJECT, "ann", UserChange.model_validate(change), None, "root")
        assert tx.sessions.find("t", HOUR) is None
        with pytest.raises(LinkRefused):
            accounts.take_link(tx, TicketKind.PASSWORD, link)
        assert [event.action for event in tx.users.events(PROJECT, 9)][1:] == ["renamed", "link"]


@pytest.mark.parametrize("change", [{"role": "lead"}, {"disabled": True}])
def test_the_last_admin_stays(store: SqlStore, change: dict[str, object]) -> None:
    with store.begin() as tx:
        add(tx, "root", Role.ADMIN)
        add(tx, "of-q", Role.ADMIN, "q")
        wanted = UserChange.model_validate(change)
        with pytest.raises(Conflict, match="last admin"):
            accounts.change(tx, PROJECT, "root", wanted, None, "root")
        add(tx, "other", Role.ADMIN)
        accounts.change(tx, PROJECT, "root", wanted, None, "root")
        with pytest.raises(NotFound):
            accounts.change(tx, PROJECT, "of-q", wanted, None, "root")


def test_the_setup_link_is_for_a_service_without_admin(store: SqlStore) -> None:
    with store.begin() as tx:
        old, token = (accounts.make_setup_link(tx, PROJECT) for _ in range(2))
        assert old is not None
        assert token is not None
        wanted = NewUser(login="root", name="Root", role="admin")
        with pytest.raises(LinkRefused):
            accounts.set_up(tx, old, wanted, "hash")
        assert accounts.look_at_link(tx, TicketKind.SETUP, token).body == PROJECT
        assert accounts.set_up(tx, token, wanted, "hash").role is Role.ADMIN
        with pytest.raises(LinkRefused):
            accounts.set_up(tx, token, wanted, "hash")
        assert accounts.make_setup_link(tx, PROJECT) is None
        tx.tickets.add(TicketKind.SETUP, accounts.token_hash("left"), ttl_s=HOUR, body=PROJECT)
        with pytest.raises(LinkRefused, match="has an admin"):
            accounts.look_at_link(tx, TicketKind.SETUP, "left")
        with pytest.raises(LinkRefused, match="has an admin"):
            accounts.set_up(tx, "left", NewUser(login="r2", name="R", role="admin"), "hash")


def test_links_are_for_those_who_may_come_in(store: SqlStore) -> None:
    with store.begin() as tx:
        add(tx, "ann")
        tx.users.update("ann", name="n", role=Role.REVIEWER, disabled=True)
        with pytest.raises(Conflict, match="disabled"):
            accounts.make_link(tx, PROJECT, "ann", "root")
        with pytest.raises(NotFound):
            accounts.make_link(tx, "q", "ann", "root")


def test_a_provider_never_gets_the_account_of_a_namesake(store: SqlStore) -> None:
    with store.begin() as tx:
        add(tx, "ann", Role.ADMIN)
        given = {"login": "ann", "name": "Ann", "issuer": "https://i", "subject": "7"}
        made = accounts.know(tx, PROJECT, role="reviewer", **given)  # type: ignore[arg-type]
        assert made.login.startswith("ann-")
        raised = accounts.know(tx, PROJECT, role="lead", **given)  # type: ignore[arg-type]
        assert (raised.login, raised.role) == (made.login, Role.LEAD)
        assert [event.by for event in tx.users.events(PROJECT, 9)] == ["https://i", "https://i"]


def test_a_new_session_ends_the_one_before(store: SqlStore) -> None:
    with store.begin() as tx:
        add(tx, "ann")
        found = tx.users.find("ann")
        assert found is not None
        opened = [None]
        for _ in range(2):
            made = sign_in.open_session(
                tx,
                found.user,
                ttl_s=HOUR,
                idle_s=HOUR,
                source=sign_in.Source("a", "", "secret"),
                agent="b" * 999,
                before=opened[-1],
            )
            opened.append(made.token)  # type: ignore[arg-type]
        assert opened[1] != opened[2]
        assert [one.agent for one in tx.sessions.of_user("ann", HOUR)] == ["b" * 160]
