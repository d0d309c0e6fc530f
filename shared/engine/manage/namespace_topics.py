"""Topics of namespaces in the management API, and their event subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared import telemetry
from shared.engine.manage.arm_json import answer, read_json
from shared.engine.manage.call import Call, ManagePorts, not_found
from shared.engine.manage.keys import Keys
from shared.engine.manage.namespaces import find_namespace, namespace_resource, topics_of
from shared.engine.manage.page import answer_page
from shared.engine.manage.subscriptions import Subscriptions
from shared.engine.manage.topics import delete_subscriptions
from shared.engine.manage.writing import Place, write
from shared.engine.ports import NAMESPACE_TOPICS, Resource, Table
from shared.errors import NotFound
from shared.events.topic import TopicName
from shared.http import HttpAnswer
from shared.subscriptions.deployment import ParentTopic
from shared.subscriptions.namespace_codec import (
    TYPE,
    namespace_parent_of,
    parse_namespace_topic,
    patched_namespace_topic,
    render_namespace_topic,
)
from shared.subscriptions.namespace_subscription_codec import TYPE as SUBSCRIPTION_TYPE
from shared.subscriptions.namespace_subscription_codec import (
    parse_namespace_subscription,
    patched_namespace_subscription,
    render_namespace_subscription,
)


def put_namespace_topic(ports: ManagePorts, call: Call) -> HttpAnswer:
    body = read_json(call.body)
    return _write(ports, call, 201, lambda _: body)


def patch_namespace_topic(ports: ManagePorts, call: Call) -> HttpAnswer:
    patch = read_json(call.body)

    def changed(existing: Resource | None) -> object:
        if existing is None:
            raise _topic_not_found(call)
        return patched_namespace_topic(existing.document, patch)

    return _write(ports, call, 200, changed)


def get_namespace_topic(ports: ManagePorts, call: Call) -> HttpAnswer:
    return answer(200, render_namespace_topic(_topic_resource(ports, call).document))


def delete_namespace_topic(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Delete a topic and its event subscriptions."""
    if _find_topic(ports, call):
        name = _name(call).joined
        delete_subscriptions(ports, name)
        ports.resources.delete(*_place(call))
        delete_subscriptions(ports, name)  # what was created meanwhile
        telemetry.info("topic.changed", topic=name, action="delete")
    return answer(204)


def list_namespace_topics(ports: ManagePorts, call: Call) -> HttpAnswer:
    namespace_resource(ports, call)
    return answer_page(call, topics_of(ports, call), render_namespace_topic)


def _topic_resource(ports: ManagePorts, call: Call) -> Resource:
    topic = _find_topic(ports, call)
    if topic is None:
        raise _topic_not_found(call)
    return topic


def _find_topic(ports: ManagePorts, call: Call) -> Resource | None:
    return ports.resources.get(*_place(call)) if find_namespace(ports, call) else None


def _parent(ports: ManagePorts, call: Call) -> ParentTopic | None:
    topic = _find_topic(ports, call)
    return namespace_parent_of(topic.document, ports.deployment) if topic else None


def _topic_not_found(call: Call) -> NotFound:
    kind = f"{TYPE}/{call.names['namespace']}/topics"
    return not_found(kind, call.names["topic"], call.names["group"])


def _name(call: Call) -> TopicName:
    return TopicName(call.names["namespace"], call.names["topic"])


def _place(call: Call) -> Place:
    return Place(Table.TOPICS, NAMESPACE_TOPICS, _name(call).joined)


KEYS = Keys(find=_topic_resource, place=_place)
SUBSCRIPTIONS = Subscriptions(
    type=SUBSCRIPTION_TYPE,
    topic=_parent,
    topic_not_found=_topic_not_found,
    parse=parse_namespace_subscription,
    patched=patched_namespace_subscription,
    render=render_namespace_subscription,
    patch_status=200,
    has_links=False,
)


def _write(
    ports: ManagePorts, call: Call, status: int, body: Callable[[Resource | None], object]
) -> HttpAnswer:
    def decide(existing: Resource | None) -> Mapping[str, Any]:
        namespace = namespace_resource(ports, call).document
        document = existing.document if existing else None
        return parse_namespace_topic(
            _name(call), body(existing), namespace, ports.new_key, document
        )

    stored = write(ports, _place(call), decide).document
    if find_namespace(ports, call) is None:  # it was deleted meanwhile, and this topic is nobody's
        ports.resources.delete(*_place(call))
    namespace_resource(ports, call)
    telemetry.info("topic.changed", topic=_name(call).joined, action="put")
    return answer(status, render_namespace_topic(stored))
