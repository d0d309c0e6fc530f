"""An event subscription: a topic, a filter, an endpoint, and what to do about failures."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from shared.events.topic import InputSchema
from shared.http import Audience
from shared.subscriptions.filters import MATCH_ALL, EventFilter

# What endpoints of CloudEvents agree to; the Functions trigger answers this very text.
WEBHOOK_ORIGIN = "eventgrid.azure.net"


class DeliverySchema(StrEnum):
    """What subscribers receive; the values are the ARM names."""

    EVENT_GRID = "EventGridSchema"
    CLOUD_EVENTS = "CloudEventSchemaV1_0"
    CUSTOM_INPUT = "CustomInputSchema"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """
    Limits on trying: all attempts, the first included, and minutes since publish, maybe in part.

    ``None``: the default of the topic's delivery profile.
    """

    max_delivery_attempts: int | None = None
    event_time_to_live_minutes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterDestination:
    """A blob container of the app's own storage account."""

    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """
    How many events share a request: never more than *max_events*, and about so large a body.

    One event is no batch: then batching is off.
    """

    max_events: int = 1
    preferred_kilobytes: int = 64


NO_BATCHING = Batching()


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticHeader:
    """A header with the same value in every request to the endpoint, the handshake included."""

    name: str
    value: str = field(repr=False)
    is_secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicHeader:
    """A header whose value each event gives: *path* are the names that lead to it."""

    name: str
    path: tuple[str, ...]


DeliveryHeader = StaticHeader | DynamicHeader


class SubscriptionKey(NamedTuple):
    """Names one event subscription of the deployment: its topic, and its own name there."""

    topic: str
    subscription: str

    @property
    def folded(self) -> SubscriptionKey:
        """The key in lower case: names are equal whatever their case."""
        return SubscriptionKey(self.topic.lower(), self.subscription.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSubscription:
    """
    One subscription as the delivering side needs it.

    *generation* is new at each creation: what waits for an earlier generation is dropped.
    *topic* is the topic's name, *topic_id* its ARM id. The query of *endpoint_url* may be secret.
    From *expires_at* on it is retired, ``None``: never. *audience* is whom the endpoint wants
    tokens for. *rate* is how many requests a minute the
    endpoint has granted, ``None``: as many as come; until it *has_consented* it gets no events.
    What the topic's delivery profile doesn't have does not apply: ``DeliveryTerms`` say what does.
    """

    topic: str
    topic_id: str
    name: str
    generation: str
    endpoint_url: str = field(repr=False)
    input_schema: InputSchema
    delivery_schema: DeliverySchema
    filter: EventFilter = MATCH_ALL
    retry_policy: RetryPolicy = RetryPolicy()
    dead_letter: DeadLetterDestination | None = None
    batching: Batching = NO_BATCHING
    headers: tuple[DeliveryHeader, ...] = ()
    expires_at: datetime | None = None
    audience: Audience | None = None
    rate: int | None = None
    has_consented: bool = True

    @property
    def key(self) -> SubscriptionKey:
        return SubscriptionKey(self.topic, self.name)

    @property
    def arm_id(self) -> str:
        return f"{self.topic_id}/eventSubscriptions/{self.name}"

    def is_expired(self, now: datetime) -> bool:
        """Tell whether it is retired: it gets no more events, and what waits for it is dropped."""
        return self.expires_at is not None and self.expires_at <= now
