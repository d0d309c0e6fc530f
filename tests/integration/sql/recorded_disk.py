"""
A disk that is recorded: what a power failure would leave of it, and syncs that fail.

SQLite writes real files, which are what the system's cache holds. On the disk is only what was
synced since it was written; after a failed sync nobody writes the pages again (Linux marks them
clean).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from threading import RLock

import apsw

from shared.adapters.sql.sqlite.files import connect

DATABASE, WAL = "pushgrid.db", "pushgrid.db-wal"


class RecordedDisk(apsw.VFS):
    """A VFS under *name*; *fails* tells of each sync, by the name of its file, whether it fails."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fails: Callable[[str], bool] = lambda _: False
        self.before_sync: Callable[[str], object] = lambda _: None
        self.synced = 0  # syncs that succeeded
        self._lock = RLock()
        self._on_disk: defaultdict[str, bytearray] = defaultdict(bytearray)
        self._pending: defaultdict[str, list[tuple[int, bytes] | int]] = defaultdict(list)
        super().__init__(name, "")

    def connect(self, database: Path) -> apsw.Connection:
        return connect(database, self.name)

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        return _RecordedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001
        super().xDelete(filename, syncdir)
        with self._lock:
            self._on_disk.pop(Path(filename).name, None)
            self._pending.pop(Path(filename).name, None)

    def written(self, file: str, change: tuple[int, bytes] | int) -> None:
        """Note that bytes were written at an offset, or that the file was cut."""
        with self._lock:
            self._pending[file].append(change)

    def sync(self, file: str) -> None:
        self.before_sync(file)
        with self._lock:
            pending = self._pending.pop(file, [])
            if self.fails(file):
                raise apsw.IOError("the sync fails")
            _apply(self._on_disk[file], pending)
            self.synced += 1

    def snapshot(self) -> tuple[dict[str, bytearray], dict[str, list[tuple[int, bytes] | int]]]:
        """Return what `restore` takes."""
        with self._lock:
            on_disk = {file: bytearray(image) for file, image in self._on_disk.items()}
            return on_disk, {file: [*pending] for file, pending in self._pending.items()}

    def restore(
        self, found: tuple[dict[str, bytearray], dict[str, list[tuple[int, bytes] | int]]]
    ) -> None:
        """Be as in a snapshot, or as a disk is that has only what is on it."""
        with self._lock:
            self._on_disk = defaultdict(bytearray, found[0])
            self._pending = defaultdict(list, found[1])

    def written_so_far(self) -> dict[str, bytes]:
        """Return what the system's cache has, which is there after a kill."""
        return self.after_power_failure(torn=2**62)

    def after_power_failure(
        self, *, torn: int = 0, chance: Random | None = None
    ) -> dict[str, bytes]:
        """
        Return what is on the disk, by the name of the file.

        *torn*: of what was not synced so many of the first bytes as well, and nothing after them.
        *chance*: of what was not synced any writes, each perhaps torn: disks keep no order.
        """
        images = {}
        with self._lock:
            for file in sorted({*self._on_disk, *self._pending}):
                images[file] = bytearray(self._on_disk[file])
                pending = self._pending[file]
                kept = _any(pending, chance) if chance else _first(pending, torn)
                _apply(images[file], list(kept))
        return {file: bytes(image) for file, image in images.items()}


class _RecordedFile(apsw.VFSFile):
    def __init__(
        self, disk: RecordedDisk, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._disk, self._file = disk, Path(path).name
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._disk.written(self._file, (offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._disk.written(self._file, newsize)

    def xSync(self, flags: int) -> None:  # noqa: ARG002, N802
        self._disk.sync(self._file)  # which is all: the machine that runs this goes on


def _apply(image: bytearray, changes: list[tuple[int, bytes] | int]) -> None:
    for change in changes:
        if isinstance(change, int):
            del image[change:]
            continue
        offset, data = change
        image.extend(bytes(max(0, offset + len(data) - len(image))))
        image[offset : offset + len(data)] = data


def _first(changes: list[tuple[int, bytes] | int], size: int) -> Iterator[tuple[int, bytes] | int]:
    for change in changes:
        if size <= 0:
            return
        if isinstance(change, int):
            yield change
        else:
            yield change[0], change[1][:size]
            size -= len(change[1])


def _any(
    changes: list[tuple[int, bytes] | int], chance: Random
) -> Iterator[tuple[int, bytes] | int]:
    for change in changes:
        kind = chance.choice(("missing", "there", "torn"))
        if kind == "missing":
            continue
        if isinstance(change, int) or kind == "there":
            yield change
        else:
            yield change[0], change[1][: chance.randrange(len(change[1]) + 1)]


def restored(folder: Path, images: Mapping[str, bytes]) -> Path:
    """Write the files of a database into a new folder."""
    folder.mkdir(mode=0o700)
    for name, image in images.items():
        (folder / name).write_bytes(image)
    return folder
