"""What other commands know of a server: its admin key, from its folder or while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.local import known_locally
from cli.local.known_locally import LocalDeployment, find_local, recorded
from server.data_folder import KEY, admin_key
from tests.commands import Run

URL = "http://127.0.0.1:7999"


@pytest.fixture(autouse=True)
def _records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(known_locally, "path_of", lambda _: tmp_path / "local/7999.json")


def test_the_admin_key_of_a_folder_is_printed(run: Run, tmp_path: Path) -> None:
    key = admin_key(tmp_path)

    assert run("admin-key", "--data", str(tmp_path)) == (0, f"{key}\n", "")


def test_a_folder_without_a_key_says_who_makes_one(run: Run, tmp_path: Path) -> None:
    found = run("admin-key", "--data", str(tmp_path))

    assert (found.code, found.out) == (1, "")
    assert f"pushgrid serve --data {tmp_path}" in found.err


def test_while_it_runs_its_key_is_read_where_it_stands(tmp_path: Path) -> None:
    key = admin_key(tmp_path)
    with recorded(LocalDeployment(URL, key_file=str(tmp_path / KEY))) as record:
        found = find_local(URL)
        assert found
        assert found.key == key
        assert key not in record.read_text()
    assert find_local(URL) is None
