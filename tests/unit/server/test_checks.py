"""What `--check` finds, and the remedy of each finding."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from server.checks import find_all, machine
from server.checks.machine import (
    check_clock,
    check_sqlite,
    check_sync,
    judge_space,
    judge_sync,
)
from server.checks.reach import check_endpoint, judge_exchange
from server.failure import CannotStart
from server.options import ServerOptions
from shared.http import Answered, Failure, NotAnswered
from shared.settings import Settings
from tests.answering import AnsweringServer
from tests.serving import serving


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ("3.40.1", "warning"),
        ("3.44.5", "warning"),
        ("3.44.6", "ok"),
        ("3.45.0", "warning"),
        ("3.50.7", "ok"),
        ("3.51.2", "warning"),
        ("3.51.3", "ok"),
        ("3.52.0", "ok"),
    ],
)
def test_the_releases_that_lose_commits_are_named(version, state):
    assert check_sqlite(version).state == state


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "none of dead letters in the server's own account: PUSHGRID_PUBLIC_URL is not set"),
        ({"PUSHGRID_PUBLIC_URL": "https://e.example"}, "of dead letters below https://e.example"),
    ],
)
def test_whether_blobs_are_announced_is_said(tmp_path, environ, said):
    found = find_all(ServerOptions(data=tmp_path / "new", port=0), environ, sqlite="3.51.3")

    assert [each.said for each in found if each.what == "BlobCreated notices"] == [said]


def test_a_misspelt_setting_is_named_and_a_secret_in_a_file_is_none(tmp_path):
    (key := tmp_path / "key").write_text("secret")
    environ = {"PUSHGRID_ADMIN_KEY_FILE": str(key), "PUSHGRID_ALOW_HTTP": "true"}
    found = find_all(ServerOptions(data=tmp_path / "new", port=0), environ, sqlite="3.51.3")

    doubts = [each for each in found if each.what == "settings" and each.state == "warning"]
    assert [each.said for each in doubts] == ["nothing reads PUSHGRID_ALOW_HTTP"]
    assert "PUSHGRID_ALLOW_HTTP" in doubts[0].remedy


@pytest.mark.parametrize(
    ("median", "state", "word"),
    [(0.001, "warning", "write cache"), (0.2, "ok", ""), (50.0, "warning", "faster disk")],
)
def test_a_disk_that_is_slow_or_can_not_be_so_fast_is_named(median, state, word):
    found = judge_sync("disk sync", median, median)

    assert found.state == state
    assert word in found.remedy


def test_each_sync_that_is_measured_is_the_disks_own(tmp_path):
    synced: list[int] = []
    check_sync(tmp_path, synced.append)

    assert len(synced) == 50
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("free", "state"), [(10 << 20, "refused"), (1 << 30, "warning"), (1 << 40, "ok")]
)
def test_little_space_is_named(free, state):
    assert judge_space(free).state == state


def test_a_clock_that_nothing_keeps_right_or_that_is_behind_is_named(tmp_path):
    assert check_clock(tmp_path, lambda: 0).state == "ok"
    assert check_clock(tmp_path, lambda: None).state == "ok"
    assert "NTP" in check_clock(tmp_path, lambda: 5).remedy
    file = tmp_path / "later"
    file.touch()
    os.utime(file, (4e9, 4e9))
    assert "days behind" in check_clock(tmp_path, lambda: 0).said
    assert check_clock(tmp_path / "missing", lambda: 0).state == "ok"


def test_few_descriptors_are_named(monkeypatch):
    monkeypatch.setattr(machine, "descriptors", lambda: 256)

    assert "LimitNOFILE" in machine.check_descriptors().remedy


@pytest.mark.parametrize("failure", Failure)
def test_an_endpoint_that_is_not_reached_has_a_remedy(failure):
    found = judge_exchange(NotAnswered(failure, "why", 1.0))

    assert found.state == "warning"
    assert found.remedy
    assert ("PUSHGRID_ALLOWED_NETWORKS" in found.remedy) == (failure is Failure.NOT_ALLOWED)


def test_any_answer_of_an_endpoint_will_do():
    assert judge_exchange(Answered(405, {}, b"", 0.1)).state == "ok"


def test_an_endpoint_is_asked_as_a_delivery_goes():
    from ipaddress import ip_network

    with serving(AnsweringServer()) as server:
        server.answer = lambda *_: (204, {}, b"")
        url = f"{server.url}/hook"
        refused = check_endpoint(url, Settings(storage={}, allow_http=True))
        opened = [ip_network("127.0.0.0/8")]
        settings = Settings(storage={}, allow_http=True, allowed_networks=tuple(opened))
        reached = check_endpoint(url, settings)
        asked = list(server.requests)

    assert "PUSHGRID_ALLOWED_NETWORKS" in refused.remedy
    assert reached.state == "ok"
    assert asked == [("OPTIONS", "/hook")]
    assert "PUSHGRID_ALLOW_HTTP" in check_endpoint(url, Settings(storage={})).said


def test_an_expired_certificate_is_named(tmp_path):
    past = datetime(2020, 1, 1, tzinfo=UTC)
    issued = trustme.CA().issue_cert(
        "127.0.0.1", not_before=past, not_after=past + timedelta(days=1)
    )
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    options = ServerOptions(data=tmp_path / "new", port=0, tls_cert=tmp_path / "both.pem")

    (found,) = (each for each in find_all(options, {}, sqlite="3.51.3") if each.what == "TLS files")
    assert (found.state, "has expired on 2020-01-02" in found.said) == ("warning", True)


def test_all_that_is_wrong_is_found_at_once(tmp_path):
    def read(_: object) -> None:
        raise CannotStart("pushgrid.json:1: this is wrong")

    (tmp_path / "other").touch()
    options = ServerOptions(data=tmp_path, tls_cert=Path("missing.pem"))
    environ = {"PUSHGRID_ALLOW_HTTP": "maybe"}
    found = {
        each.what: each
        for each in find_all(options, environ, sqlite="3.51.3", others={"file": read})
    }

    wrong = {what for what, each in found.items() if each.state == "refused"}
    assert {"settings", "TLS files", "folder", "file"} <= wrong
    assert found.keys() >= {"port", "file system", "disk sync", "free space", "SQLite", "clock"}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other"]
