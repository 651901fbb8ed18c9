"""Roles and rights, names, and what forms are read as."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from verifier_service.dashboard import pages
from verifier_service.dashboard.access import Added, NewKey
from verifier_service.dashboard.forms import Filled
from verifier_service.dashboard.navigation import ENTRIES, entries_for, first_page
from verifier_service.domain.accounts import GRANTS, ROLES, NewUser, Right, Role, Viewer
from verifier_service.domain.errors import InvalidInput

TEMPLATES = Path(pages.HERE) / "templates"


def viewer(role: Role) -> Viewer:
    return Viewer(login="x", name="X", role=role, project="p")


def test_every_role_has_its_rights() -> None:
    assert {role: {str(right) for right in GRANTS[role]} for role in ROLES} == {
        Role.REVIEWER: {"review"},
        Role.LEAD: {"review", "lead"},
        Role.OPERATOR: {"observe", "operate"},
        Role.ADMIN: {str(right) for right in Right},
    }
    assert not viewer(Role("a role of a newer server")).may(Right.REVIEW)
    assert not viewer(Role.OPERATOR).may(Right.REVIEW)


@pytest.mark.parametrize("login", ["", "A", "-a", "a b", "a/b", "a\n", "é", "a" * 65, "a\x00"])
def test_logins_are_plain(login: str) -> None:
    with pytest.raises(ValidationError):
        NewUser(login=login, name="N", role="lead")


@pytest.mark.parametrize("name", ["", "a\nb", "a\x00", "a\u202eb", "a\u2066b", "x" * 101, "a\x7f"])
def test_names_are_one_line_that_reads_one_way(name: str) -> None:
    with pytest.raises(ValidationError):
        NewUser(login="a", name=name, role="lead")


def test_names_of_people_are_taken() -> None:
    for name in ("Ó Súilleabháin", "李小龍", "<b>", "O'Neil", "محمد"):
        assert NewUser(login="a", name=name, role="lead").name == name


def test_nobody_is_led_to_a_page_that_is_closed_to_them() -> None:
    for role in ROLES:
        who = viewer(role)
        assert all(who.may(entry.right) for entry in entries_for(who))
        assert first_page(who) in {entry.path for entry in entries_for(who)} | {"/ui/account"}
    assert entries_for(None) == ()


def test_jumps_are_single_keys_and_differ() -> None:
    jumps = [entry.jump for entry in ENTRIES]
    assert len(set(jumps)) == len(jumps)
    assert all(len(jump) == 1 and jump != "p" for jump in jumps)


def test_forms_name_the_field_and_the_limit_in_plain_words() -> None:
    cases = (
        ({"name": "N", "role": "lead"}, "login", "needed"),
        ({"login": "A", "name": "N", "role": "lead"}, "login", "small letters"),
        ({"login": "a", "name": "x" * 101, "role": "lead"}, "name", "1 to 100"),
        ({"login": "a", "name": "N", "role": "boss"}, "role", "'reviewer'"),
        ({"login": "a", "name": "N", "role": "lead", "admin": "1"}, "admin", "not permitted"),
    )
    for raw, field, words in cases:
        with pytest.raises(InvalidInput) as refused:
            Filled(Added, raw).read()
        assert (refused.value.field, words in refused.value.message) == (field, True), refused.value.message
    made = Filled(NewKey, {"key_name": "k", "scopes": ["read", "submit"]}).read()
    assert made.scopes == ("read", "submit")


def test_static_files_are_named_by_their_content() -> None:
    assert pages.static("ui.css").startswith("/ui/static/ui.css?v=")
    with pytest.raises(FileNotFoundError):
        pages.static("missing.css")


@pytest.mark.parametrize("template", sorted(path.name for path in TEMPLATES.glob("*.html")))
def test_templates_never_switch_escaping_off(template: str) -> None:
    text = (TEMPLATES / template).read_text()
    assert "|safe" not in text.replace(" ", "")
    assert "autoescape false" not in text
    assert text.count('method="post"') <= text.count("csrf")


def test_vendored_files_have_their_licences() -> None:
    for folder in (pages.STATIC / "vendor", Path(__file__).parents[1] / "browser" / "vendor"):
        for script in folder.glob("*.js"):
            assert (folder / f"{script.name.split('.')[0]}.LICENSE.txt").exists(), script
