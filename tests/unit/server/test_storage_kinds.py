"""Folders whose file system loses or damages what was acknowledged are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from server import storage_kinds
from server.failure import CannotStart
from server.storage_kinds import Mount, check_kind, mount_of, read_mounts

MOUNTS = [
    Mount("/", "overlay"),
    Mount("/data", "ext4"),
    Mount("/data/net", "nfs4"),
    Mount("/data/both", "ext4"),
    Mount("/data/both", "tmpfs"),
    Mount("/host", "virtiofs"),
]


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/srv", "overlay"),
        ("/data", "ext4"),
        ("/data/pushgrid", "ext4"),
        ("/database", "overlay"),
        ("/data/net/a/b", "nfs4"),
        ("/data/both/a", "tmpfs"),
    ],
)
def test_a_folder_is_on_the_nearest_mount(folder, kind):
    found = mount_of(Path(folder), MOUNTS)

    assert found
    assert found.kind == kind


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("/srv", "container's own layer"),
        ("/data/net", "network or shared"),
        ("/data/both", "in memory"),
        ("/host/a", "network or shared"),
    ],
)
def test_what_loses_events_is_refused_with_a_remedy(folder, why):
    with pytest.raises(CannotStart, match=rf"{why}.*name a folder on a disk.*--unsafe-folder"):
        check_kind(Path(folder), MOUNTS)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "apfs", "f2fs"])
def test_disks_are_taken(kind):
    check_kind(Path("/data"), [Mount("/", kind)])


def test_where_the_system_does_not_tell_nothing_is_refused():
    check_kind(Path("/data"), [])


def test_the_kernels_list_is_read(tmp_path, monkeypatch):
    table = tmp_path / "mountinfo"
    table.write_text(
        "36 35 98:0 /root / rw,noatime shared:1 master:2 - ext3 /dev/root rw\n"
        "37 36 0:5 / /my\\040data rw - tmpfs none rw\n"
    )
    monkeypatch.setattr(storage_kinds, "MOUNTS", table)
    monkeypatch.setattr("sys.platform", "linux")

    assert read_mounts() == [Mount("/", "ext3"), Mount("/my data", "tmpfs")]
