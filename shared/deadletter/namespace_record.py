"""Writes a dead letter of a namespace: the event, and its delivery beside it."""

from __future__ import annotations

from typing import Any

from shared.clock import timestamp
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import DeadLetterNote
from shared.delivery.policy import EndReason
from shared.delivery.requests.custom_headers import custom_headers
from shared.events.literals import dumps, loads

_REASONS = {
    EndReason.MAX_ATTEMPTS: "Maximum delivery attempts was exceeded.",
    EndReason.TIME_TO_LIVE: "Time to live was exceeded.",  # no text is published: by analogy
}
_REFUSED = "Undeliverable due to client error"
_NOTHING_ANSWERED = "Event was not acknowledged nor rejected."


def namespace_reason(reason: EndReason) -> str:
    """Return a reason as a namespace's dead letter has it."""
    return _REASONS.get(reason, _REFUSED)


def namespace_record(delivery: Delivery, text: str, note: DeadLetterNote) -> str:
    """
    Return the JSON of one dead letter, *text* being its event as it was published.

    It has the custom headers of the last request, without the secret ones.

    Source: "Dead lettering for event subscriptions to namespace topics" (2023-09-29) and "Delivery
    and retry with namespace topics" (2024-05-08), which spell ``deadLetterProperties`` both ways:
    this is the later one's.
    """
    last = delivery.last
    properties: dict[str, Any] = {
        "deadletterreason": namespace_reason(note.reason),
        "deliveryattempts": delivery.attempts,
        "deliveryresult": last.outcome if last and last.status else _NOTHING_ANSWERED,
        "publishutc": timestamp(delivery.origin.published_at),
    }
    if last and delivery.attempts:
        properties["deliveryattemptutc"] = timestamp(last.at)
    letter = {"deadLetterProperties": properties, "event": {**loads(text)}}
    if headers := custom_headers(note.headers, text):
        letter["customDeliveryProperties"] = headers
    return dumps(letter)
