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

VERSION = 5  # of what is written; older forms are read, newer ones are left to a newer app
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterNote:
    """
    What dead letters need beside their events, decided when these ended.

    A failed write is repeated until *keep_until*; then the events are dropped. *headers* are the
    custom headers that the dead letter names; only namespaces' dead letters do.
    """

    reason: EndReason
    keep_until: datetime
    destination: DeadLetterDestination
    topic_id: str
    input_schema: InputSchema
    delivery_schema: DeliverySchema
    headers: tuple[DeliveryHeader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryMessage:
    """
    One part of a queue message: deliveries of one subscription that are due together.

    The parts of a message have equal *due* and *rounds*; one with a *dead_letter* note has no
    other part. The *generation* ``UNMATCHED`` means that the filter is still to be applied. *due*
    is ``None`` for a first attempt. *rounds* counts returns from a poison queue. At most
    *batch_size* events share a request. With a *dead_letter* note the deliveries have ended and
    wait for their *blob*, whose path a message has from shortly before it is written.
    """

    topic: str
    subscription: str
    generation: str
    deliveries: tuple[Delivery, ...]
    due: datetime | None = None
    rounds: int = 0
    batch_size: int = 1
    dead_letter: DeadLetterNote | None = None
    blob: str = ""

    @property
    def key(self) -> SubscriptionKey:
        """The subscription that gets the events."""
        return SubscriptionKey(self.topic, self.subscription)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStep:
    """A message that asks for the *number*-th step of the replay *job*."""

    job: str
    number: int


class NewerMessage(NamedTuple):
    """A message of a newer version of the app, which only that version can read."""

    version: int
