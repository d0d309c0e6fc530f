"""Tells who subscribes to a storage account of the blobs that are written or deleted there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from shared.arm.dead_letter_codec import is_told_of
from shared.deadletter.notice import (
    WrittenBlob,
    blob_created,
    blob_event,
    is_notice,
    publish_id,
)
from shared.engine.ports import SubscriptionReader, TopicReader
from shared.errors import StorageUnavailable
from shared.events.event import Event
from shared.events.topic import AccountTopic, Topic
from shared.subscriptions.subscription import DeadLetterDestination

# Stores events as a publication of a topic, under a publish id; raises StorageUnavailable.
Accept = Callable[[Topic, Sequence[Event], str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobNotices:
    """
    Publishes the events of blobs, as any publisher's events are published.

    *account* is the name of the app's own storage account.
    """

    topics: TopicReader
    subscriptions: SubscriptionReader
    accept: Accept
    new_id: Callable[[], str]
    account: str

    def topic(self, destination: DeadLetterDestination) -> Topic | None:
        """
        Return the topic of a destination's account; ``None`` if nobody subscribes: one query.

        Raises:
            StorageUnavailable: who subscribes can't be read.
        """
        name = AccountTopic(destination.account or self.account).joined
        if not self.subscriptions.of_topic(name):
            return None
        topic = self.topics.topic(name)
        if topic is None:
            raise StorageUnavailable(f"no event subscription of '{name}' can be read")
        return topic

    def publish(self, topic: Topic, blobs: Sequence[WrittenBlob]) -> None:
        """
        Store the events about *blobs*.

        Raises:
            StorageUnavailable: they may or may not be stored.
        """
        events = [blob_created(topic, each, self.new_id) for each in blobs]
        self.accept(topic, events, publish_id(events))

    def changed(self, blob: WrittenBlob) -> None:
        """
        Store the event of what another program did in the app's own account, if anybody subscribes.

        Raises:
            StorageUnavailable: it may or may not be stored.
        """
        own = DeadLetterDestination(container=blob.container)
        if is_told_of(blob.container) and (topic := self.topic(own)):
            event = blob_event(topic, blob, self.new_id(), self.new_id)
            self.accept(topic, [event], publish_id([event]))


@dataclass(frozen=True, slots=True)
class NoticesOfRun:
    """The notices of one run of the timer, which asks once per account who subscribes."""

    notices: BlobNotices
    _topics: dict[str, Topic | None] = field(default_factory=dict)

    def has_subscriber(self, destination: DeadLetterDestination) -> bool:
        """Tell whether anybody is to be told; raises StorageUnavailable as `BlobNotices.topic`."""
        if destination.account not in self._topics:
            self._topics[destination.account] = self.notices.topic(destination)
        return self._topics[destination.account] is not None

    def publish(self, destination: DeadLetterDestination, blobs: Sequence[WrittenBlob]) -> None:
        """Tell of *blobs*, if there are any and anybody subscribes; raises StorageUnavailable."""
        if (
            blobs
            and self.has_subscriber(destination)
            and (topic := self._topics[destination.account])
        ):
            self.notices.publish(topic, blobs)


def is_news(topic: str, texts: Iterable[str | None]) -> bool:
    """Tell whether a blob with these dead letters of *topic* is told of: one is no notice."""
    return not all(text is not None and is_notice(topic, text) for text in texts)
