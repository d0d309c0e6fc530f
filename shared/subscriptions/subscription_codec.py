"""Event subscriptions: ARM requests to stored documents, and those to ARM answers and values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from shared.events.topic import InputSchema
from shared.subscriptions.deployment import Deployment
from shared.subscriptions.destination_codec import (
    parse_dead_letter,
    parse_destination,
    render_destination,
)
from shared.subscriptions.sections import Section, document, raise_faults
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    DeliverySchema,
    EventFilter,
    EventSubscription,
    RetryPolicy,
)

TYPE = "Microsoft.EventGrid/topics/eventSubscriptions"
# For each input schema what it can be delivered as; the first is the default.
DELIVERY_SCHEMAS = {
    InputSchema.EVENT_GRID: (DeliverySchema.EVENT_GRID, DeliverySchema.CLOUD_EVENTS),
    InputSchema.CLOUD_EVENTS: (DeliverySchema.CLOUD_EVENTS,),
}
_MAX_POLICY = (30, 1440)  # the default is also the most there can be
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
    corrected endpoint; a new one gets a generation of its own.

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
    labels = properties.texts("labels")
    stored: dict[str, Any] = {
        "id": existing["id"] if existing else f"{topic['id']}/eventSubscriptions/{name}",
        "name": existing["name"] if existing else name,
        "topicName": topic["name"],
        "topicId": topic["id"],
        "inputSchema": str(input_schema),
        "properties": {
            "destination": parse_destination(properties, deployment),
            "filter": _filter(properties.section("filter")),
            "labels": None if labels is None else list(labels),
            "eventDeliverySchema": _delivery_schema(properties, input_schema, existing),
            "retryPolicy": _retry_policy(properties.section("retryPolicy")),
            "deadLetterDestination": parse_dead_letter(properties, deployment),
        },
    }
    raise_faults(root.faults)
    return stored | {"generation": existing["generation"] if existing else new_id()}


def render_subscription(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Write a stored subscription as ARM does; of the endpoint's URL only what is not secret."""
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
            "expirationTimeUtc": None,
        },
    }


def subscription_of(stored: Mapping[str, Any]) -> EventSubscription:
    """Read a stored subscription as the data plane sees it."""
    properties = stored["properties"]
    retry, dead_letter = properties["retryPolicy"], properties["deadLetterDestination"]
    return EventSubscription(
        topic=stored["topicName"],
        topic_id=stored["topicId"],
        name=stored["name"],
        generation=stored["generation"],
        endpoint_url=properties["destination"]["properties"]["endpointUrl"],
        input_schema=InputSchema(stored["inputSchema"]),
        delivery_schema=DeliverySchema(properties["eventDeliverySchema"]),
        filter=_filter_of(properties["filter"]),
        retry_policy=RetryPolicy(
            max_delivery_attempts=retry["maxDeliveryAttempts"],
            event_time_to_live_minutes=retry["eventTimeToLiveInMinutes"],
        ),
        dead_letter=dead_letter
        and DeadLetterDestination(container=dead_letter["properties"]["blobContainerName"]),
    )


def is_subscription_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _filter(section: Section) -> dict[str, Any]:
    section.refuse_unsupported("advancedFilters")
    types = section.texts("includedEventTypes")
    stored: dict[str, Any] = {
        "subjectBeginsWith": section.text("subjectBeginsWith") or "",
        "subjectEndsWith": section.text("subjectEndsWith") or "",
    }
    if types:
        stored["includedEventTypes"] = list(types)
    if section.flag("isSubjectCaseSensitive"):
        stored["isSubjectCaseSensitive"] = True
    if section.flag("enableAdvancedFilteringOnArrays"):
        stored["enableAdvancedFilteringOnArrays"] = True
    return stored


def _filter_of(stored: Mapping[str, Any]) -> EventFilter:
    types = [name.casefold() for name in stored.get("includedEventTypes", [])]
    is_case_sensitive = stored.get("isSubjectCaseSensitive", False)
    fold = str if is_case_sensitive else str.casefold
    return EventFilter(
        # Clients of very old versions write "All" where later ones leave the list out.
        included_event_types=None if types in ([], ["all"]) else frozenset(types),
        subject_begins_with=fold(stored["subjectBeginsWith"]),
        subject_ends_with=fold(stored["subjectEndsWith"]),
        is_subject_case_sensitive=is_case_sensitive,
    )


def _retry_policy(section: Section) -> dict[str, int]:
    attempts, minutes = _MAX_POLICY
    return {
        "maxDeliveryAttempts": section.number("maxDeliveryAttempts", 1, attempts) or attempts,
        "eventTimeToLiveInMinutes": section.number("eventTimeToLiveInMinutes", 1, minutes)
        or minutes,
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
