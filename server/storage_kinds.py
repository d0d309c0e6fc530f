"""Tells on which kind of file system a folder is, and why it may lose what was acknowledged."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from server.failure import CannotStart

MOUNTS = Path("/proc/self/mountinfo")
_VOLATILE = {"ramfs", "tmpfs"}
_LAYERS = {"aufs", "overlay"}
#: SQLite needs locks and shared memory that these don't keep, or not between machines.
_SHARED = re.compile(
    r"(9p|afpfs|afs|ceph|cifs|fakeowner|fuse\..+|glusterfs|gpfs|lustre|nfs[34]?|osxfs|smb3?|smbfs"
    r"|vboxsf|virtiofs|vmhgfs|webdav)"
)
_ESCAPED = re.compile(r"\\([0-7]{3})")
_OF_MACOS = re.compile(r".+ on (?P<point>/.*) \((?P<kind>\w+)[,)]")
_OVERRIDE = "or add --unsafe-folder if it may lose events"


class Mount(NamedTuple):
    """A mounted file system."""

    point: str
    kind: str


def mount_of(folder: Path, mounts: Iterable[Mount]) -> Mount | None:
    """Return what the absolute, resolved *folder* is on; of two on one point, the later hides."""
    found = None
    for each in mounts:
        inside = (
            each.point == "/" or folder == Path(each.point) or Path(each.point) in folder.parents
        )
        if inside and (found is None or len(each.point) >= len(found.point)):
            found = each
    return found


def read_mounts() -> list[Mount]:
    """Return what is mounted; nothing where the system does not tell."""
    if sys.platform == "darwin":
        return _mounts_of_macos()
    try:
        lines = MOUNTS.read_text().splitlines()
    except OSError:
        return []
    return [_parse(line) for line in lines]


def fault_of(kind: str) -> str | None:
    """Return why events may be lost on a file system of *kind*; ``None``: nothing is known."""
    if kind in _VOLATILE:
        return f"is in memory ({kind}): a restart of the machine loses all events"
    if kind in _LAYERS:
        return f"is a container's own layer ({kind}): removing the container loses all events"
    if _SHARED.fullmatch(kind):
        return f"is on a network or shared file system ({kind}): SQLite's files get damaged there"
    return None


def fault_at(folder: Path, mounts: Iterable[Mount]) -> str | None:
    """Return why events may be lost in *folder*; ``None``: nothing is known."""
    mount = mount_of(folder.resolve(), mounts)
    return fault_of(mount.kind) if mount else None


def check_kind(folder: Path, mounts: Iterable[Mount]) -> None:
    """Return if nothing is known against the file system of *folder*. Raises CannotStart."""
    if fault := fault_at(folder, mounts):
        remedy = "name a folder on a disk of this machine, or a volume"
        raise CannotStart(f"--data {folder} {fault}: {remedy}, {_OVERRIDE}.")


def _parse(line: str) -> Mount:
    """Source: proc_pid_mountinfo(5): fields before and after a lone hyphen."""
    before, _, after = line.partition(" - ")
    point = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), before.split()[4])
    return Mount(point, after.split()[0])


def _mounts_of_macos() -> list[Mount]:
    said = subprocess.run(["/sbin/mount"], capture_output=True, text=True, check=False).stdout
    found = map(_OF_MACOS.fullmatch, said.splitlines())
    return [Mount(each["point"], each["kind"]) for each in found if each]
