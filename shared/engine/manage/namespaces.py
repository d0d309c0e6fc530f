"""Manages namespaces, their topics, and the event subscriptions of these."""

from __future__ import annotations

from collections.abc import Sequence

from shared.arm.namespace_codec import (
    KIND,
    parse_namespace,
    parse_namespace_topic,
    patched_namespace_topic,
    render_namespace,
    render_namespace_topic,
    to_namespace_parent_topic,
    to_namespace_topic,
)
from shared.arm.namespace_subscription_codec import (
    parse_namespace_subscription,
    patched_namespace_subscription,
    render_namespace_subscription,
)
from shared.arm.network_rules_codec import to_networks
from shared.arm.tracked_resource import ArmPath, patched_resource
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.deletion import delete_subscriptions
from shared.engine.manage.resources import Resources
from shared.engine.manage.subscriptions import Subscriptions
from shared.engine.ports import NAMESPACE_TOPICS, Document, Table
from shared.engine.ports import NAMESPACES as PARTITION
from shared.events.topic import Topic, TopicName


def _path(call: Call) -> ArmPath:
    return ArmPath(call.names["subscription"], call.names["group"], KIND, call.names["namespace"])


def _parse(ports: ManagePorts, call: Call, body: object, existing: Document | None) -> Document:
    return parse_namespace(_path(call), body, ports.deployment, ports.new_key, existing)


def _clear(ports: ManagePorts, namespace: str) -> None:
    for topic in ports.resources.list(Table.TOPICS, NAMESPACE_TOPICS):
        if topic.name.startswith(f"{namespace.lower()}."):
            delete_subscriptions(ports, topic.name)
            ports.resources.delete(Table.TOPICS, NAMESPACE_TOPICS, topic.name)


def topics_of(ports: ManagePorts, namespace: str) -> Sequence[Document]:
    """Return all topics of a namespace that can be read."""
    topics = filter(TOPICS.is_readable, ports.resources.list(Table.TOPICS, NAMESPACE_TOPICS))
    return [each.document for each in topics if _is_in(namespace, each.document)]


def _is_in(namespace: str, topic: Document) -> bool:
    return bool(topic["namespace"].casefold() == namespace.casefold())


NAMESPACES = Resources(
    noun="namespace",
    partition=PARTITION,
    name=lambda call: call.names["namespace"],
    arm_id=lambda call: _path(call).arm_id,
    name_of=lambda stored: str(stored["name"]),
    covers=lambda call, stored: call.covers(stored["id"]),
    parse=_parse,
    patched=lambda stored, patch: patched_resource(stored, patch, "a namespace"),
    render=render_namespace,
    check=lambda stored: to_networks(stored["properties"]),
    clear=_clear,
)


def _topic_name(call: Call) -> TopicName:
    return TopicName(call.names["namespace"], call.names["topic"])


def _joined_name(topic: Document) -> str:
    return TopicName(topic["namespace"], topic["name"]).joined


def _parse_topic(
    ports: ManagePorts, call: Call, body: object, existing: Document | None
) -> Document:
    namespace = NAMESPACES.named(ports, call).document
    return parse_namespace_topic(_topic_name(call), body, namespace, ports.new_key, existing)


def to_unpublished_topic(stored: Document) -> Topic:
    """Read a stored topic without its namespace's keys and networks: nobody publishes to it."""
    return to_namespace_topic(stored, {"keys": {}, "properties": {}})


TOPICS = Resources(
    noun="topic",
    partition=NAMESPACE_TOPICS,
    name=lambda call: _topic_name(call).joined,
    arm_id=lambda call: f"{_path(call).arm_id}/topics/{call.names['topic']}",
    name_of=_joined_name,
    covers=lambda call, stored: _is_in(call.names["namespace"], stored),
    parse=_parse_topic,
    patched=patched_namespace_topic,
    render=lambda stored, _: render_namespace_topic(stored),
    check=to_unpublished_topic,
    clear=delete_subscriptions,
    parent=NAMESPACES,
)

SUBSCRIPTIONS = Subscriptions(
    topics=TOPICS,
    parent_of=to_namespace_parent_topic,
    parse=parse_namespace_subscription,
    patched=patched_namespace_subscription,
    render=render_namespace_subscription,
    patch_status=200,
    has_links=False,
)
