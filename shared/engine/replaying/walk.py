"""Walks the dead-letter blobs of a container: the oldest hour first, by name within it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shared.deadletter.selection import LEVELS, Hour, Selection, hour_of
from shared.engine.ports import DeadLetterReader, StoredBlob
from shared.engine.replaying.job import FINISHED, Position, ReplaySource

_YEAR, _SHORT = 4, 2  # digits of a year, and at most of the others
_MOST_DIGITS = 9
MAX_LISTINGS = 10_000  # of a walk; twenty for each blob that a step reads

Order = tuple[tuple[int, int, str], ...]


class SourceEnded(Exception):
    """Nothing more of a source can be replayed; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The wanted blobs of a source."""

    reader: DeadLetterReader
    source: ReplaySource
    selection: Selection
    written_before: datetime
    _left: Iterator[int] = field(default_factory=lambda: iter(range(MAX_LISTINGS)))

    def blobs_from(self, position: Position) -> Iterator[StoredBlob]:
        """
        Yield the blobs from a position on, that of the position included unless it is finished.

        Raises:
            NoContainer: there is no such container.
            SourceEnded: it has listed 10,000 folders.
            StorageUnavailable: its account did not answer, or the operator does not name it.
        """
        start = self._start()
        if start is None:
            return
        after = _order(position.path) if position.path else ()
        for blob in self._below(start, after):
            if position.record != FINISHED or blob.path != position.path:
                yield blob

    def _start(self) -> str | None:
        """Return the deepest folder that has all wanted blobs; ``None``: there are none."""
        folder, prefix = self.source.folder, self.selection.prefix
        base = f"{folder}/" if folder else ""
        if base.startswith(prefix):
            return base
        return prefix[: prefix.rfind("/") + 1] if prefix.startswith(base) else None

    def _below(self, folder: str, after: Order) -> Iterator[StoredBlob]:
        if next(self._left, None) is None:
            raise SourceEnded("It has too many folders without dead letters; give prefix or since.")
        listing = self.reader.list(self.source.destination, folder)
        blobs = {each.path: each for each in listing.blobs}
        below = [f"{folder}{name}" for name in listing.folders]
        for path in sorted({*blobs, *below}, key=_order):
            if path in blobs and _order(path) >= after and self._wants(blobs[path]):
                yield blobs[path]
            if path in below and self._may_have(path, after):
                yield from self._below(f"{path}/", after)

    def _may_have(self, folder: str, after: Order) -> bool:
        order = _order(folder)
        hour = _hour_in(folder.split("/"))
        return order >= after[: len(order)] and self.selection.may_have(f"{folder}/", hour)

    def _wants(self, blob: StoredBlob) -> bool:
        if {".", ".."} & {*blob.path.split("/")}:
            return False  # In a URL it is the path of another blob, maybe in another container.
        if not blob.path.endswith(".json") or not blob.path.startswith(self.selection.prefix):
            return False
        if blob.written_at >= self.written_before:
            return False  # of what this replay itself has put
        hour = _hour_in(blob.path.split("/")[:-1])
        return self.selection.has_hour(hour if len(hour) == LEVELS else hour_of(blob.written_at))


def _order(path: str) -> Order:
    """Return the sort key of a path: numbers by value."""
    return tuple(
        (0, int(each), each) if _is_number(each) else (1, 0, each) for each in path.split("/")
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def _hour_in(folders: Sequence[str]) -> Hour:
    """Return year, month, day and hour that a path ends with, or the first of these."""
    for depth in range(min(LEVELS, len(folders)), 0, -1):
        year, *others = tail = folders[-depth:]
        if (
            all(map(_is_number, tail))
            and len(year) == _YEAR
            and all(len(x) <= _SHORT for x in others)
        ):
            return tuple(map(int, tail))
    return ()
