"""Notifies who subscribes to a storage account of blobs that are written or deleted there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from shared.arm.dead_letter_codec import is_announced
from shared.engine.timers.source_events import SourceEvents
from shared.events.notices import (
    WrittenBlob,
    blob_created,
    blob_event,
    is_notice,
)
from shared.events.topic import SourceTopic, Topic
from shared.subscriptions.subscription import DeadLetterDestination


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobNotices:
    """Publishes the events of blobs."""

    source_events: SourceEvents
    new_id: Callable[[], str]
    account: str  # the app's own storage account

    def topic(self, destination: DeadLetterDestination) -> Topic | None:
        """
        Return the topic of a destination's account; ``None`` if nobody subscribes: one query.

        Raises:
            StorageUnavailable: who subscribes can't be read.
        """
        return self.source_events.topic(SourceTopic(destination.account or self.account))

    def publish(self, topic: Topic, blobs: Sequence[WrittenBlob]) -> None:
        """
        Store the events about *blobs*.

        Raises:
            StorageUnavailable: they may or may not be stored.
        """
        events = [blob_created(topic, each, self.new_id) for each in blobs]
        self.source_events.publish(topic, events)

    def changed(self, blob: WrittenBlob) -> None:
        """
        Store the event of what another program did in the app's own account, if anybody subscribes.

        Raises:
            StorageUnavailable: it may or may not be stored.
        """
        own = DeadLetterDestination(container=blob.container)
        if is_announced(blob.container) and (topic := self.topic(own)):
            event = blob_event(topic, blob, self.new_id(), self.new_id)
            self.source_events.publish(topic, [event])


@dataclass(frozen=True, slots=True)
class NoticesOfRun:
    """The notices of one run of the timer, which asks once per account who subscribes."""

    notices: BlobNotices
    _topics: dict[str, Topic | None] = field(default_factory=dict)

    def has_subscriber(self, destination: DeadLetterDestination) -> bool:
        """Tell whether anybody subscribes; raises StorageUnavailable as `BlobNotices.topic`."""
        if destination.account not in self._topics:
            self._topics[destination.account] = self.notices.topic(destination)
        return self._topics[destination.account] is not None

    def publish(self, destination: DeadLetterDestination, blobs: Sequence[WrittenBlob]) -> None:
        """Announce *blobs*, if there are any and anybody subscribes; raises StorageUnavailable."""
        if (
            blobs
            and self.has_subscriber(destination)
            and (topic := self._topics[destination.account])
        ):
            self.notices.publish(topic, blobs)


def is_news(topic: str, texts: Iterable[str | None]) -> bool:
    """Tell whether a blob with these dead letters of *topic* is announced: one is no notice."""
    return not all(text is not None and is_notice(topic, text) for text in texts)
