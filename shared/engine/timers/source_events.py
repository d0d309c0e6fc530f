"""Publishes the events of sources, which are storage accounts and the deployment."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared.engine.ports import SubscriptionReader, TopicReader
from shared.errors import StorageUnavailable
from shared.events.event import Event
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
        """
        Return the topic of a source; ``None`` if nobody subscribes: one query.

        Raises:
            StorageUnavailable: who subscribes can't be read.
        """
        name = source.joined
        if not self.subscriptions.of_topic(name):
            return None
        topic = self.topics.topic(name)
        if topic is None:
            raise StorageUnavailable(f"no event subscription of '{name}' can be read")
        return topic

    def publish(self, topic: Topic, events: Sequence[Event]) -> None:
        """
        Store *events*; the same ones again have the same publish id.

        Raises:
            StorageUnavailable: they may or may not be stored.
        """
        ids = " ".join(str(each.members["id"]) for each in events)
        self.accept(topic, events, uuid.uuid5(_IDS, ids).hex)
