"""Reads and writes event subscriptions in the forms of custom and system topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from shared.arm.deployment_capabilities import (
    DeploymentCapabilities,
    ParentTopic,
    SubscriptionRequest,
    under,
)
from shared.arm.destination_codec import render_destination
from shared.arm.filter_codec import parse_filter
from shared.arm.identity_codec import DEAD_LETTER, DELIVERY, replace_wrapped, wrap
from shared.arm.sections import Document, Section, read_patch
from shared.arm.subscription_codec import (
    SubscriptionForm,
    parse_destinations,
)
from shared.arm.system_topic_codec import to_source_parent, to_system_parent_topic
from shared.arm.topic_codec import to_parent_topic
from shared.arm.tracked_resource import PROVIDER, render_resource
from shared.delivery.delivery_profile import DeliveryProfile

TYPE = f"{PROVIDER}/topics/eventSubscriptions"
EXTENSION_TYPE = f"{PROVIDER}/eventSubscriptions"
SYSTEM_TYPE = f"{PROVIDER}/systemTopics/eventSubscriptions"
_MINUTE = timedelta(minutes=1)


def _read_form(properties: Section, request: SubscriptionRequest) -> dict[str, Any]:
    topic = request.topic
    labels = properties.texts("labels")
    return {
        **parse_destinations(properties, request, DEAD_LETTER),
        "filter": parse_filter(properties.section("filter"), topic.input_schema),
        "labels": None if labels is None else list(labels),
        "retryPolicy": _parse_retry_policy(properties.section("retryPolicy"), topic.profile),
    }


def patched_subscription(stored: Document, body: object) -> dict[str, Any]:
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


def render_subscription(stored: Document, profile: DeliveryProfile) -> dict[str, Any]:
    """
    Write a stored subscription for an ARM answer, with secrets hidden.

    *profile* is that of its topic: its defaults are shown for what the retry policy omits.
    """
    properties = stored["properties"]
    shown = {
        **_members(stored, render_destination(properties["destination"])),
        "topic": stored["topicId"],
        "retryPolicy": _render_retry_policy(properties["retryPolicy"], profile),
    }
    return render_resource(stored, TYPE, shown)


def render_extension(stored: Document, profile: DeliveryProfile) -> dict[str, Any]:
    """Write a stored subscription as an extension of its topic, the form of older clients."""
    topic = stored["topicId"]
    shown_id = f"{topic}/providers/{PROVIDER}/eventSubscriptions/{stored['name']}"
    return {**_render_below(topic, stored, profile), "id": shown_id, "type": EXTENSION_TYPE}


def render_of_system_topic(stored: Document, profile: DeliveryProfile) -> dict[str, Any]:
    topic = stored["id"].rpartition("/eventSubscriptions/")[0]
    return {**_render_below(topic, stored, profile), "type": SYSTEM_TYPE}


def _render_below(topic: str, stored: Document, profile: DeliveryProfile) -> dict[str, Any]:
    answer = render_subscription(stored, profile)
    return {**answer, "properties": {**answer["properties"], "topic": _lower_cased(topic)}}


def _lower_cased(arm_id: str) -> str:
    """Return an ARM id as Event Grid shows topics: from the last provider's name in lower case."""
    scope, providers, resource = arm_id.rpartition("/providers/")
    kind, slash, name = resource.rpartition("/")
    return f"{scope}{providers}{kind.lower()}{slash}{name}"


def _members(stored: Document, destination: object) -> dict[str, Any]:
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


def _parse_retry_policy(section: Section, profile: DeliveryProfile) -> dict[str, int | None]:
    """Read the retry policy; omitted members stay ``None``, since profiles have own defaults."""
    attempts, limits = None, profile.limits
    if limits.attempts:
        _, fewest, most = limits.attempts
        attempts = section.number("maxDeliveryAttempts", fewest, most, under(profile))
    elif section.has("maxDeliveryAttempts"):
        section.refuse(
            "maxDeliveryAttempts", f"The number of attempts is unlimited{under(profile)}."
        )
    _, shortest, longest = (each // _MINUTE for each in limits.time_to_live)
    minutes = section.number("eventTimeToLiveInMinutes", shortest, longest, under(profile))
    return {"maxDeliveryAttempts": attempts, "eventTimeToLiveInMinutes": minutes}


def _render_retry_policy(
    stored: Mapping[str, int | None], profile: DeliveryProfile
) -> dict[str, int | None]:
    attempts, minutes = stored["maxDeliveryAttempts"], stored["eventTimeToLiveInMinutes"]
    limits = profile.limits
    return {
        "maxDeliveryAttempts": attempts or (limits.attempts and limits.attempts[0]),
        "eventTimeToLiveInMinutes": minutes or limits.time_to_live[0] // _MINUTE,
    }


def _form(
    parent_of: Callable[[Document, DeploymentCapabilities], ParentTopic],
    render: Callable[[Document, DeliveryProfile], Document],
) -> SubscriptionForm:
    return SubscriptionForm(
        parent_of,
        _read_form,
        patched_subscription,
        lambda stored, topic: render(stored, topic.profile),
        patch_status=201,
    )


NESTED = _form(to_parent_topic, render_subscription)
EXTENSION = _form(to_parent_topic, render_extension)
OF_SOURCE = _form(to_source_parent, render_extension)
OF_SYSTEM_TOPIC = _form(to_system_parent_topic, render_of_system_topic)
