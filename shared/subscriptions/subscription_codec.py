"""Event subscriptions: ARM requests to stored documents, and those to ARM answers and values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from shared.events.topic import InputSchema
from shared.subscriptions.deployment import Deployment, ProfileLimits
from shared.subscriptions.destination_codec import (
    batching_of,
    custom_headers_of,
    parse_dead_letter,
    parse_destination,
    render_destination,
)
from shared.subscriptions.filter_codec import filter_of, parse_filter
from shared.subscriptions.sections import Section, document, raise_faults
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    DeliverySchema,
    EventSubscription,
    RetryPolicy,
)
from shared.subscriptions.topic_codec import profile_tag

TYPE = "Microsoft.EventGrid/topics/eventSubscriptions"
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
_UNSUPPORTED = (
    "expirationTimeUtc",
    "deliveryWithResourceIdentity",
    "deadLetterWithResourceIdentity",
)


def parse_subscription(  # noqa: PLR0913 - each is named
    name: str,
    body: object,
    *,
    topic: Mapping[str, Any],
    deployment: Deployment,
    new_id: Callable[[], str],
    existing: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """
    Read the body of a PUT into the document to store under the stored *topic*.

    An *existing* subscription keeps its id and generation, so that what waits goes to the
    corrected endpoint; a new one gets a generation of its own. What the topic's delivery profile
    does not have is refused.

    Raises:
        InvalidDocument: all faults at once.
    """
    root = document(body)
    if not is_subscription_name(name):
        root.refuse(
            "name", "The name of an event subscription must be 3-64 letters, digits and hyphens."
        )
    properties = root.section("properties")
    for member in _UNSUPPORTED:
        properties.refuse_unsupported(member)
    input_schema = InputSchema(topic["properties"]["inputSchema"])
    limits = deployment.limits(profile_tag(topic))
    labels = properties.texts("labels")
    stored: dict[str, Any] = {
        "id": existing["id"] if existing else f"{topic['id']}/eventSubscriptions/{name}",
        "name": existing["name"] if existing else name,
        "topicName": topic["name"],
        "topicId": topic["id"],
        "inputSchema": str(input_schema),
        "properties": {
            "destination": parse_destination(properties, deployment, limits),
            "filter": parse_filter(properties.section("filter"), input_schema),
            "labels": None if labels is None else list(labels),
            "eventDeliverySchema": _delivery_schema(properties, input_schema, existing),
            "retryPolicy": _retry_policy(properties.section("retryPolicy"), limits),
            "deadLetterDestination": parse_dead_letter(properties, deployment, limits),
        },
    }
    raise_faults(root.faults)
    return stored | {"generation": existing["generation"] if existing else new_id()}


def render_subscription(stored: Mapping[str, Any], limits: ProfileLimits) -> dict[str, Any]:
    """
    Write a stored subscription as ARM does; of secrets only that they are there.

    *limits* are those of its topic: what its retry policy leaves open is their default.
    """
    properties = stored["properties"]
    return {
        "id": stored["id"],
        "name": stored["name"],
        "type": TYPE,
        "systemData": None,
        "properties": {
            **properties,
            "topic": stored["topicId"],
            "provisioningState": "Succeeded",
            "destination": render_destination(properties["destination"]),
            "retryPolicy": _render_retry_policy(properties["retryPolicy"], limits),
            "expirationTimeUtc": None,
        },
    }


def subscription_of(stored: Mapping[str, Any]) -> EventSubscription:
    """Read a stored subscription as the data plane sees it."""
    properties = stored["properties"]
    retry, dead_letter = properties["retryPolicy"], properties["deadLetterDestination"]
    destination = properties["destination"]
    return EventSubscription(
        topic=stored["topicName"],
        topic_id=stored["topicId"],
        name=stored["name"],
        generation=stored["generation"],
        endpoint_url=destination["properties"]["endpointUrl"],
        input_schema=InputSchema(stored["inputSchema"]),
        delivery_schema=DeliverySchema(properties["eventDeliverySchema"]),
        filter=filter_of(properties["filter"]),
        retry_policy=RetryPolicy(
            max_delivery_attempts=retry["maxDeliveryAttempts"],
            event_time_to_live_minutes=retry["eventTimeToLiveInMinutes"],
        ),
        dead_letter=dead_letter
        and DeadLetterDestination(container=dead_letter["properties"]["blobContainerName"]),
        batching=batching_of(destination),
        headers=custom_headers_of(destination),
    )


def is_subscription_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _retry_policy(section: Section, limits: ProfileLimits) -> dict[str, int | None]:
    """Read the policy; what it leaves open stays so, since profiles have defaults of their own."""
    attempts = None
    if limits.attempts:
        _, fewest, most = limits.attempts
        attempts = section.number("maxDeliveryAttempts", fewest, most, limits.whose)
    elif section.has("maxDeliveryAttempts"):
        section.refuse("maxDeliveryAttempts", f"Attempts have no limit{limits.whose}.")
    _, shortest, longest = limits.minutes
    minutes = section.number("eventTimeToLiveInMinutes", shortest, longest, limits.whose)
    return {"maxDeliveryAttempts": attempts, "eventTimeToLiveInMinutes": minutes}


def _render_retry_policy(
    stored: Mapping[str, int | None], limits: ProfileLimits
) -> dict[str, int | None]:
    attempts, minutes = stored["maxDeliveryAttempts"], stored["eventTimeToLiveInMinutes"]
    return {
        "maxDeliveryAttempts": attempts or (limits.attempts and limits.attempts[0]),
        "eventTimeToLiveInMinutes": minutes or limits.minutes[0],
    }


def _delivery_schema(
    properties: Section, input_schema: InputSchema, existing: Mapping[str, Any] | None
) -> str:
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
