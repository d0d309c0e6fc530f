"""Turns a dead letter back into the event that was published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from shared.clip import clip
from shared.deadletter.reader import DeadLetter, RecordForm
from shared.delivery.requests.push_request import convert
from shared.errors import InvalidEvents
from shared.events import cloudevents_schema, eventgrid_schema, strict_json
from shared.events.schema_rules import MAX_EVENT_SIZE
from shared.events.topic import InputSchema, Topic
from shared.subscriptions.subscription import DeliverySchema

# Attributes of CloudEvents that Event Grid's schema has a place for.
_KNOWN = frozenset({"specversion", "id", "source", "type", "time", "subject", "dataschema", "data"})


class NotReplayable(ValueError):
    """A dead letter has no form in the schema of the topic; the message says why."""


def event_text(letter: DeadLetter, topic: Topic) -> str:
    """
    Return the event as a message of *topic* has it: in its input schema, as compact JSON.

    Its id and time are unchanged. Event Grid writes a dead letter in the delivery schema, so a
    CloudEvent may have been published in Event Grid's schema: it is converted back if nothing is
    lost.

    Raises:
        NotReplayable: it is not valid, too large, or can't be converted without loss.
    """
    try:
        text = _text(letter, topic)
    except (InvalidEvents, ValueError) as error:
        raise NotReplayable(str(error)) from None
    if len(text) > MAX_EVENT_SIZE and strict_json.size(letter.event) > MAX_EVENT_SIZE:
        raise NotReplayable(f"The maximum size ({MAX_EVENT_SIZE}) has been exceeded.")
    return text


def _text(letter: DeadLetter, topic: Topic) -> str:
    event = dict(letter.event)
    is_cloud_event = letter.form is not RecordForm.EVENT_GRID
    if topic.input_schema is InputSchema.CLOUD_EVENTS:
        if is_cloud_event:
            return cloudevents_schema.build_event(event).text
        text = eventgrid_schema.build_event(event, topic).text
        return convert(text, InputSchema.EVENT_GRID, DeliverySchema.CLOUD_EVENTS)
    if is_cloud_event:
        event = _to_event_grid(event)
    return eventgrid_schema.build_event(event, topic).text


def _to_event_grid(event: Mapping[str, Any]) -> dict[str, Any]:
    """Reverse the conversion to CloudEvents. Source: contract §5.6."""
    lost = event.keys() - _KNOWN
    if event.get("datacontenttype", "application/json") == "application/json":
        lost -= {"datacontenttype"}
    schema = event.get("dataschema", "#")
    if not isinstance(schema, str) or not schema.startswith("#"):
        lost |= {"dataschema"}
    if lost:
        raise ValueError(f"Event Grid's schema has no place for '{clip(min(lost))}'.")
    converted = {
        "id": event.get("id"),
        "topic": event.get("source"),
        "subject": event.get("subject", ""),
        "eventType": event.get("type"),
        "eventTime": event.get("time"),
        "dataVersion": unquote(schema[1:]),
    }
    return converted | ({"data": event["data"]} if "data" in event else {})
