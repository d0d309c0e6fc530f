"""Reads and writes event subscriptions in the form of custom topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.arm.deployment_capabilities import ProfileLimits
from shared.arm.destination_codec import render_destination
from shared.arm.filter_codec import parse_filter
from shared.arm.identity_codec import DEAD_LETTER, DELIVERY, replace_wrapped, wrap
from shared.arm.sections import Section, read_patch
from shared.arm.subscription_codec import SubscriptionRequest, parse_destinations, parse_form
from shared.arm.tracked_resource import PROVIDER, render_resource

TYPE = f"{PROVIDER}/topics/eventSubscriptions"
EXTENSION_TYPE = f"{PROVIDER}/eventSubscriptions"
SYSTEM_TYPE = f"{PROVIDER}/systemTopics/eventSubscriptions"


def parse_subscription(request: SubscriptionRequest) -> dict[str, Any]:
    """
    Read a request into the document to store.

    Raises:
        InvalidDocument: all faults at once.
    """
    return parse_form(request, _read_form)


def _read_form(properties: Section, request: SubscriptionRequest) -> dict[str, Any]:
    topic = request.topic
    labels = properties.texts("labels")
    return {
        **parse_destinations(properties, request, DEAD_LETTER),
        "filter": parse_filter(properties.section("filter"), topic.input_schema),
        "labels": None if labels is None else list(labels),
        "retryPolicy": _parse_retry_policy(properties.section("retryPolicy"), topic.limits),
    }


def patched_subscription(stored: Mapping[str, Any], body: object) -> dict[str, Any]:
    """
    Return the body of the PUT that has the effect of the PATCH *body*.

    The body is flat. A member replaces the stored one; ``null`` removes it.

    Raises:
        InvalidDocument: the body is not an object, or has no known member.
    """
    members = _members(stored, stored["properties"]["destination"])
    form = "A PATCH of an event subscription is flat, without 'properties'"
    patch = read_patch(body, {*members, *DELIVERY, *DEAD_LETTER}, form)
    return {"properties": replace_wrapped(members, patch, (DELIVERY, DEAD_LETTER))}


def render_subscription(stored: Mapping[str, Any], limits: ProfileLimits) -> dict[str, Any]:
    """
    Write a stored subscription for an ARM answer, with secrets hidden.

    *limits* are those of its topic: their defaults are shown for what its retry policy omits.
    """
    properties = stored["properties"]
    shown = {
        **_members(stored, render_destination(properties["destination"])),
        "topic": stored["topicId"],
        "retryPolicy": _render_retry_policy(properties["retryPolicy"], limits),
    }
    return render_resource(stored, TYPE, shown)


def render_extension(stored: Mapping[str, Any], limits: ProfileLimits) -> dict[str, Any]:
    """Write a stored subscription as an extension of its topic, the form of older clients."""
    topic = stored["topicId"]
    shown_id = f"{topic}/providers/{PROVIDER}/eventSubscriptions/{stored['name']}"
    return _render(stored, limits, {"id": shown_id, "type": EXTENSION_TYPE}, _lower_cased(topic))


def render_of_source(stored: Mapping[str, Any], limits: ProfileLimits) -> dict[str, Any]:
    """Write a stored subscription whose scope is a storage account."""
    return _render(stored, limits, {"type": EXTENSION_TYPE}, _lower_cased(stored["topicId"]))


def render_of_system_topic(stored: Mapping[str, Any], limits: ProfileLimits) -> dict[str, Any]:
    """Write a stored subscription of a system topic."""
    topic = stored["id"].rpartition("/eventSubscriptions/")[0]
    return _render(stored, limits, {"type": SYSTEM_TYPE}, _lower_cased(topic))


def _render(
    stored: Mapping[str, Any], limits: ProfileLimits, members: Mapping[str, str], topic: str
) -> dict[str, Any]:
    answer = render_subscription(stored, limits)
    return {**answer, **members, "properties": {**answer["properties"], "topic": topic}}


def _lower_cased(arm_id: str) -> str:
    """Return an ARM id as Event Grid shows topics: from the last provider's name in lower case."""
    scope, providers, resource = arm_id.rpartition("/providers/")
    kind, slash, name = resource.rpartition("/")
    return f"{scope}{providers}{kind.lower()}{slash}{name}"


def _members(stored: Mapping[str, Any], destination: object) -> dict[str, Any]:
    """Return the properties in the form of a request."""
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


def _parse_retry_policy(section: Section, limits: ProfileLimits) -> dict[str, int | None]:
    """Read the retry policy; omitted members stay ``None``, since profiles have own defaults."""
    attempts = None
    if limits.attempts:
        _, fewest, most = limits.attempts
        attempts = section.number("maxDeliveryAttempts", fewest, most, limits.under_profile)
    elif section.has("maxDeliveryAttempts"):
        section.refuse(
            "maxDeliveryAttempts", f"The number of attempts is unlimited{limits.under_profile}."
        )
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
