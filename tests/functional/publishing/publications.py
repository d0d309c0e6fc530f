"""Publications of small events, and storage on which chosen puts fail."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from pushgrid.testing.memory import START, FakeClock, MemoryQueues
from shared.adapters.azure_storage.traits import AZURE_STORAGE
from shared.delivery.delivery import Origin
from shared.delivery.messages.message import OtherVersion, ReplayStep
from shared.delivery.messages.message_reader import decode
from shared.delivery.messages.publication import Publication, parked_lines
from shared.engine.ports import Queue, Receipt
from shared.errors import StorageUnavailable
from shared.subscriptions.subscription import EventSubscription
from tests.builders import MESSAGE_SIZE, a_subscription, text

Found = tuple[str, int]  # publish id and position of an event

CRM = a_subscription()


def a_publication(
    number: int = 0,
    events: int = 1,
    *,
    topic: str = "orders",
    wanted_by: Collection[EventSubscription] = (CRM,),
    data: str = "",
    keep: timedelta = timedelta(days=4),
) -> Publication:
    texts = [text(id=f"{number}-{position}", data=data) for position in range(events)]
    matched = [(each, tuple(range(events))) for each in wanted_by]
    origin = Origin(f"{number:032x}", START, None)
    return Publication(
        topic=topic,
        origin=origin,
        texts=texts,
        matched=matched,
        parked=parked_lines(matched, texts, origin, MESSAGE_SIZE),
        keep_until=START + keep,
    )


def unreported(*_: object) -> None:
    """Report nothing of a commit."""


def events_of(message: str) -> set[Found]:
    """Return the events of a message."""
    parts = decode(message)
    assert not isinstance(parts, OtherVersion | ReplayStep)
    return {(each.origin.publish_id, each.position) for part in parts for each in part.deliveries}


class FaultyPuts(MemoryQueues):
    """Queues on which the puts with these numbers fail; *failed* has their texts."""

    def __init__(self, numbers: Collection[int] = ()) -> None:
        super().__init__(FakeClock(), AZURE_STORAGE)
        self.numbers = numbers
        self.puts = 0
        self.failed: list[str] = []

    def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        self.puts += 1
        if self.puts - 1 in self.numbers:
            self.failed.append(text)
            raise StorageUnavailable
        return super().put(queue, text, visible_in)
