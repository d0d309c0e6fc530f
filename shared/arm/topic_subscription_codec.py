"""Event subscriptions: ARM requests to stored documents, and those to ARM answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.arm.dead_letter_codec import parse_dead_letter
from shared.arm.deployment import ProfileLimits
from shared.arm.destination_codec import parse_destination, render_destination
from shared.arm.filter_codec import parse_filter
from shared.arm.identity_codec import DEAD_LETTER, DELIVERY, replace_wrapped, unwrap, wrap
from shared.arm.patch_body import read_patch
from shared.arm.sections import Section, document, raise_faults
from shared.arm.subscription_codec import (
    SubscriptionRequest,
    check_name,
    parse_delivery_schema,
    parse_expiration,
    stored_subscription,
)
from shared.arm.tracked_resource import PROVIDER

TYPE = f"{PROVIDER}/topics/eventSubscriptions"
EXTENSION_TYPE = f"{PROVIDER}/eventSubscriptions"


def parse_subscription(request: SubscriptionRequest) -> dict[str, Any]:
    """
    Read a request into the document to store.

    An existing subscription keeps its id and generation, so that what waits goes to the
    corrected endpoint; a new one gets a generation of its own. What the topic's delivery profile
    does not have is refused.

    Raises:
        InvalidDocument: all faults at once.
    """
    topic, deployment, existing = request.topic, request.deployment, request.existing
    root = document(request.body)
    check_name(root, request.name)
    properties, limits = root.section("properties"), topic.limits
    labels = properties.texts("labels")
    destination_section, delivery_identity = unwrap(properties, DELIVERY)
    dead_letter_section, dead_letter_identity = unwrap(properties, DEAD_LETTER)
    stored = {
        "destination": parse_destination(destination_section, topic, deployment, existing),
        "deliveryIdentity": delivery_identity,
        "filter": parse_filter(properties.section("filter"), topic.input_schema),
        "labels": None if labels is None else list(labels),
        "eventDeliverySchema": parse_delivery_schema(properties, topic.input_schema, existing),
        "retryPolicy": _retry_policy(properties.section("retryPolicy"), limits),
        "deadLetterDestination": parse_dead_letter(dead_letter_section, deployment, limits),
        "deadLetterIdentity": dead_letter_identity,
        "expirationTimeUtc": parse_expiration(properties, request),
    }
    raise_faults(root.faults)
    return stored_subscription(request, stored)


def patched_subscription(stored: Mapping[str, Any], body: object) -> dict[str, Any]:
    """
    Return the body of a PUT that does what the *body* of a PATCH asks for.

    It is flat; each member replaces what is there, ``null`` takes it away.

    Raises:
        InvalidDocument: the body can't be read, or names nothing known.
    """
    members = _members(stored, stored["properties"]["destination"])
    form = "A PATCH of an event subscription is flat, without 'properties'"
    patch = read_patch(body, {*members, *DELIVERY, *DEAD_LETTER}, form)
    return {"properties": replace_wrapped(members, patch, (DELIVERY, DEAD_LETTER))}


def render_subscription(stored: Mapping[str, Any], limits: ProfileLimits) -> dict[str, Any]:
    """
    Write a stored subscription as ARM does; of secrets only that they are there.

    *limits* are those of its topic: what its retry policy leaves open is their default.
    """
    properties = stored["properties"]
    return {
        "id": f"{stored['topicId']}/eventSubscriptions/{stored['name']}",
        "name": stored["name"],
        "type": TYPE,
        "systemData": None,
        "properties": {
            **_members(stored, render_destination(properties["destination"])),
            "topic": stored["topicId"],
            "provisioningState": "Succeeded",
            "retryPolicy": _render_retry_policy(properties["retryPolicy"], limits),
        },
    }


def render_extension(stored: Mapping[str, Any], limits: ProfileLimits) -> dict[str, Any]:
    """Write a stored subscription as the extension of its topic that it is to older clients."""
    answer, topic = render_subscription(stored, limits), stored["topicId"]
    lower_cased = topic.replace(f"/providers/{PROVIDER}/", f"/providers/{PROVIDER.lower()}/")
    return {
        **answer,
        "id": f"{topic}/providers/{PROVIDER}/eventSubscriptions/{stored['name']}",
        "type": EXTENSION_TYPE,
        "properties": {**answer["properties"], "topic": lower_cased},
    }


def _members(stored: Mapping[str, Any], destination: object) -> dict[str, Any]:
    """Return the properties as a client gives them."""
    properties = stored["properties"]
    dead_letter = properties["deadLetterDestination"]
    return {
        **wrap(DELIVERY, destination, properties.get("deliveryIdentity")),
        "filter": properties["filter"],
        "labels": properties["labels"],
        "eventDeliverySchema": properties["eventDeliverySchema"],
        "retryPolicy": properties["retryPolicy"],
        **wrap(DEAD_LETTER, dead_letter, properties.get("deadLetterIdentity")),
        "expirationTimeUtc": properties.get("expirationTimeUtc"),
    }


def _retry_policy(section: Section, limits: ProfileLimits) -> dict[str, int | None]:
    """Read the policy; what it leaves open stays so, since profiles have defaults of their own."""
    attempts = None
    if limits.attempts:
        _, fewest, most = limits.attempts
        attempts = section.number("maxDeliveryAttempts", fewest, most, limits.under_profile)
    elif section.has("maxDeliveryAttempts"):
        section.refuse("maxDeliveryAttempts", f"Attempts have no limit{limits.under_profile}.")
    _, shortest, longest = limits.minutes
    minutes = section.number("eventTimeToLiveInMinutes", shortest, longest, limits.under_profile)
    return {"maxDeliveryAttempts": attempts, "eventTimeToLiveInMinutes": minutes}


def _render_retry_policy(
    stored: Mapping[str, int | None], limits: ProfileLimits
) -> dict[str, int | None]:
    attempts, minutes = stored["maxDeliveryAttempts"], stored["eventTimeToLiveInMinutes"]
    return {
        "maxDeliveryAttempts": attempts or (limits.attempts and limits.attempts[0]),
        "eventTimeToLiveInMinutes": minutes or limits.minutes[0],
    }
