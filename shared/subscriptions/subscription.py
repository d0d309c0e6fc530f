"""Defines an event subscription: topic, filter, endpoint, retry policy, dead-letter destination."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from shared.events.topic import InputSchema
from shared.subscriptions.destination import Destination, WebHook
from shared.subscriptions.filters import MATCH_ALL, EventFilter
from shared.subscriptions.request_limits import NO_LIMITS, RequestLimits

# The generation of messages whose events were published while the subscription could not be read:
# their filter is still to be applied.
UNMATCHED = ""
# The origin that CloudEvents endpoints allow; the Functions trigger answers exactly this text.
WEBHOOK_ORIGIN = "eventgrid.azure.net"
_SYSTEM_TOPIC = re.compile(r"/(systemTopics/[^/]+)/eventSubscriptions/", re.IGNORECASE)


class DeliverySchema(StrEnum):
    """The schema in which subscribers receive events; values are ARM names."""

    EVENT_GRID = "EventGridSchema"
    CLOUD_EVENTS = "CloudEventSchemaV1_0"
    CUSTOM_INPUT = "CustomInputSchema"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """
    The most attempts, including the first, and the time to live in minutes, maybe fractional.

    ``None``: the default of the topic's delivery profile.
    """

    max_delivery_attempts: int | None = None
    event_time_to_live_minutes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterDestination:
    """A blob container."""

    container: str
    account: str = ""  # of storage; empty: the app's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """The most events in a request, and the preferred size of its body."""

    max_events: int = 1  # 1 means no batching
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
    """A header whose value is taken from each event."""

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
        return _folded(self)


@lru_cache(4096)  # asked for several times a delivery
def _folded(key: SubscriptionKey) -> SubscriptionKey:
    return SubscriptionKey(key.topic.lower(), key.subscription.lower())


class Pause(NamedTuple):
    """A manual pause: nothing is sent until somebody resumes."""

    since: datetime
    by: str  # who began it


class SigningEnd(NamedTuple):
    """The update that left signed deliveries without signing secrets."""

    at: datetime
    by: str  # whose update it was


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSubscription:
    """One subscription as deliveries use it; `DeliveryTerms` leave out what the profile lacks."""

    arm_id: str
    topic: str  # its name
    topic_id: str  # its ARM id
    name: str
    generation: str  # new at each creation: events that wait for an earlier one are dropped
    destination: Destination
    input_schema: InputSchema
    delivery_schema: DeliverySchema
    filter: EventFilter = MATCH_ALL
    retry_policy: RetryPolicy = RetryPolicy()
    dead_letter: DeadLetterDestination | None = None
    batching: Batching = NO_BATCHING
    headers: tuple[DeliveryHeader, ...] = ()
    # Secrets, the newest first; requests are signed with each.
    signing: tuple[str, ...] = field(default=(), repr=False)
    signing_end: SigningEnd | None = None  # of an unsigned one that was signed
    expires_at: datetime | None = None  # from then on it gets no events
    # The most requests a minute that the endpoint allows; ``None``: no limit.
    rate: int | None = None
    limits: RequestLimits = NO_LIMITS  # the operator's, for all processes together, as is `rate`
    has_consented: bool = True  # before, it gets no events
    # It replaced one that could not be read: events of any generation are its own.
    is_restored: bool = False
    pause: Pause | None = None  # while there is one, its events wait

    @property
    def key(self) -> SubscriptionKey:
        return SubscriptionKey(self.topic, self.name)

    @property
    def addressed_topic(self) -> str:
        """The topic that leads a command to it: the name of a system topic's account does not."""
        found = _SYSTEM_TOPIC.search(self.arm_id)
        return found[1] if found else self.topic

    @property
    def endpoint_url(self) -> str:
        """What names the endpoint; its query may be secret."""
        return self.destination.url

    @property
    def is_shared(self) -> bool:
        """Whether the processes that deliver to it share a limit."""
        return self.rate is not None or self.limits != NO_LIMITS

    def owns(self, generation: str) -> bool:
        """Tell whether events that wait for *generation* are its own."""
        return self.is_restored or generation in (self.generation, UNMATCHED)

    def is_expired(self, now: datetime) -> bool:
        """Tell whether it gets no more events and its waiting events are dropped."""
        return self.expires_at is not None and self.expires_at <= now


def placeholder(key: SubscriptionKey) -> EventSubscription:
    """Return a subscription that can't be read, as publishing sees it: it gets every event."""
    return EventSubscription(
        arm_id="",
        topic=key.topic,
        topic_id="",
        name=key.subscription,
        generation=UNMATCHED,
        destination=WebHook(""),
        input_schema=InputSchema.EVENT_GRID,
        delivery_schema=DeliverySchema.EVENT_GRID,
    )
