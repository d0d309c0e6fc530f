"""Secrets may stand in files, and settings are those of the README."""

from __future__ import annotations

import pytest

from server import environment
from server.azure_accounts import connections
from server.environment import read_server_settings, with_secrets
from server.failure import CannotStart
from shared.settings import SECRETS

OWN = "pushgrid=https://pushgrid.blob.core.windows.net"


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_each_secret_may_stand_in_a_file(tmp_path, name):
    file = tmp_path / "secret"
    file.write_text("s3cret\n")

    assert with_secrets({f"{name}_FILE": str(file), "A": "b"}) == {name: "s3cret", "A": "b"}


def test_nothing_else_is_read_from_a_file():
    environ = {"PUSHGRID_PROFILE_FILE": "/etc/passwd"}

    assert with_secrets(environ) == environ


@pytest.mark.parametrize(
    ("content", "given", "why"),
    [
        (b"k", {"PUSHGRID_ADMIN_KEY": "other"}, "both set"),
        (None, {}, "can't be read"),
        (b" \n", {}, "is empty"),
        (b"\xff", {}, "not text in UTF-8"),
        (b"x" * 70_000, {}, "more than 65536"),
    ],
)
def test_a_secret_that_can_not_be_had_is_refused_without_being_quoted(
    tmp_path, content, given, why
):
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(CannotStart, match=why) as refused:
        with_secrets({"PUSHGRID_ADMIN_KEY_FILE": str(file), **given})
    assert "other" not in str(refused.value)


def test_no_storage_account_is_needed_and_no_timer_is_missing():
    settings = read_server_settings({"PUSHGRID_ADMIN_KEY": "k"})

    assert settings.admin_key == "k"
    assert settings.unset_schedules == {}


@pytest.mark.parametrize(
    ("given", "logging"), [(None, "all"), ("", "all"), ("failures", "failures")]
)
def test_every_attempt_is_recorded_unless_it_is_said(given, logging):
    environ = {} if given is None else {"PUSHGRID_ATTEMPT_LOG": given}

    assert read_server_settings(environ).attempt_log == logging


def test_other_accounts_are_those_that_the_settings_name():
    """By identity or by a connection string, which may stand in a file; libraries are there."""
    environ = {
        "PUSHGRID_OWN_ACCOUNT": "mine",
        "PUSHGRID_DEADLETTER_ACCOUNTS": "archive1=https://archive1.blob.core.windows.net,",
    }
    settings = read_server_settings(environ)

    assert settings.own_account == "mine"
    assert connections(settings)["archive1"]["blobServiceUri"] == (
        "https://archive1.blob.core.windows.net"
    )


def test_a_connection_string_of_another_account_may_stand_in_a_file(tmp_path):
    file = tmp_path / "secret"
    file.write_text("AccountName=archive1;AccountKey=a2V5\n")
    environ = {
        "PUSHGRID_DEADLETTER_ACCOUNTS": "archive1=ARCHIVE",
        "ARCHIVE_FILE": str(file),
    }

    assert read_server_settings(with_secrets(environ)).queue_accounts == {"archive1"}


def test_other_accounts_need_the_extra(monkeypatch):
    monkeypatch.setattr(environment, "find_spec", lambda _: None)

    with pytest.raises(CannotStart, match=r"DEADLETTER_ACCOUNTS.*pip install 'pushgrid\[azure\]'"):
        read_server_settings(
            {"PUSHGRID_DEADLETTER_ACCOUNTS": "archive1=https://archive1.blob.core.windows.net"}
        )


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"PUSHGRID_ALLOW_HTTP": "maybe"}, "PUSHGRID_ALLOW_HTTP"),
        ({"PUSHGRID_DEADLETTER_ACCOUNTS": "archive1"}, "ACCOUNTS"),
        ({"PUSHGRID_DEADLETTER_ACCOUNTS": "archive1=ARCHIVE", "ARCHIVE": "a=b"}, "ACCOUNTS"),
        ({"PUSHGRID_DEADLETTER_ACCOUNTS": OWN}, "'pushgrid' is the app's own account"),
        ({"PUSHGRID_OWN_ACCOUNT": "My-Account"}, "OWN_ACCOUNT.*3 to 24 small letters"),
    ],
)
def test_what_is_wrong_is_named(environ, named):
    with pytest.raises(CannotStart, match=named):
        read_server_settings(environ)
