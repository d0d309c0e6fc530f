"""Event subscriptions of topics of namespaces: requests to stored documents, those to answers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from shared.arm.dead_letter_codec import parse_dead_letter
from shared.arm.deployment import ParentTopic, ProfileLimits
from shared.arm.destination_codec import parse_destination, render_destination
from shared.arm.filter_codec import parse_filter
from shared.arm.identity_codec import DELIVERY, Wrapper, replace_wrapped, unwrap, wrap
from shared.arm.patch_body import patched_properties, read_patch
from shared.arm.sections import Section, document, raise_faults
from shared.arm.subscription_codec import (
    SubscriptionRequest,
    check_name,
    parse_delivery_schema,
    parse_expiration,
    stored_subscription,
)
from shared.arm.tracked_resource import PROVIDER
from shared.events.iso_8601 import parse_duration

TYPE = f"{PROVIDER}/namespaces/topics/eventsubscriptions"
_DEAD_LETTER = Wrapper("deadLetterDestination", "deadLetterDestinationWithResourceIdentity")
_DELIVERY, _FILTERS, _PUSH = "deliveryConfiguration", "filtersConfiguration", "push"
_SHORTEST = timedelta(minutes=1)


def parse_namespace_subscription(request: SubscriptionRequest) -> dict[str, Any]:
    """
    Read a request into the document to store: that of any other subscription.

    Raises:
        InvalidDocument: all faults at once.
    """
    topic, deployment, existing = request.topic, request.deployment, request.existing
    root = document(request.body)
    check_name(root, request.name)
    properties, limits = root.section("properties"), topic.limits
    delivery = properties.section(_DELIVERY)
    stored: dict[str, Any] = {}
    if _pushes(delivery):
        push = delivery.section(_PUSH)
        destination_section, delivery_identity = unwrap(push, DELIVERY)
        dead_letter_section, dead_letter_identity = unwrap(push, _DEAD_LETTER)
        stored = {
            "destination": parse_destination(destination_section, topic, deployment, existing),
            "deliveryIdentity": delivery_identity,
            "retryPolicy": _retry_policy(push, limits, topic.retention),
            "deadLetterDestination": parse_dead_letter(dead_letter_section, deployment, limits),
            "deadLetterIdentity": dead_letter_identity,
        }
    stored |= {
        "filter": parse_filter(properties.section(_FILTERS), topic.input_schema, "filters"),
        "eventDeliverySchema": parse_delivery_schema(properties, topic.input_schema, existing),
        "expirationTimeUtc": parse_expiration(properties, request),
    }
    raise_faults(root.faults)
    return stored_subscription(request, stored)


def patched_namespace_subscription(stored: Mapping[str, Any], body: object) -> dict[str, Any]:
    """
    Return the body of a PUT that does what the *body* of a PATCH asks for.

    Its members are wrapped in ``properties``; those of the delivery configuration are merged,
    any other replaces what is there, ``null`` takes it away.

    Raises:
        InvalidDocument: the body can't be read, or names nothing known.
    """
    form = "A PATCH of an event subscription of a namespace's topic is wrapped in 'properties'"
    patch = read_patch(body, ("properties",), form)
    members = _members(stored, stored["properties"]["destination"])
    return patched_properties(members, patch, _merged)


def render_namespace_subscription(stored: Mapping[str, Any], topic: ParentTopic) -> dict[str, Any]:
    """Write a stored subscription as ARM does; of secrets only that they are there."""
    properties = _members(stored, render_destination(stored["properties"]["destination"]))
    push = properties[_DELIVERY][_PUSH]
    if push["maxDeliveryCount"] is None and topic.limits.attempts:
        push["maxDeliveryCount"] = topic.limits.attempts[0]
    if push["eventTimeToLive"] is None and topic.retention:
        push["eventTimeToLive"] = f"P{topic.retention.days}D"
    return {
        "id": f"{stored['topicId']}/eventSubscriptions/{stored['name']}",
        "name": stored["name"],
        "type": TYPE,
        "systemData": None,
        "properties": {**properties, "provisioningState": "Succeeded"},
    }


def _pushes(delivery: Section) -> bool:
    """Tell whether events are to be pushed: nothing else is served."""
    mode = delivery.required_choice("deliveryMode", ("Push", "Queue"))
    if mode == "Queue":
        delivery.refuse(
            "deliveryMode", "The delivery mode Queue is not supported: events are only pushed."
        )
    return mode == "Push"


def _merged(members: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    changed = {**members, **given}
    known, delivery = members[_DELIVERY], given.get(_DELIVERY)
    if isinstance(delivery, dict):
        changed[_DELIVERY] = known | delivery
        if isinstance(push := delivery.get(_PUSH), dict):
            changed[_DELIVERY][_PUSH] = replace_wrapped(
                known[_PUSH], push, (DELIVERY, _DEAD_LETTER)
            )
    return changed


def _members(stored: Mapping[str, Any], destination: object) -> dict[str, Any]:
    """Return the properties as a client gives them."""
    properties = stored["properties"]
    retry, kept = properties["retryPolicy"], properties["filter"]
    dead_letter = properties["deadLetterDestination"]
    push = {
        "maxDeliveryCount": retry["maxDeliveryAttempts"],
        "eventTimeToLive": retry["eventTimeToLive"],
        **wrap(DELIVERY, destination, properties["deliveryIdentity"]),
    }
    if dead_letter:
        wrapped = wrap(_DEAD_LETTER, dead_letter, properties["deadLetterIdentity"])
        push |= {name: value for name, value in wrapped.items() if value}
    return {
        _DELIVERY: {"deliveryMode": "Push", _PUSH: push},
        _FILTERS: {
            "includedEventTypes": kept.get("includedEventTypes"),
            "filters": kept.get("advancedFilters", []),
        },
        "eventDeliverySchema": properties["eventDeliverySchema"],
        "expirationTimeUtc": properties["expirationTimeUtc"],
    }


def _retry_policy(
    push: Section, limits: ProfileLimits, retention: timedelta | None
) -> dict[str, Any]:
    attempts = None
    if limits.attempts:
        _, fewest, most = limits.attempts
        attempts = push.number("maxDeliveryCount", fewest, most)
    text = push.text("eventTimeToLive")
    minutes = None
    if text is not None:
        duration = parse_duration(text)
        longest = retention or timedelta(minutes=limits.minutes[2])
        if duration is None or not _SHORTEST <= duration <= longest:
            target = push.target("eventTimeToLive")
            push.refuse(
                "eventTimeToLive",
                f"{target} must be a duration of ISO 8601, between PT1M and what its topic keeps: "
                f"P{longest.days}D.",
            )
        else:
            minutes = duration / timedelta(minutes=1)
    return {
        "maxDeliveryAttempts": attempts,
        "eventTimeToLiveInMinutes": minutes,
        "eventTimeToLive": text,
    }
