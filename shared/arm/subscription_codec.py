"""
Turns requests for event subscriptions into stored documents, and stored documents into values.

A request has one of the forms that ``topic_subscription_codec`` and
``namespace_subscription_codec`` define; the stored document is the same for all.

A pause, and that deliveries are no longer signed, are recorded in the stored document: since when,
and by whom.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from shared.arm.consent import (
    allowed_rate,
    has_expired,
    in_force,
    is_pending,
    pending_reason,
)
from shared.arm.dead_letter_codec import parse_dead_letter, to_dead_letter
from shared.arm.delivery_attributes_codec import (
    attribute_mappings,
    to_headers,
    to_limits,
    to_signing,
)
from shared.arm.deployment_capabilities import (
    DeploymentCapabilities,
    ParentTopic,
    SubscriptionRequest,
)
from shared.arm.destination_codec import (
    parse_destination,
    to_batching,
    to_destination,
)
from shared.arm.filter_codec import to_filter
from shared.arm.identity_codec import DELIVERY, Wrapper, unwrap
from shared.arm.member_names import Names
from shared.arm.sections import Document, Section, raise_faults, root_section
from shared.arm.stored_types import checked
from shared.clock import moment_of, timestamp
from shared.errors import UNREADABLE
from shared.events.topic import InputSchema
from shared.subscriptions.diagnosis import Diagnosis, while_awaited
from shared.subscriptions.subscription import (
    UNMATCHED,
    DeliverySchema,
    EventSubscription,
    Pause,
    RetryPolicy,
    SigningEnd,
)

# The delivery schemas that each input schema allows; the first is the default.
DELIVERY_SCHEMAS = {
    InputSchema.EVENT_GRID: (DeliverySchema.EVENT_GRID, DeliverySchema.CLOUD_EVENTS),
    InputSchema.CLOUD_EVENTS: (DeliverySchema.CLOUD_EVENTS,),
    InputSchema.CUSTOM: (
        DeliverySchema.CUSTOM_INPUT,
        DeliverySchema.EVENT_GRID,
        DeliverySchema.CLOUD_EVENTS,
    ),
}
_RESTORED = "restored"  # a member, where the generation of the replaced document was lost
_NAME = re.compile(r"[A-Za-z0-9-]{3,64}")
# Beside the properties: they are no part of the ARM document.
_PAUSE, _SIGNING_END = "pause", "signingEnd"


class SubscriptionForm(NamedTuple):
    """A form in which clients address event subscriptions."""

    parent_of: Callable[[Document, DeploymentCapabilities], ParentTopic]  # from a stored topic
    read: Callable[[Section, SubscriptionRequest], dict[str, Any]]  # the form's own members
    patched: Callable[[Document, object], object]  # the body of the PUT with a PATCH's effect
    render: Callable[[Document, ParentTopic], Document]
    names: Names  # of the members of its documents
    patch_names: Names  # of those of a PATCH
    monitored_type: str  # as Azure Monitor names these subscriptions
    patch_status: int  # that clients expect
    has_links: bool = True  # by which an endpoint can be validated later

    def parse(self, request: SubscriptionRequest) -> dict[str, Any]:
        """
        Read a request into the document to store.

        An existing subscription keeps its id, its pause and its generation, so that waiting events
        go to the new endpoint; a new one gets its own generation. Of one that can't be read only
        the generation is kept. Whatever the topic's delivery profile lacks is refused.
        """
        topic, existing = request.topic, request.existing
        root = root_section(request.body)
        _check_name(root, request.name)
        section = root.section("properties")
        properties = {
            **self.read(section, request),
            "eventDeliverySchema": _parse_delivery_schema(section, topic.input_schema, existing),
            "expirationTimeUtc": _parse_expiration(section, request),
        }
        raise_faults(root.faults)
        name = existing["name"] if existing else request.name
        return {
            "id": topic.subscription_id(name),
            "name": name,
            "topicName": topic.name,
            "topicId": topic.arm_id,
            "inputSchema": str(topic.input_schema),
            "properties": properties,
            **_generation(request),
            **({_PAUSE: existing[_PAUSE]} if existing and _PAUSE in existing else {}),
            **_signing_end(request, properties["destination"]),
        }


def _generation(request: SubscriptionRequest) -> dict[str, Any]:
    """Return the members that tell which waiting events are the subscription's own."""
    replaced = request.damaged if request.existing is None else request.existing
    if replaced is None:
        return {"generation": request.new_id()}
    generation = replaced.get("generation")
    if not isinstance(generation, str) or generation == UNMATCHED:
        return {"generation": request.new_id(), _RESTORED: True}
    return {"generation": generation} | ({_RESTORED: True} if replaced.get(_RESTORED) else {})


def _signing_end(request: SubscriptionRequest, wanted: Document) -> dict[str, Any]:
    """Return the member that tells who left a webhook without signing secrets, if somebody did."""
    existing = request.existing
    if existing is None or wanted["endpointType"] != "WebHook" or _signing_of(wanted):
        return {}
    if _signing_of(existing["properties"]["destination"]):
        return {_SIGNING_END: {"at": timestamp(request.now), "by": request.by}}
    return {_SIGNING_END: existing[_SIGNING_END]} if _SIGNING_END in existing else {}


def _signing_of(destination: Document) -> tuple[str, ...]:
    return to_signing(attribute_mappings(destination))


def parse_destinations(
    holder: Section, request: SubscriptionRequest, dead_letter: Wrapper
) -> dict[str, Any]:
    """Read the destination and the dead-letter destination of *holder*, with their identities."""
    destination_section, delivery_identity = unwrap(holder, DELIVERY)
    dead_letter_section, dead_letter_identity = unwrap(holder, dead_letter)
    return {
        "destination": parse_destination(destination_section, request),
        "deliveryIdentity": delivery_identity,
        "deadLetterDestination": parse_dead_letter(dead_letter_section, request),
        "deadLetterIdentity": dead_letter_identity,
    }


def to_subscription(stored: Document) -> EventSubscription:
    """
    Turn a stored subscription, as written last, into a value.

    Raises:
        UNREADABLE: the document has another form.
    """
    properties = stored["properties"]
    retry = properties["retryPolicy"]
    destination = properties["destination"]
    mappings = attribute_mappings(destination)
    expires = properties.get("expirationTimeUtc")
    value = EventSubscription(
        arm_id=stored["id"],
        topic=stored["topicName"],
        topic_id=stored["topicId"],
        name=stored["name"],
        generation=stored["generation"],
        destination=to_destination(destination),
        input_schema=InputSchema(stored["inputSchema"]),
        delivery_schema=DeliverySchema(properties["eventDeliverySchema"]),
        filter=to_filter(properties["filter"]),
        retry_policy=RetryPolicy(
            max_delivery_attempts=retry["maxDeliveryAttempts"],
            event_time_to_live_minutes=retry["eventTimeToLiveInMinutes"],
        ),
        dead_letter=to_dead_letter(properties["deadLetterDestination"]),
        batching=to_batching(destination),
        headers=to_headers(mappings),
        signing=(signing := to_signing(mappings)),
        signing_end=None if signing else to_signing_end(stored),
        limits=to_limits(mappings),
        expires_at=expires and datetime.fromisoformat(expires),
        rate=allowed_rate(stored),
        is_restored=bool(stored.get(_RESTORED)),
        pause=to_pause(stored),
    )
    return checked(value)


def to_subscription_in_force(stored: Document) -> EventSubscription:
    """Turn a stored subscription into the value that deliveries use: the version in force."""
    document = in_force(stored)
    if document is None:
        return replace(to_subscription(stored), has_consented=False)
    return to_subscription(document)


def pending_consent(stored: Document, now: datetime) -> Diagnosis | None:
    """
    Return why the endpoint written last has not consented; ``None``: it has.

    Raises:
        UNREADABLE: the document has another form.
    """
    if not is_pending(stored):
        return None
    return while_awaited(
        pending_reason(stored),
        to_subscription(stored),
        is_over=has_expired(stored, now),
        has_former=in_force(stored) is not None,
    )


def is_readable(stored: Any) -> bool:
    """Tell whether a stored subscription has the form that this version of the app reads."""
    try:
        to_subscription(stored)
        to_subscription_in_force(stored)
        return bool(stored["generation"])
    except UNREADABLE:
        return False


def _check_name(root: Section, name: str) -> None:
    if not _NAME.fullmatch(name):
        root.refuse(
            "name", "The name of an event subscription must be 3-64 letters, digits and hyphens."
        )


def _parse_expiration(properties: Section, request: SubscriptionRequest) -> str | None:
    """Read the expiration time, in UTC; an unchanged one may be in the past."""
    moment = properties.moment("expirationTimeUtc")
    if moment is None:
        return None
    text = moment.isoformat().replace("+00:00", "Z")
    known = request.existing and request.existing["properties"].get("expirationTimeUtc")
    if moment <= request.now and text != known:
        over = f"Invalid expiration time. {text} is over: a time in the future is expected."
        properties.refuse("expirationTimeUtc", over)
    return text


def _parse_delivery_schema(
    properties: Section, input_schema: InputSchema, existing: Document | None
) -> str:
    """Read the delivery schema, which the input schema must allow and which can't change."""
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


def to_pause(stored: Document) -> Pause | None:
    pause = stored.get(_PAUSE)
    if pause is None:
        return None
    return Pause(moment_of(pause["since"]), str(pause["by"]))


def to_signing_end(stored: Document) -> SigningEnd | None:
    end = stored.get(_SIGNING_END)
    return SigningEnd(moment_of(end["at"]), str(end["by"])) if end else None


def with_pause(stored: Document, pause: Pause) -> Document:
    """Return *stored* as it is paused; an earlier pause goes on."""
    if to_pause(stored):
        return stored
    return {**stored, _PAUSE: {"since": timestamp(pause.since), "by": pause.by}}


def without_pause(stored: Document) -> Document:
    return {name: stored[name] for name in stored if name != _PAUSE}
