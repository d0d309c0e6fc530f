"""Writes a dead letter in Event Grid's form: the event, with members about its delivery."""

from __future__ import annotations

from typing import Any

from shared.clock import timestamp
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import DeadLetterNote
from shared.delivery.requests.conversion import convert
from shared.events.literals import dumps, loads
from shared.subscriptions.subscription import DeliverySchema

_WRITTEN_AS = {DeliverySchema.CUSTOM_INPUT: DeliverySchema.EVENT_GRID}


def record(delivery: Delivery, text: str, note: DeadLetterNote) -> str:
    """
    Return the JSON of one dead letter, *text* being its event as it was published.

    Source: contract §4.2. An event of a custom schema is wrapped in Event Grid's, whatever was
    delivered. The time of the last attempt is left out where there was none.
    """
    schema = _WRITTEN_AS.get(note.delivery_schema, note.delivery_schema)
    event: dict[str, Any] = loads(convert(text, note.input_schema, schema))
    last = delivery.last
    added: dict[str, Any] = {
        "deadLetterReason": note.reason,
        "deliveryAttempts": delivery.attempts,
        "lastDeliveryOutcome": last.outcome if last else None,
        "lastHttpStatusCode": last.status if last else None,
        "publishTime": timestamp(delivery.origin.published_at),
        "lastDeliveryAttemptTime": timestamp(last.at) if last and delivery.attempts else None,
    }
    if note.delivery_schema is DeliverySchema.CLOUD_EVENTS:
        del added["lastHttpStatusCode"]  # documented for the Event Grid schema only
        added = {name.lower(): value for name, value in added.items()}
    event |= {name: value for name, value in added.items() if value is not None}
    return dumps(event)
