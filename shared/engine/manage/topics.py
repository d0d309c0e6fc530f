"""Manages custom topics."""

from __future__ import annotations

from shared.arm.topic_codec import KIND, TopicSecrets, parse_topic, render_topic, to_topic
from shared.arm.tracked_resource import ArmPath, patched_resource
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.deletion import delete_subscriptions
from shared.engine.manage.resources import Resources
from shared.engine.ports import CUSTOM_TOPICS, Document


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
    check=to_topic,
    clear=delete_subscriptions,
)
