"""Secrets may stand in files, and settings are those of the README."""

from __future__ import annotations

import pytest

from server.environment import read_server_settings, with_secrets
from server.failure import CannotStart
from shared.settings import SECRETS


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


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"PUSHGRID_ALLOW_HTTP": "maybe"}, "PUSHGRID_ALLOW_HTTP"),
        ({"PUSHGRID_DEADLETTER_ACCOUNTS": "acc=https://acc.blob.core.windows.net"}, "ACCOUNTS"),
    ],
)
def test_what_is_wrong_is_named(environ, named):
    with pytest.raises(CannotStart, match=named):
        read_server_settings(environ)
