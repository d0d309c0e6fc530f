"""Divides the dead letters of a blob into batches: what is put next, and what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from shared.deadletter.published_event import NotReplayable, event_text
from shared.deadletter.reader import (
    DeadLetter,
    Element,
    UnreadableRecord,
    is_of,
    read_record,
    topic_id_of,
    topic_named,
)
from shared.engine.ports import StoredBlob, TopicReader
from shared.engine.replaying.job import (
    FINISHED,
    Position,
    Progress,
    ReplayFault,
    ReplayJob,
    ReplaySource,
    Skipped,
)
from shared.events.topic import Topic

MAX_EVENTS = 64  # of a batch, which is one or a few messages
MAX_CHARACTERS = 4 * 1024 * 1024  # likewise
MAX_SEEN = 1000  # records of a batch, most of which may be left out


@dataclass(slots=True)
class ReplayBatch:
    """Records of a blob with the texts of their events, maybe none, and the position after it."""

    then: Position
    blobs: int = 0
    events: int = 0
    records: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    faults: list[ReplayFault] = field(default_factory=list)

    @property
    def found(self) -> Progress:
        return Progress(
            blobs=self.blobs, events=self.events, put=len(self.texts), skipped=dict(self.skipped)
        )

    def is_full(self, most: int) -> bool:
        return len(self.texts) >= most or sum(map(len, self.texts)) >= MAX_CHARACTERS

    def skip(self, why: Skipped, fault: ReplayFault | None = None) -> None:
        self.skipped[why] += 1
        if fault:
            self.faults.append(fault)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobBatches:
    """The batches of a blob for a topic."""

    path: str
    topic: Topic
    most: int  # events of a batch
    replayed: frozenset[int]  # records that were
    left_out: Callable[[DeadLetter], Skipped | None]  # why a dead letter is not wanted
    was_put: Callable[[str], bool] | None = None  # tells it of a text, if equal ones are put once

    def of(self, elements: Iterable[Element], position: Position) -> Iterator[ReplayBatch]:
        """Yield the batches of the *elements* from *position* on; the last finishes the blob."""
        first = position.record_in(self.path)
        end = Position(position.source, self.path, FINISHED)
        batch = ReplayBatch(end, blobs=int(position.path != self.path))
        for number, element in enumerate(elements, first):
            self._take(batch, number, element)
            if batch.is_full(min(self.most, MAX_EVENTS)) or number + 1 - first >= MAX_SEEN:
                first = number + 1
                batch.then = end._replace(record=first)
                yield batch
                batch = ReplayBatch(end)
        yield batch

    def _take(self, batch: ReplayBatch, number: int, element: Element) -> None:
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
                text = event_text(record, self.topic)
            except NotReplayable as error:
                batch.skip(Skipped.NOT_REPLAYABLE, ReplayFault(where, str(error)))
                return
            if self.was_put and (text in batch.texts or self.was_put(text)):
                batch.skip(Skipped.REPLAYED)
                return
            batch.texts.append(text)
            batch.records.append(number)


def left_out(
    topics: TopicReader, job: ReplayJob, source: ReplaySource, blob: StoredBlob, letter: DeadLetter
) -> Skipped | None:
    """Return why *job* leaves out a dead letter of *blob*; ``None`` if it is sent."""
    if not job.selection.has_event(letter.event.get("id")):
        return Skipped.EVENT
    if not job.selection.has_reason(letter.reason):
        return Skipped.REASON
    if not source.subscription:
        return Skipped.TOPIC if _names_another_topic(topics, source, blob, letter) else None
    topic = topics.topic(source.topic)
    is_of_source = is_of(topic, letter, blob.summary) if topic else None
    if is_of_source is None and not job.unproven:
        return Skipped.UNPROVEN
    return Skipped.TOPIC if is_of_source is False else None


def _names_another_topic(
    topics: TopicReader, source: ReplaySource, blob: StoredBlob, letter: DeadLetter
) -> bool:
    """Tell whether an event in a given container names another topic of ours."""
    named = topic_id_of(letter, blob.summary) or ""
    name = topic_named(named)
    if not source.topic or not name or name.casefold() == source.topic.casefold():
        return False
    topic = topics.topic(name)
    return topic is not None and topic.arm_id.casefold() == named.casefold()
