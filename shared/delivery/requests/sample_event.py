"""Makes the event with which an operator tests an endpoint."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from shared.clock import timestamp
from shared.delivery.delivery import Delivery, Origin
from shared.delivery.requests.push_request import Loaded
from shared.events.literals import dumps
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import EventSubscription

EVENT_TYPE, SUBJECT = "Pushgrid.TestEvent", "/pushgrid/test"
_DATA = {"message": "An operator tests this endpoint. The event was not published."}


def sample_event(subscription: EventSubscription, event_id: str, now: datetime) -> Loaded:
    """Return a delivery of the test event, in the form in which its topic's events are stored."""
    text = dumps(_stored(subscription, event_id, timestamp(now)))
    return Loaded(Delivery(origin=Origin(event_id, now, None), position=0, text=text), text)


def _stored(subscription: EventSubscription, event_id: str, time: str) -> dict[str, Any]:
    named = {"id": event_id, "subject": SUBJECT}
    if subscription.input_schema is InputSchema.CLOUD_EVENTS:
        source = subscription.topic_id
        cloud = {"specversion": "1.0", "type": EVENT_TYPE, "source": source, "time": time}
        return {**cloud, **named, "data": _DATA}
    event = {**named, "eventType": EVENT_TYPE, "eventTime": time, "data": _DATA}
    if subscription.input_schema is InputSchema.CUSTOM:  # the whole event is the data
        event["data"] = {**event}
    constant = {"dataVersion": "1.0", "metadataVersion": "1"}
    return {**event, "topic": subscription.topic_id, **constant}
