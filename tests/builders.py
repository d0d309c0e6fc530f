"""Values that are valid by default; a test names only what it is about."""

from __future__ import annotations

import json
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from pushgrid.testing.memory import START, FakeClock, Seconds, off_loop
from shared.adapters.azure_storage.traits import AZURE_STORAGE
from shared.adapters.threads import SystemThreads
from shared.clock import Deadline
from shared.deadletter.reader import Record, elements, read_record
from shared.deadletter.selection import Selection
from shared.delivery.attempt_record import AttemptRecord
from shared.delivery.delivery import Delivery, LastAttempt, Origin
from shared.delivery.messages.message import DeadLetterNote, MessagePart
from shared.delivery.messages.message_writer import encode_together
from shared.delivery.outcome import DeliveryOutcome, Outcome
from shared.delivery.policy import DeliveryTerms, EndReason
from shared.delivery.profiles import PROFILES
from shared.engine.caching.health_table import TableHealth
from shared.engine.ports import ResourceStore
from shared.engine.replaying.job import ReplayJob, ReplaySource
from shared.events.event import Event
from shared.events.topic import InputSchema, Topic
from shared.events.trace_context import TraceContext
from shared.metrics import CountRow, Counts, Series, Span, Sum
from shared.subscriptions.destination import WebHook
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    DeliverySchema,
    EventSubscription,
    SubscriptionKey,
)
from shared.tasks import Tasks

TOPIC_ID = "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.EventGrid/topics/orders"
KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
URL = "https://crm.example/hook?code=s3cret"
CRM = SubscriptionKey("orders", "crm")
DEAD = DeadLetterDestination(container="dead")
MESSAGE_SIZE = AZURE_STORAGE.message_size
NEVER = Deadline(timedelta(seconds=1), Seconds())  # it never passes
ORIGIN = Origin(uuid.UUID(int=1).hex, START, None)
TRACE = TraceContext(f"00-{'4bf92f35' * 4}-00f067aa0ba902b7-01", "vendor=a1,other=b2")
LONGEST_TRACE = TRACE._replace(state="k=" + "v" * 510)
PARKED = ORIGIN._replace(payload=f"2026021312/{uuid.UUID(int=1).hex}-0123456789ab")


def members(**overrides: Any) -> dict[str, Any]:
    """Build an event in the Event Grid schema, as it is stored: stamped."""
    return {
        "id": "e-0",
        "topic": TOPIC_ID,
        "subject": "/orders/17",
        "eventType": "Shop.OrderPlaced",
        "eventTime": "2026-02-09T12:00:00Z",
        "data": {"total": 12.5},
        "dataVersion": "1.0",
        "metadataVersion": "1",
    } | overrides


def compact(value: object) -> str:
    """Write JSON as events are stored."""
    return json.dumps(value, separators=(",", ":"))


def text(**overrides: Any) -> str:
    """Build the stored text of an event."""
    return compact(members(**overrides))


def an_event(**overrides: Any) -> Event:
    document = members(**overrides)
    return Event(schema=InputSchema.EVENT_GRID, members=document, text=compact(document))


def noise(size: int, seed: int = 0) -> str:
    """Return *size* characters that hardly compress."""
    return urlsafe_b64encode(Random(seed).randbytes(size)).decode()[:size]


def a_topic(**overrides: Any) -> Topic:
    values: dict[str, Any] = {
        "name": "orders",
        "arm_id": TOPIC_ID,
        "input_schema": InputSchema.EVENT_GRID,
        "keys": (KEY, KEY),
    }
    return Topic(**values | overrides)


def a_subscription(**overrides: Any) -> EventSubscription:
    values: dict[str, Any] = {
        "arm_id": f"{TOPIC_ID}/eventSubscriptions/crm",
        "topic": "orders",
        "topic_id": TOPIC_ID,
        "name": "crm",
        "generation": "g-1",
        "input_schema": InputSchema.EVENT_GRID,
        "delivery_schema": DeliverySchema.EVENT_GRID,
    }
    webhook = WebHook(overrides.pop("endpoint_url", URL), overrides.pop("audience", None))
    return EventSubscription(**{"destination": webhook} | values | overrides)


def an_attempt(outcome: Outcome = Outcome.BUSY, status: int | None = 503) -> LastAttempt:
    return LastAttempt(outcome, status, START)


def a_delivery(position: int = 0, **overrides: Any) -> Delivery:
    values: dict[str, Any] = {
        "origin": ORIGIN,
        "position": position,
        "text": text(id=f"e-{position}"),
    }
    return Delivery(**values | overrides)


def a_note(**overrides: Any) -> DeadLetterNote:
    values: dict[str, Any] = {
        "reason": EndReason.MAX_ATTEMPTS,
        "keep_until": START + timedelta(hours=4),
        "destination": DEAD,
        "topic_id": TOPIC_ID,
        "input_schema": InputSchema.EVENT_GRID,
        "delivery_schema": DeliverySchema.EVENT_GRID,
    }
    return DeadLetterNote(**values | overrides)


def encode(message: MessagePart) -> list[str]:
    """Return the texts of one part's messages, as they are on Azure."""
    return [text for _, text in encode_together([message], MESSAGE_SIZE)]


def a_message(deliveries: Sequence[Delivery] | None = None, **overrides: Any) -> MessagePart:
    values: dict[str, Any] = {"topic": "orders", "subscription": "crm", "generation": "g-1"}
    group = (a_delivery(),) if deliveries is None else tuple(deliveries)
    return MessagePart(deliveries=group, **values | overrides)


def sums(values: Mapping[Series, float]) -> Counts:
    """Count each value once."""
    return {series: Sum.of([value]) for series, value in values.items()}


def a_minute(values: Mapping[Series, float], **overrides: Any) -> CountRow:
    """Build the counts of a minute, each counted once."""
    row = CountRow(Span.MINUTE, START, "orders", "crm", "a", sums(values))
    return row._replace(**overrides)


def an_outcome(outcome: Outcome = Outcome.BUSY, status: int | None = 503) -> DeliveryOutcome:
    return DeliveryOutcome(outcome=outcome, status=status, seconds=0.1)


def a_record(**overrides: Any) -> AttemptRecord:
    values: dict[str, Any] = {
        "topic": "orders",
        "subscription": "crm",
        "system_id": str(uuid.UUID(int=1)),
        "event_id": "e-0",
        "published_at": START,
        "number": 1,
        "at": START + timedelta(milliseconds=250),
        "outcome": an_outcome(),
        "next_at": START + timedelta(seconds=30),
        "why": "minimum for 503: 30 s",
    }
    return AttemptRecord(**values | overrides)


def a_replay(**overrides: Any) -> ReplayJob:
    values: dict[str, Any] = {
        "id": "j-1",
        "by": "the admin key",
        "started_at": START,
        "sources": (ReplaySource("orders", "crm", "dead", "", "CRM"),),
        "selection": Selection(),
        "to": None,
        "rate": 50,
        "is_dry_run": False,
        "again": False,
    }
    return ReplayJob(**values | overrides)


def terms(
    *,
    max_attempts: int = 30,
    minutes: float = 1440,
    profile: str = "latest",
    time_scale: float = 1,
    dead_letter: DeadLetterDestination | None = None,
    **switches: Any,
) -> DeliveryTerms:
    return DeliveryTerms(
        profile=PROFILES[profile],
        max_attempts=max_attempts,
        time_to_live=timedelta(minutes=minutes),
        dead_letter=dead_letter,
        time_scale=time_scale,
        **switches,
    )


def read_blob(body: bytes) -> list[Record]:
    """Return all records of a blob."""
    return [*map(read_record, elements(body))]


def a_table_health(
    table: ResourceStore, clock: FakeClock | None = None, **parts: Any
) -> TableHealth:
    """Return a process's view of *table*; by its own clock, which stands still, it reads once."""
    clock = clock or FakeClock()
    all_parts: dict[str, Any] = {
        "threads": SystemThreads(clock.monotonic),
        "off_loop": off_loop,
        "tasks": Tasks(),
        "clock": clock,
        "record": lambda _note, _key: None,
    }
    return TableHealth(table, **all_parts | parts)
