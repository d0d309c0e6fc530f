"""Builds the HTTP request that delivers a batch of events: its body, its headers, who shares it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from shared.delivery.delivery import Batch, Delivery, common_trace, replay_job
from shared.delivery.policy import DeliveryTerms
from shared.events.event import event_names
from shared.events.iso_8601 import as_rfc_3339
from shared.events.literals import Number, dumps, dumps_unicode, loads
from shared.events.paths import MISSING, PathLookup, fold_case
from shared.events.topic import InputSchema, TopicName
from shared.events.trace_context import PARENT, STATE
from shared.http import OutboundRequest, QueueAddress
from shared.subscriptions.destination import StorageQueue
from shared.subscriptions.header_rules import MAX_VALUE, is_header_value, static_headers
from shared.subscriptions.signing import sign
from shared.subscriptions.subscription import (
    WEBHOOK_ORIGIN,
    DeliveryHeader,
    DeliverySchema,
    DynamicHeader,
    EventSubscription,
)

REPLAY_HEADER = "aeg-replay-of"  # not Event Grid's
_BATCHES = uuid.UUID("0d3c3f0b-4b1e-4f0e-9c39-7d6a1c2f5e88")

# A path may use the names of either schema, whichever the event was published in.
_OTHER_NAMES = {
    "topic": "source",
    "source": "topic",
    "eventtype": "type",
    "type": "eventtype",
    "eventtime": "time",
    "time": "eventtime",
}

_OF_FRAGMENTS = "!$&'()*+,;=:@/?"  # RFC 3986, 3.5, beside letters, digits and -._~
Members = Mapping[str, Any]
MAX_DATA_VERSION = 1024  # characters: a longer one is left out


def in_common(
    delivery: Delivery, subscription: EventSubscription, terms: DeliveryTerms
) -> tuple[Hashable, int]:
    """
    Return what events must have in common to share a request, and the event's size in its body.

    All headers must be equal, and the events must have been tried together before: a batch that
    failed comes back whole.

    Source: "Delivery and retry", Output batching (2023-03-01); contract §2.4, §2.5.
    """
    text = delivery.event
    try:
        headers = tuple(custom_headers(terms.headers, text).items())
        size = len(event_body(subscription, text)) + 1  # a comma or bracket follows
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        # Damaged in storage: it gets a request of its own, and does not harm the others.
        return object(), len(text)
    return (headers, delivery.attempts, delivery.last if delivery.attempts else None), size


def push_request(  # noqa: PLR0913 - each by its name
    subscription: EventSubscription,
    terms: DeliveryTerms,
    batch: Batch,
    at: datetime,
    *,
    new_span_id: Callable[[], str] | None = None,
    names_replay: bool = False,
) -> OutboundRequest:
    """
    Build the request for the next attempt of a batch, which begins *at*.

    With *new_span_id* it is a span of the trace that all of its events are in, if there is one;
    with *names_replay* it has the job that has put all of them. Last, it is signed with the
    secrets of its subscription. A storage queue gets the one event alone, without headers.

    Source: contract §2.1 (headers), §2.2 (bodies), §2.4 and §2.5; the additions are ours.
    """
    first, destination = batch[0], subscription.destination
    if isinstance(destination, StorageQueue):
        queue = QueueAddress(destination.account, destination.name, destination.keep_seconds)
        body = event_body(subscription, first.event)
        return OutboundRequest("POST", destination.url, {}, body, queue=queue)
    texts = [each.event for each in batch]
    bodies = [event_body(subscription, text) for text in texts]
    headers = _headers(subscription, terms, batch, texts)
    trace = common_trace(batch) if new_span_id else None
    if new_span_id and trace and {PARENT, STATE}.isdisjoint(map(str.lower, headers)):
        headers |= trace.headers(new_span_id())  # beside custom ones of other names
    jobs = {replay_job(each.origin.publish_id) for each in batch} if names_replay else set()
    if len(jobs) == 1 and (job := jobs.pop()):
        headers[REPLAY_HEADER] = job
    body = b"[%b]" % b",".join(bodies) if _is_array(subscription, terms) else bodies[0]
    request = OutboundRequest("POST", destination.url, headers, body, destination.audience)
    if not subscription.signing:
        return request
    return sign(request, subscription.signing, _message_id(batch, subscription), at)


def _is_array(subscription: EventSubscription, terms: DeliveryTerms) -> bool:
    """Tell whether the body is an array: with output batching even if it holds one event."""
    is_cloud_event = subscription.delivery_schema is DeliverySchema.CLOUD_EVENTS
    return terms.batching.max_events > 1 or not is_cloud_event


def _headers(
    subscription: EventSubscription, terms: DeliveryTerms, batch: Batch, texts: Sequence[str]
) -> dict[str, str]:
    """
    Return Event Grid's headers and the custom ones.

    ``aeg-delivery-count`` counts the attempts made before whose result was stored: 0 in the first.
    """
    first = batch[0]
    headers = {
        "aeg-event-type": "Notification",
        "aeg-subscription-name": subscription.name.upper(),
        "aeg-delivery-count": str(first.attempts),
    }
    if TopicName.parse(subscription.topic):
        headers["aeg-compatibility-mode-enabled"] = "false"
    if len(batch) == 1:
        headers["aeg-output-event-id"] = first.system_id(subscription.key)
    if subscription.delivery_schema is DeliverySchema.CLOUD_EVENTS:
        form = "cloudevents-batch" if _is_array(subscription, terms) else "cloudevents"
        headers |= {
            "Content-Type": f"application/{form}+json; charset=utf-8",
            "aeg-metadata-version": "1.0",
            "WebHook-Request-Origin": WEBHOOK_ORIGIN,
        }
    else:
        headers |= {
            "Content-Type": "application/json; charset=utf-8",
            "aeg-metadata-version": "1",
        } | _data_version(texts)
    return headers | custom_headers(terms.headers, texts[0])


def _message_id(batch: Batch, subscription: EventSubscription) -> str:
    """Return an id that is equal at every attempt: the event's, or one of exactly these events."""
    ids = sorted(each.system_id(subscription.key) for each in batch)
    return ids[0] if len(ids) == 1 else str(uuid.uuid5(_BATCHES, "/".join(ids)))


def _data_version(texts: Sequence[str]) -> dict[str, str]:
    """Return the header with the data version, if all events have the same."""
    versions = {event_names(text).data_version for text in texts}
    version = versions.pop()
    if version is None:
        raise ValueError("an event is not a JSON object")
    if versions or not is_header_value(version, MAX_DATA_VERSION):
        return {}
    return {"aeg-data-version": version}


def convert(text: str, given: InputSchema, wanted: DeliverySchema) -> str:
    """Return the event's JSON in the delivery schema; unchanged if the schemas are equal."""
    conversion = _CONVERSIONS.get((given, wanted))
    if conversion is None:
        return text
    return dumps(conversion(loads(text)))


def event_body(subscription: EventSubscription, text: str) -> bytes:
    """
    Return the event's bytes in a request: in the delivery schema, as UTF-8.

    Events are stored as ASCII; its escapes would treble the size of some.
    """
    body = convert(text, subscription.input_schema, subscription.delivery_schema)
    if "\\u" in body:
        body = dumps_unicode(loads(body))
    return body.encode()


def _event_grid_to_cloud_events(event: Members) -> Members:
    """
    Map field by field. Source: contract §5.6.

    In CloudEvents a subject is never empty, a time has seconds and an offset, and a data schema is
    a URI (v1.0.2, 3.1).
    """
    converted = {
        "specversion": "1.0",
        "id": event["id"],
        "source": event["topic"],
        "type": event["eventType"],
        "time": as_rfc_3339(event["eventTime"]),
    }
    if event["subject"]:
        converted["subject"] = event["subject"]
    converted["dataschema"] = f"#{quote(event['dataVersion'], safe=_OF_FRAGMENTS)}"
    return converted | ({"data": event["data"]} if "data" in event else {})


def _as_published(event: Members) -> Any:
    """Return the event as its publisher sent it in a custom schema. Source: contract §1.4."""
    return event["data"]


_CONVERSIONS: Mapping[tuple[InputSchema, DeliverySchema], Callable[[Members], Any]] = {
    (InputSchema.EVENT_GRID, DeliverySchema.CLOUD_EVENTS): _event_grid_to_cloud_events,
    (InputSchema.CUSTOM, DeliverySchema.CLOUD_EVENTS): _event_grid_to_cloud_events,
    (InputSchema.CUSTOM, DeliverySchema.CUSTOM_INPUT): _as_published,
}


def custom_headers(headers: Sequence[DeliveryHeader], text: str) -> dict[str, str]:
    """
    Return the custom headers of an event, *text* being its stored text.

    A dynamic header is left out if its path leads to anything but a string, a number or a boolean,
    or if no header can hold the value.

    Source: "Set custom headers on delivered events" (2023-02-21).
    """
    values = static_headers(headers)
    dynamic = [each for each in headers if isinstance(each, DynamicHeader)]
    if dynamic:
        event = PathLookup(loads(text))
        for each in dynamic:
            value = _to_text(_find(each.path, event))
            if value is not None and is_header_value(value, MAX_VALUE):
                values[each.name] = value
    return values


def _find(path: Sequence[str], event: PathLookup) -> object:
    """Return the value at *path*; a member that only the other schema has is found as well."""
    value = event.find(path)
    if value is MISSING and (other := _OTHER_NAMES.get(fold_case(path[0]))):
        return event.find((other, *path[1:]))
    return value


def _to_text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    # Numbers and booleans keep their JSON form.
    return dumps(value) if isinstance(value, (bool, int, float, Number)) else None
