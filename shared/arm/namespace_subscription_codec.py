"""Reads and writes event subscriptions in the form of namespace topics."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from shared.arm.deployment_capabilities import ParentTopic, SubscriptionRequest
from shared.arm.destination_codec import render_destination
from shared.arm.document_names import NAMESPACE_SUBSCRIPTION
from shared.arm.filter_codec import parse_filter
from shared.arm.identity_codec import DELIVERY, Wrapper, replace_wrapped, wrap
from shared.arm.namespace_codec import to_namespace_parent_topic
from shared.arm.not_included import PULL
from shared.arm.sections import Document, Section, patched_properties, read_patch
from shared.arm.subscription_codec import SubscriptionForm, parse_destinations
from shared.arm.tracked_resource import PROVIDER, render_resource
from shared.events.iso_8601 import parse_duration

TYPE = f"{PROVIDER}/namespaces/topics/eventsubscriptions"
_DEAD_LETTER = Wrapper("deadLetterDestination", "deadLetterDestinationWithResourceIdentity")
_DELIVERY, _FILTERS, _PUSH = "deliveryConfiguration", "filtersConfiguration", "push"
_OF_CUSTOM_TOPICS = (
    "subjectBeginsWith",
    "subjectEndsWith",
    "isSubjectCaseSensitive",
    "enableAdvancedFilteringOnArrays",
)
_MINUTE = timedelta(minutes=1)


def _read_form(properties: Section, request: SubscriptionRequest) -> dict[str, Any]:
    topic, delivery = request.topic, properties.section(_DELIVERY)
    stored: dict[str, Any] = {}
    queue = f"The delivery mode Queue is not supported. {PULL.sentence}"
    if delivery.required_choice("deliveryMode", ("Push",), {"Queue": queue}):
        push = delivery.section(_PUSH)
        stored = {
            **parse_destinations(push, request, _DEAD_LETTER),
            "retryPolicy": _parse_retry_policy(push, topic),
        }
    filters = parse_filter(properties.section(_FILTERS), topic.input_schema, "filters")
    return {**stored, "filter": filters}


def _patched(stored: Document, body: object) -> dict[str, Any]:
    """
    Return the PUT with the effect of a PATCH, whose members are wrapped in ``properties``.

    Those of the delivery configuration are merged; others replace, and ``null`` removes.
    """
    form = "A PATCH of an event subscription of a namespace topic is wrapped in 'properties'"
    patch = read_patch(body, ("properties",), form)
    members = _members(stored, stored["properties"]["destination"])
    return patched_properties(members, patch, _merge)


def _render(stored: Document, topic: ParentTopic) -> dict[str, Any]:
    properties = _members(stored, render_destination(stored["properties"]["destination"]))
    push = properties[_DELIVERY][_PUSH]
    if push["maxDeliveryCount"] is None and (attempts := topic.profile.limits.attempts):
        push["maxDeliveryCount"] = attempts[0]
    if push["eventTimeToLive"] is None and topic.retention:
        push["eventTimeToLive"] = f"P{topic.retention.days}D"
    return render_resource(stored, TYPE, properties)


def _merge(members: Document, given: Document) -> dict[str, Any]:
    changed = {**members, **given}
    known, delivery = members[_DELIVERY], given.get(_DELIVERY)
    if isinstance(delivery, dict):
        changed[_DELIVERY] = known | delivery
        if isinstance(push := delivery.get(_PUSH), dict):
            changed[_DELIVERY][_PUSH] = replace_wrapped(
                known[_PUSH], push, (DELIVERY, _DEAD_LETTER)
            )
    return changed


def _members(stored: Document, destination: object) -> dict[str, Any]:
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
            # Event Grid has these for custom topics only.
            **{name: kept[name] for name in _OF_CUSTOM_TOPICS if kept.get(name)},
        },
        "eventDeliverySchema": properties["eventDeliverySchema"],
        "expirationTimeUtc": properties["expirationTimeUtc"],
    }


def _parse_retry_policy(push: Section, topic: ParentTopic) -> dict[str, Any]:
    limits, attempts, minutes = topic.profile.limits, None, None
    if limits.attempts:
        _, fewest, most = limits.attempts
        attempts = push.number("maxDeliveryCount", fewest, most)
    text = push.text("eventTimeToLive") or None
    if text is not None:
        duration = parse_duration(text)
        longest = topic.retention or limits.time_to_live[2]
        if duration is None or duration % _MINUTE or not _MINUTE <= duration <= longest:
            push.refuse(
                "eventTimeToLive",
                f"{push.target('eventTimeToLive')} must be an ISO 8601 duration in whole minutes, "
                f"between PT1M and the retention of the topic, P{longest.days}D.",
            )
        else:
            minutes = duration // _MINUTE
    return {
        "maxDeliveryAttempts": attempts,
        "eventTimeToLiveInMinutes": minutes,
        "eventTimeToLive": text,
    }


OF_NAMESPACE_TOPIC = SubscriptionForm(
    to_namespace_parent_topic,
    _read_form,
    _patched,
    _render,
    NAMESPACE_SUBSCRIPTION,
    NAMESPACE_SUBSCRIPTION,
    TYPE,
    patch_status=200,
    has_links=False,
)
