"""Publishes the events of sources: the deployment's, and storage accounts' about their blobs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from shared import telemetry
from shared.arm.dead_letter_codec import is_announced
from shared.engine.ports import SubscriptionReader, TopicReader
from shared.errors import StorageUnavailable
from shared.events.event import Event
from shared.events.notices import WrittenBlob, blob_created, blob_event, is_notice
from shared.events.topic import SourceTopic, Topic

# Stores events as a publication of a topic, under a publish id; raises StorageUnavailable.
Accept = Callable[[Topic, Sequence[Event], str], None]

_IDS = uuid.UUID("3d6f4f0e-6f0b-4a0c-9a55-7d0c7c7f2b1d")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEvents:
    """Publishes the events of a source, as any publisher's events are published."""

    topics: TopicReader
    subscriptions: SubscriptionReader
    accept: Accept

    def topic(self, source: SourceTopic) -> Topic | None:
        """Return the topic of a source; ``None`` without subscribers. It takes one query."""
        name = source.joined
        if not self.subscriptions.of_topic(name):
            return None
        topic = self.topics.topic(name)
        if topic is None:
            raise StorageUnavailable(f"no event subscription of '{name}' can be read")
        return topic

    def publish(self, topic: Topic, events: Sequence[Event]) -> None:
        """Store *events*; the same ones again have the same publish id."""
        ids = " ".join(str(each.members["id"]) for each in events)
        self.accept(topic, events, uuid.uuid5(_IDS, ids).hex)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobNotices:
    """Publishes the events of blobs."""

    source_events: SourceEvents
    new_id: Callable[[], str]
    account: str  # the app's own storage account

    def topic(self, account: str) -> Topic | None:
        """Return the topic of an account (empty: the app's own), if there are subscribers."""
        return self.source_events.topic(SourceTopic(account or self.account))

    def publish(self, topic: Topic, blobs: Sequence[WrittenBlob]) -> None:
        """Store the events about *blobs*, but those that have no address."""
        named = [each for each in blobs if each.url]
        if left := len(blobs) - len(named):
            detail = "the address of a blob begins with PUSHGRID_PUBLIC_URL, which is not set"
            telemetry.warning("notices.left_out", topic=topic.name, blobs=left, detail=detail)
        if named:
            events = [blob_created(topic, each, self.new_id) for each in named]
            self.source_events.publish(topic, events)

    def changed(self, blob: WrittenBlob) -> None:
        """
        Store the event of what another program did in the app's own account, if anybody subscribes.
        """
        if is_announced(blob.container) and (topic := self.topic(self.account)):
            event = blob_event(topic, blob, self.new_id(), self.new_id)
            self.source_events.publish(topic, [event])


def is_news(topic: str, texts: Iterable[str | None]) -> bool:
    """Tell whether a blob with these dead letters of *topic* is announced: one is no notice."""
    return not all(text is not None and is_notice(topic, text) for text in texts)
