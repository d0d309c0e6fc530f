"""Divides the dead letters of a blob into batches: what is put next, and what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.deadletter.published_event import NotReplayable, event_text
from shared.deadletter.reader import DeadLetter, Element, UnreadableRecord, read_record
from shared.engine.replaying.job import FINISHED, Position, Progress, ReplayFault, Skipped
from shared.events.topic import Topic

MAX_EVENTS = 64  # of a batch, which is one or a few messages
MAX_CHARACTERS = 4 * 1024 * 1024  # likewise
MAX_SEEN = 1000  # records of a batch, most of which may be left out


class Batch(NamedTuple):
    """
    Records of a blob with the texts of their events, maybe none, and what was found up to *then*.

    *then* is the position after it.
    """

    records: tuple[int, ...]
    texts: tuple[str, ...]
    found: Progress
    faults: tuple[ReplayFault, ...]
    then: Position


@dataclass(slots=True)
class _OpenBatch:
    """The batch that grows."""

    records: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    size: int = 0
    events: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    faults: list[ReplayFault] = field(default_factory=list)

    def add(self, number: int, text: str) -> None:
        self.records.append(number)
        self.texts.append(text)
        self.size += len(text)

    def skip(self, why: Skipped, fault: ReplayFault | None = None) -> None:
        self.skipped[why] += 1
        if fault:
            self.faults.append(fault)

    def closed(self, blobs: int, then: Position) -> Batch:
        found = Progress(blobs=blobs, events=self.events, skipped=dict(self.skipped))
        return Batch(tuple(self.records), tuple(self.texts), found, tuple(self.faults), then)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobBatches:
    """
    The batches of the blob *path* for a topic, of at most *most* events each.

    *left_out* tells why a dead letter is not wanted, *replayed* are the records that were.
    """

    path: str
    topic: Topic
    most: int
    replayed: frozenset[int]
    left_out: Callable[[DeadLetter], Skipped | None]

    def of(self, elements: Iterable[Element], position: Position) -> Iterator[Batch]:
        """Yield the batches of the *elements* from *position* on; the last finishes the blob."""
        first = position.record_in(self.path)
        blobs, batch = int(position.path != self.path), _OpenBatch()
        for number, element in enumerate(elements, first):
            self._take(batch, number, element)
            if (
                len(batch.texts) >= min(self.most, MAX_EVENTS)
                or batch.size >= MAX_CHARACTERS
                or number + 1 - first >= MAX_SEEN
            ):
                first = number + 1
                yield batch.closed(blobs, Position(position.source, self.path, number + 1))
                blobs, batch = 0, _OpenBatch()
        yield batch.closed(blobs, Position(position.source, self.path, FINISHED))

    def _take(self, batch: _OpenBatch, number: int, element: Element) -> None:
        record = read_record(element)  # here: only one is in memory
        where = f"{self.path} [{number}]"
        if isinstance(record, UnreadableRecord):
            batch.skip(Skipped.UNREADABLE, ReplayFault(where, record.fault))
            return
        batch.events += 1
        if number in self.replayed:
            batch.skip(Skipped.REPLAYED)
        elif why := self.left_out(record):
            batch.skip(why)
        else:
            try:
                batch.add(number, event_text(record, self.topic))
            except NotReplayable as error:
                batch.skip(Skipped.NOT_REPLAYABLE, ReplayFault(where, str(error)))
