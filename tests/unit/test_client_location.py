"""Where the client looks for the server and its key."""

from __future__ import annotations

from pathlib import Path

import pytest
from platformdirs import user_data_path

from verifier_service.client.location import data_folder, locate


def test_the_local_server_and_its_key_are_the_default(tmp_path: Path) -> None:
    (tmp_path / "admin.key").write_text("vk_1.secret\n")
    found = locate(None, None, {"VERIFIER_DATA": str(tmp_path)})
    assert (found.url, found.key, found.loopback) == ("http://127.0.0.1:8321", "vk_1.secret", True)


def test_arguments_go_before_the_environment() -> None:
    environ = {"VERIFIER_URL": "http://b", "VERIFIER_API_KEY": "two"}
    assert locate("http://a/", "one", environ).url == "http://a"
    assert locate("http://a/", "one", environ).key == "one"
    assert locate(None, None, environ).url == "http://b"


def test_the_local_key_is_never_shown_to_another_machine(tmp_path: Path) -> None:
    (tmp_path / "admin.key").write_text("vk_1.secret")
    environ = {"VERIFIER_DATA": str(tmp_path), "VERIFIER_URL": "https://elsewhere.example"}
    found = locate(None, None, environ)
    assert found.key is None
    assert not found.loopback


@pytest.mark.parametrize("url", ["127.0.0.1:8321", "ftp://a", "http://", "file:///etc/passwd"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        locate(url, "k", {})


@pytest.mark.parametrize("key", ["a b", "a\nb", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="header"):
        locate(None, key, {})


def test_no_key_file_is_no_error(tmp_path: Path) -> None:
    assert locate(None, None, {"VERIFIER_DATA": str(tmp_path)}).key is None


def test_the_folder_is_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VERIFIER_DATA", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert data_folder({}) == user_data_path("verifier-service")
    monkeypatch.setenv("XDG_DATA_HOME", "/somewhere")
    assert data_folder({"XDG_DATA_HOME": "/somewhere"}) == user_data_path("verifier-service")
