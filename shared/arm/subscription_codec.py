"""Event subscriptions as they are stored, in whatever form their clients write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from shared.arm.consent import allowed_rate, in_force
from shared.arm.delivery_attributes_codec import MEMBER
from shared.arm.deployment import Deployment, ParentTopic
from shared.arm.destination_codec import to_batching, to_custom_headers
from shared.arm.filter_codec import to_filter
from shared.arm.sections import Section
from shared.arm.webhook_audience_codec import to_audience
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    DeliverySchema,
    EventSubscription,
    RetryPolicy,
)

# For each input schema what it can be delivered as; the first is the default.
DELIVERY_SCHEMAS = {
    InputSchema.EVENT_GRID: (DeliverySchema.EVENT_GRID, DeliverySchema.CLOUD_EVENTS),
    InputSchema.CLOUD_EVENTS: (DeliverySchema.CLOUD_EVENTS,),
    InputSchema.CUSTOM: (
        DeliverySchema.CUSTOM_INPUT,
        DeliverySchema.EVENT_GRID,
        DeliverySchema.CLOUD_EVENTS,
    ),
}
_NAME = re.compile(r"[A-Za-z0-9-]{3,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRequest:
    """
    A request to create or replace a subscription: the *body* of a PUT, and what it depends on.

    *existing* is the stored document that it replaces. *new_id* makes an id that nobody has.
    """

    name: str
    body: object
    topic: ParentTopic
    deployment: Deployment
    new_id: Callable[[], str]
    now: datetime
    existing: Mapping[str, Any] | None = None


def stored_subscription(
    request: SubscriptionRequest, properties: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the document to store; an existing subscription keeps its name and generation."""
    topic, existing = request.topic, request.existing
    name = existing["name"] if existing else request.name
    return {
        "id": f"{topic.arm_id}/eventSubscriptions/{name}",
        "name": name,
        "topicName": topic.name,
        "topicId": topic.arm_id,
        "inputSchema": str(topic.input_schema),
        "properties": properties,
        "generation": existing["generation"] if existing else request.new_id(),
    }


def to_subscription(stored: Mapping[str, Any]) -> EventSubscription:
    """Read a stored subscription as it was written last."""
    properties = stored["properties"]
    retry, dead_letter = properties["retryPolicy"], properties["deadLetterDestination"]
    destination = properties["destination"]
    expires = properties.get("expirationTimeUtc")
    return EventSubscription(
        topic=stored["topicName"],
        topic_id=stored["topicId"],
        name=stored["name"],
        generation=stored["generation"],
        endpoint_url=full_url(stored),
        input_schema=InputSchema(stored["inputSchema"]),
        delivery_schema=DeliverySchema(properties["eventDeliverySchema"]),
        filter=to_filter(properties["filter"]),
        retry_policy=RetryPolicy(
            max_delivery_attempts=retry["maxDeliveryAttempts"],
            event_time_to_live_minutes=retry["eventTimeToLiveInMinutes"],
        ),
        dead_letter=dead_letter
        and DeadLetterDestination(container=dead_letter["properties"]["blobContainerName"]),
        batching=to_batching(destination),
        headers=to_custom_headers(destination),
        expires_at=expires and datetime.fromisoformat(expires),
        audience=to_audience(destination["properties"]),
        rate=allowed_rate(stored),
    )


def to_subscription_in_force(stored: Mapping[str, Any]) -> EventSubscription:
    """Read what delivering goes by: the version of a subscription whose endpoint has consented."""
    document = in_force(stored)
    if document is None:
        return replace(to_subscription(stored), has_consented=False)
    return to_subscription(document)


def full_url(stored: Mapping[str, Any]) -> str:
    """Return the endpoint's URL, with the query that may be secret."""
    return str(stored["properties"]["destination"]["properties"]["endpointUrl"])


def delivery_attributes(stored: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the custom delivery headers, secrets in clear."""
    return list(stored["properties"]["destination"]["properties"].get(MEMBER, ()))


def check_name(root: Section, name: str) -> None:
    """Refuse what can't be the name of an event subscription."""
    if not _NAME.fullmatch(name):
        root.refuse(
            "name", "The name of an event subscription must be 3-64 letters, digits and hyphens."
        )


def parse_expiration(properties: Section, request: SubscriptionRequest) -> str | None:
    """Read when the subscription is retired, as UTC; one that is expired already can stay so."""
    moment = properties.moment("expirationTimeUtc")
    if moment is None:
        return None
    text = moment.isoformat().replace("+00:00", "Z")
    known = request.existing and request.existing["properties"].get("expirationTimeUtc")
    if moment <= request.now and text != known:
        properties.refuse("expirationTimeUtc", "Invalid expiration time.")
    return text


def parse_delivery_schema(
    properties: Section, input_schema: InputSchema, existing: Mapping[str, Any] | None
) -> str:
    """Read what subscribers receive, which the input schema must allow, and which can't change."""
    possible = DELIVERY_SCHEMAS[input_schema]
    faults = len(properties.faults)
    schema = properties.choice("eventDeliverySchema", tuple(DeliverySchema)) or possible[0]
    if len(properties.faults) > faults:
        return schema
    if schema not in possible:
        properties.refuse(
            "eventDeliverySchema",
            f'The specified EventDeliverySchema value "{schema}" cannot be used in combination '
            f"with the topic's input schema of {input_schema}",
        )
    elif existing and schema != existing["properties"]["eventDeliverySchema"]:
        was = existing["properties"]["eventDeliverySchema"]
        properties.refuse(
            "eventDeliverySchema",
            f"The new event delivery schema value {schema} cannot be different from the already "
            f"existing event delivery schema value {was}.",
        )
    return str(schema)
