"""Event subscriptions of the management API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared import telemetry
from shared.engine.manage.arm_json import answer, read_json
from shared.engine.manage.call import WRITE_TRIES, Call, ManagePorts, not_found
from shared.engine.manage.handshake import shake_hands
from shared.engine.manage.page import answer_page
from shared.engine.manage.topics import find_topic, topic_not_found, topic_resource
from shared.engine.ports import Resource, Table
from shared.errors import Conflict
from shared.http import HttpAnswer
from shared.subscriptions.deployment import ProfileLimits
from shared.subscriptions.subscription_codec import (
    TYPE,
    is_subscription_name,
    parse_subscription,
    render_subscription,
    subscription_of,
)
from shared.subscriptions.topic_codec import profile_tag


def put_subscription(ports: ManagePorts, call: Call) -> HttpAnswer:
    """
    Create or replace an event subscription, once its endpoint has proved that it wants events.

    A new endpoint of an existing subscription has to prove it, too.
    """
    name, body = call.names["name"], read_json(call.body)
    proved = ""  # the endpoint that has passed the handshake within this call
    for _ in range(WRITE_TRIES):
        topic, existing = topic_resource(ports, call), _named(ports, call)
        stored = parse_subscription(
            name,
            body,
            topic=topic.document,
            deployment=ports.deployment,
            new_id=ports.new_id,
            existing=existing.document if existing else None,
        )
        wanted = subscription_of(stored)
        if wanted.endpoint_url not in (proved, _endpoint(existing)):
            shake_hands(ports, wanted)
            proved = wanted.endpoint_url
        if _put(ports, stored, existing):
            _check_topic(ports, call, stored)
            telemetry.info(
                "subscription.changed",
                topic=wanted.topic,
                subscription=wanted.name,
                generation=wanted.generation,
                action="put",
            )
            return answer(201, render_subscription(stored, _limits(ports, topic)))
    raise Conflict


def get_subscription(ports: ManagePorts, call: Call) -> HttpAnswer:
    topic = topic_resource(ports, call)
    existing = _named(ports, call)
    if existing is None:
        topic_type, _, kind = TYPE.rpartition("/")
        kind = f"{topic_type}/{call.names['topic']}/{kind}"
        raise not_found(kind, call.names["name"], call.names["group"])
    return answer(200, render_subscription(existing.document, _limits(ports, topic)))


def delete_subscription(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Delete an event subscription; what still waits for it is dropped. No news if it is gone."""
    topic = call.names["topic"]
    existing = _named(ports, call) if find_topic(ports, call) else None
    if existing and ports.resources.delete(
        Table.EVENT_SUBSCRIPTIONS, topic, existing.document["name"]
    ):
        telemetry.info(
            "subscription.changed",
            topic=existing.document["topicName"],
            subscription=existing.document["name"],
            generation=existing.document["generation"],
            action="delete",
        )
    return answer(204)


def list_subscriptions(ports: ManagePorts, call: Call) -> HttpAnswer:
    topic = topic_resource(ports, call)
    limits = _limits(ports, topic)
    found = ports.resources.list(Table.EVENT_SUBSCRIPTIONS, topic.document["name"])
    return answer_page(call, found, lambda stored: render_subscription(stored, limits))


def _named(ports: ManagePorts, call: Call) -> Resource | None:
    name = call.names["name"]
    if not is_subscription_name(name):
        return None
    return ports.resources.get(Table.EVENT_SUBSCRIPTIONS, call.names["topic"], name)


def _limits(ports: ManagePorts, topic: Resource) -> ProfileLimits:
    return ports.deployment.limits(profile_tag(topic.document))


def _endpoint(existing: Resource | None) -> str | None:
    return subscription_of(existing.document).endpoint_url if existing else None


def _put(ports: ManagePorts, stored: Mapping[str, Any], existing: Resource | None) -> bool:
    """Store the document; return ``False`` when somebody else has changed it since it was read."""
    etag = existing.etag if existing else None
    topic, name = stored["topicName"], stored["name"]
    try:
        ports.resources.put(Table.EVENT_SUBSCRIPTIONS, topic, name, stored, etag)
    except Conflict:
        return False
    return True


def _check_topic(ports: ManagePorts, call: Call, stored: Mapping[str, Any]) -> None:
    """
    Take a subscription back whose topic was deleted while its endpoint was being asked.

    Raises:
        NotFound: the topic is gone.
        Conflict: it was created again with another input schema.
    """
    topic = find_topic(ports, call)
    if topic and topic.document["properties"]["inputSchema"] == stored["inputSchema"]:
        return
    ports.resources.delete(Table.EVENT_SUBSCRIPTIONS, stored["topicName"], stored["name"])
    if topic is None:
        raise topic_not_found(call)
    raise Conflict("The topic was created again with another input schema.")
