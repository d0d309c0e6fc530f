"""Topics of the management API."""

from __future__ import annotations

from shared.arm.topic_codec import KIND, TopicSecrets, parse_topic, render_topic
from shared.arm.tracked_resource import ArmPath, patched_resource
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.forgetting import forget_health
from shared.engine.manage.notices import tell_endpoints
from shared.engine.manage.resources import Document, Resources
from shared.engine.ports import CUSTOM_TOPICS, Table


def delete_subscriptions(ports: ManagePorts, topic: str) -> None:
    """Delete all event subscriptions of a topic; what waits for them is dropped."""
    deleted = [
        subscription
        for subscription in ports.resources.list(Table.EVENT_SUBSCRIPTIONS, topic)
        if ports.resources.delete(Table.EVENT_SUBSCRIPTIONS, topic, subscription.document["name"])
    ]
    forget_health(ports, topic)
    tell_endpoints(ports, deleted)


def _path(call: Call) -> ArmPath:
    return ArmPath(call.names["subscription"], call.names["group"], KIND, call.names["topic"])


def _parse(ports: ManagePorts, call: Call, body: object, existing: Document | None) -> Document:
    secrets = TopicSecrets(new_key=ports.new_key, new_id=ports.new_id)
    return parse_topic(_path(call), body, ports.deployment, secrets, existing)


TOPICS = Resources(
    noun="topic",
    partition=CUSTOM_TOPICS,
    name=lambda call: call.names["topic"],
    arm_id=lambda call: _path(call).arm_id,
    name_of=lambda stored: str(stored["name"]),
    covers=lambda call, stored: call.covers(stored["id"]),
    parse=_parse,
    patched=lambda stored, patch: patched_resource(stored, patch, "a topic"),
    render=render_topic,
    clear=delete_subscriptions,
)
