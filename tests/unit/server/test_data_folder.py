"""The folder of a server is its own, private, and has one admin key."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from server.data_folder import KEY, MARK, admin_key, check_folder, read_admin_key, take_folder
from server.failure import CannotStart


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("is_there", [False, True])
def test_an_empty_or_new_folder_becomes_private(tmp_path, is_there):
    folder = tmp_path / "a/b"
    if is_there:
        folder.mkdir(parents=True)
        (folder / "lost+found").mkdir()
    check_folder(folder)
    take_folder(folder)

    assert mode(folder) == 0o700
    assert mode(folder / MARK) == 0o600
    check_folder(folder)  # again, with what a server has left
    (folder / "events.db").touch()
    check_folder(folder)


def test_a_first_start_that_was_killed_leaves_a_folder_that_can_be_taken(tmp_path):
    (tmp_path / f".{MARK}-4711").write_text("half")

    check_folder(tmp_path)


def test_a_folder_with_files_of_others_is_refused_and_names_some(tmp_path):
    for name in "abcd":
        (tmp_path / name).touch()

    with pytest.raises(CannotStart, match=r"not Pushgrid's \(a, b, c, …\): name an empty folder"):
        check_folder(tmp_path)


def test_what_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(CannotStart, match="is not a folder"):
        check_folder(tmp_path / "file")
    with pytest.raises(CannotStart, match=r"(can't be made|can't be used)"):
        check_folder(tmp_path / "file/data")


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4711)

    with pytest.raises(CannotStart, match="belongs to another user"):
        check_folder(tmp_path)


def test_a_folder_that_can_not_be_written_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)

    with pytest.raises(CannotStart, match="make it writable"):
        check_folder(tmp_path)
    with pytest.raises(CannotStart, match="can't be made"):
        check_folder(tmp_path / "data")


@pytest.mark.parametrize("name", ["pushgrid.db", "lock", KEY])
def test_a_folder_with_a_link_is_refused(tmp_path, name):
    folder, other = tmp_path / "data", tmp_path / "other"
    folder.mkdir()
    (folder / MARK).touch()
    other.write_text("somebody's")
    (folder / name).symlink_to(other)

    with pytest.raises(CannotStart, match=rf"has symbolic links \({name}\): put the files"):
        check_folder(folder)
    assert other.read_text() == "somebody's"


def test_the_admin_key_is_made_once(tmp_path):
    key = admin_key(tmp_path)
    (tmp_path / KEY).chmod(0o644)

    assert len(key) >= 40
    assert admin_key(tmp_path) == read_admin_key(tmp_path) == key
    assert mode(tmp_path / KEY) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [KEY]


@pytest.mark.parametrize("text", ["", "\n", "ein Schlüssel"])
def test_a_file_without_a_key_is_refused(tmp_path, text):
    (tmp_path / KEY).write_text(text)

    with pytest.raises(CannotStart, match="has no key: delete it"):
        admin_key(tmp_path)
