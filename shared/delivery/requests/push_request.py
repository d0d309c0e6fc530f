"""Builds the HTTP request that delivers a batch of events."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shared.delivery.policy import DeliveryTerms
from shared.delivery.requests.conversion import event_body
from shared.delivery.requests.custom_headers import custom_headers
from shared.delivery.requests.push_batch import PushBatch
from shared.events.topic import TopicName
from shared.http import OutboundRequest, QueueAddress
from shared.subscriptions.destination import StorageQueue
from shared.subscriptions.header_rules import is_header_value
from shared.subscriptions.subscription import WEBHOOK_ORIGIN, DeliverySchema, EventSubscription

MAX_DATA_VERSION = 1024  # characters: a longer one is left out


def push_request(
    subscription: EventSubscription, terms: DeliveryTerms, batch: PushBatch
) -> OutboundRequest:
    """
    Build the request for the next attempt of a batch.

    ``aeg-delivery-count`` counts the attempts made before: 0 in the first. With output batching the
    body is an array even if it holds one event, the form that the receiver has chosen. A storage
    queue gets the one event alone, without headers.

    Source: contract §2.1 (headers), §2.2 (bodies), §2.4 and §2.5.
    """
    first, destination = batch[0], subscription.destination
    if isinstance(destination, StorageQueue):
        queue = QueueAddress(destination.account, destination.name, destination.keep_seconds)
        body = event_body(subscription, first.text)
        return OutboundRequest("POST", destination.url, {}, body, queue=queue)
    bodies = [event_body(subscription, loaded.text) for loaded in batch]
    is_batch = terms.batching.max_events > 1
    headers = {
        "aeg-event-type": "Notification",
        "aeg-subscription-name": subscription.name.upper(),
        "aeg-delivery-count": str(first.delivery.attempts),
    }
    if TopicName.parse(subscription.topic):
        headers["aeg-compatibility-mode-enabled"] = "false"
    if len(batch) == 1:
        system_id = first.delivery.system_id(subscription.key)
        headers["aeg-output-event-id"] = system_id
    if subscription.delivery_schema is DeliverySchema.CLOUD_EVENTS:
        is_array = is_batch
        form = "cloudevents-batch" if is_batch else "cloudevents"
        headers |= {
            "Content-Type": f"application/{form}+json; charset=utf-8",
            "aeg-metadata-version": "1.0",
            "WebHook-Request-Origin": WEBHOOK_ORIGIN,
        }
    else:
        is_array = True
        headers |= {
            "Content-Type": "application/json; charset=utf-8",
            "aeg-metadata-version": "1",
        } | _data_version([loaded.text for loaded in batch])
    headers |= custom_headers(terms.headers, first.text)
    body = b"[%b]" % b",".join(bodies) if is_array else bodies[0]
    return OutboundRequest("POST", destination.url, headers, body, destination.audience)


def _data_version(texts: Sequence[str]) -> dict[str, str]:
    """Return the header with the data version, if all events have the same."""
    versions = {str(json.loads(text).get("dataVersion", "")) for text in texts}
    version = versions.pop()
    if versions or not is_header_value(version, MAX_DATA_VERSION):
        return {}
    return {"aeg-data-version": version}
