"""Which database a server uses, and that its password stays out of sight."""

from __future__ import annotations

from pathlib import Path

import pytest

from server import store_url
from server.failure import CannotStart
from server.store_url import find_store
from shared.settings import unknown

URL = "postgresql://pushgrid@db-1:5432,db-2:5432/events"
SECRET = "postgresql://pushgrid:kept-secret@db/events"


def test_it_is_named_by_option_variable_or_file(tmp_path: Path) -> None:
    """With several hosts, by whom the primary is looked for; the option comes first."""
    file = tmp_path / "store"
    file.write_text(f"{SECRET}\n")

    assert find_store(None, {}) is None
    found = find_store(URL, {})
    assert found
    assert (found["host"], found["user"]) == ("db-1,db-2", "pushgrid")
    assert find_store(URL, {"PUSHGRID_STORE_FILE": "/no/such/file"}) == found
    for environ in ({"PUSHGRID_STORE": SECRET}, {"PUSHGRID_STORE_FILE": str(file)}):
        named = find_store(None, environ)
        assert named
        assert unknown(environ) == {}, "it is no setting that nothing reads"
        assert named["password"] == "kept-secret"


@pytest.mark.parametrize(
    ("argument", "environ", "said"),
    [
        (SECRET, {}, "every user of this machine sees .* set PUSHGRID_STORE or"),
        (f"{URL}?password=kept-secret", {}, "every user of this machine sees"),
        (f"{URL}?sslpassword=kept-secret", {}, "every user of this machine sees"),
        (None, {"PUSHGRID_STORE": "postgresql://a:b/kept-secret@h/d"}, "%40 %3A %2F"),
        (None, {"PUSHGRID_STORE": "postgresql://a:b@kept-secret@h/d"}, "%40 %3A %2F"),
        (None, {"PUSHGRID_STORE": "postgresql://a:b/c@kept-secret/d"}, "%40 %3A %2F"),
        (None, {"PUSHGRID_STORE": URL, "PUSHGRID_STORE_FILE": "/a"}, "STORE_FILE are both set"),
        ("events.db", {}, "--store: The store is no URL of PostgreSQL: write postgresql://USER"),
        (None, {"PUSHGRID_STORE": f"{SECRET}?nonsense=1"}, "PUSHGRID_STORE: .* can't be read"),
        (None, {"PUSHGRID_STORE": "postgresql://a:kept-secret%zz@h/d"}, "%40 %3A %2F"),
        (None, {"PUSHGRID_STORE_FILE": "/no/such/file"}, "PUSHGRID_STORE_FILE: /no/such/file can"),
    ],
)
def test_what_can_not_be_used_is_said_without_the_password(
    argument: str | None, environ: dict[str, str], said: str
) -> None:
    with pytest.raises(CannotStart, match=said) as refused:
        find_store(argument, environ)
    assert "kept-secret" not in str(refused.value)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_url, "find_spec", lambda _: None)
    with pytest.raises(CannotStart, match=r"pip install 'pushgrid\[postgres\]'"):
        find_store(URL, {})
