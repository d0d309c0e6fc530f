"""Defines queue messages: deliveries to one subscription or several, which are due together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from shared.delivery.delivery import Delivery
from shared.delivery.policy import EndReason
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    DeliveryHeader,
    DeliverySchema,
    SubscriptionKey,
)

VERSION = 5  # of what is written and read; any other is left to an app of that version
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterNote:
    """What dead letters need beside their events, decided when these ended."""

    reason: EndReason
    keep_until: datetime  # until then a failed write is repeated; then the events are dropped
    destination: DeadLetterDestination
    topic_id: str
    input_schema: InputSchema
    delivery_schema: DeliverySchema
    # The custom headers that a dead letter of a namespace names.
    headers: tuple[DeliveryHeader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePart:
    """
    One part of a queue message: deliveries of one subscription that are due together.

    The parts of a message have equal due times and rounds. One with a dead-letter note has no other
    part.
    """

    topic: str
    subscription: str
    generation: str  # ``UNMATCHED``: the filter is still to be applied
    deliveries: tuple[Delivery, ...]
    due: datetime | None = None  # ``None``: a first attempt
    rounds: int = 0  # returns from a poison queue
    batch_size: int = 1  # the most events of a request
    dead_letter: DeadLetterNote | None = None  # the deliveries have ended and wait for their blob
    blob: str = ""  # its path, from shortly before it is written

    @property
    def key(self) -> SubscriptionKey:
        """The subscription that gets the events."""
        return SubscriptionKey(self.topic, self.subscription)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStep:
    """A message that asks for a step of a replay job."""

    job: str
    number: int


class OtherVersion(NamedTuple):
    """A message in another version's form, which is left to an app of that version."""

    version: int
