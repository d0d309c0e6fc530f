"""The bytes of an event in the body of a request."""

from __future__ import annotations

from shared.delivery.conversion import convert
from shared.events.literals import dumps_unicode, loads
from shared.subscriptions.subscription import EventSubscription


def event_body(subscription: EventSubscription, text: str) -> bytes:
    """
    Return the event as its subscriber gets it: in the delivery schema, as UTF-8.

    It is stored as ASCII; escapes that UTF-8 doesn't need would treble some texts.
    """
    body = convert(text, subscription.input_schema, subscription.delivery_schema)
    if "\\u" in body:
        body = dumps_unicode(loads(body))
    return body.encode()
