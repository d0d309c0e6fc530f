"""Reads and writes event subscriptions in the forms of custom and system topics."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from shared.arm.deployment_capabilities import ParentTopic, SubscriptionRequest, under
from shared.arm.destination_codec import render_destination
from shared.arm.document_names import SUBSCRIPTION, SUBSCRIPTION_PATCH
from shared.arm.filter_codec import parse_filter
from shared.arm.identity_codec import DEAD_LETTER, DELIVERY, replace_wrapped, wrap
from shared.arm.sections import Document, Section, read_patch
from shared.arm.subscription_codec import SubscriptionForm, parse_destinations
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


def _patched(stored: Document, body: object) -> dict[str, Any]:
    """Return the PUT with the effect of a flat PATCH: members replace, ``null`` removes."""
    members = _members(stored, stored["properties"]["destination"])
    form = "A PATCH of an event subscription is flat, without 'properties'"
    patch = read_patch(body, {*members, *DELIVERY, *DEAD_LETTER}, form)
    return {"properties": replace_wrapped(members, patch, (DELIVERY, DEAD_LETTER))}


def _render(stored: Document, topic: ParentTopic) -> dict[str, Any]:
    """Write a subscription, its secrets hidden; its profile has what the retry policy omits."""
    properties = stored["properties"]
    shown = {
        **_members(stored, render_destination(properties["destination"])),
        "topic": stored["topicId"],
        "retryPolicy": _render_retry_policy(properties["retryPolicy"], topic.profile),
    }
    return render_resource(stored, TYPE, shown)


def _render_extension(stored: Document, topic: ParentTopic) -> dict[str, Any]:
    """Write a subscription as an extension of its topic, the form of older clients."""
    of = stored["topicId"]
    shown_id = f"{of}/providers/{PROVIDER}/eventSubscriptions/{stored['name']}"
    return {**_render_below(of, stored, topic), "id": shown_id, "type": EXTENSION_TYPE}


def _render_of_system_topic(stored: Document, topic: ParentTopic) -> dict[str, Any]:
    of = stored["id"].rpartition("/eventSubscriptions/")[0]
    return {**_render_below(of, stored, topic), "type": SYSTEM_TYPE}


def _render_below(of: str, stored: Document, topic: ParentTopic) -> dict[str, Any]:
    answer = _render(stored, topic)
    return {**answer, "properties": {**answer["properties"], "topic": _lower_cased(of)}}


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


NESTED = SubscriptionForm(
    to_parent_topic,
    _read_form,
    _patched,
    _render,
    SUBSCRIPTION,
    SUBSCRIPTION_PATCH,
    EXTENSION_TYPE,
    patch_status=201,
)
EXTENSION = NESTED._replace(render=_render_extension)
OF_SOURCE = EXTENSION._replace(parent_of=to_source_parent)
OF_SYSTEM_TOPIC = NESTED._replace(
    parent_of=to_system_parent_topic, render=_render_of_system_topic, monitored_type=SYSTEM_TYPE
)
