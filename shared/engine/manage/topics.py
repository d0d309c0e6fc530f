"""Topics of the management API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared import telemetry
from shared.engine.manage.arm_json import answer, read_json
from shared.engine.manage.call import Call, ManagePorts, is_at, not_found
from shared.engine.manage.forgetting import forget_health
from shared.engine.manage.keys import Keys
from shared.engine.manage.notices import tell_endpoints
from shared.engine.manage.page import answer_page
from shared.engine.manage.writing import Place, write
from shared.engine.ports import CUSTOM_TOPICS, Resource, Table
from shared.errors import Conflict, NotFound
from shared.http import HttpAnswer
from shared.subscriptions.arm_path import ArmPath, patched_resource
from shared.subscriptions.topic_codec import KIND, TYPE, TopicSecrets, parse_topic, render_topic


def put_topic(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Create or replace a topic. Event Grid's clients take nothing but 201, also when replacing."""
    body = read_json(call.body)
    return _write(ports, call, 201, lambda _: body)


def patch_topic(ports: ManagePorts, call: Call) -> HttpAnswer:
    patch = read_json(call.body)

    def changed(existing: Resource | None) -> object:
        if existing is None or not is_at(existing, _path(call)):
            raise topic_not_found(call)
        return patched_resource(existing.document, patch, "a topic")

    return _write(ports, call, 200, changed)


def get_topic(ports: ManagePorts, call: Call) -> HttpAnswer:
    return answer(200, render_topic(topic_resource(ports, call).document, call.public_url))


def delete_topic(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Delete a topic and its event subscriptions; 204 needs no polling, and is no news twice."""
    name = call.names["topic"]
    if find_topic(ports, call):
        # The topic goes after its subscriptions: what fails half-way can be deleted again.
        delete_subscriptions(ports, name)
        ports.resources.delete(*place(call))
        delete_subscriptions(ports, name)  # what was created meanwhile
        telemetry.info("topic.changed", topic=name, action="delete")
    return answer(204)


def list_topics(ports: ManagePorts, call: Call) -> HttpAnswer:
    """List the topics of a resource group, or of a subscription where no group is named."""
    topics = ports.resources.list(Table.TOPICS, CUSTOM_TOPICS)
    found = [topic for topic in topics if call.covers(topic.document["id"])]
    return answer_page(call, found, lambda stored: render_topic(stored, call.public_url))


def topic_resource(ports: ManagePorts, call: Call) -> Resource:
    """
    Return the topic that the path of *call* names.

    Raises:
        NotFound: there is none, or it is in another resource group.
    """
    topic = find_topic(ports, call)
    if topic is None:
        raise topic_not_found(call)
    return topic


def find_topic(ports: ManagePorts, call: Call) -> Resource | None:
    """Return the topic that the path of *call* names, if it is there."""
    topic = ports.resources.get(*place(call))
    return topic if topic and is_at(topic, _path(call)) else None


def topic_not_found(call: Call) -> NotFound:
    return not_found(TYPE, call.names["topic"], call.names["group"])


def place(call: Call) -> Place:
    return Place(Table.TOPICS, CUSTOM_TOPICS, call.names["topic"])


KEYS = Keys(find=topic_resource, place=place)


def delete_subscriptions(ports: ManagePorts, topic: str) -> None:
    """Delete all event subscriptions of a topic; what waits for them is dropped."""
    deleted = [
        subscription
        for subscription in ports.resources.list(Table.EVENT_SUBSCRIPTIONS, topic)
        if ports.resources.delete(Table.EVENT_SUBSCRIPTIONS, topic, subscription.document["name"])
    ]
    forget_health(ports, topic)
    tell_endpoints(ports, deleted)


def _write(
    ports: ManagePorts, call: Call, status: int, body: Callable[[Resource | None], object]
) -> HttpAnswer:
    path = _path(call)
    secrets = TopicSecrets(new_key=ports.new_key, new_id=ports.new_id)

    def decide(existing: Resource | None) -> Mapping[str, Any]:
        wanted = body(existing)
        if existing and not is_at(existing, path):
            raise Conflict(f"There is a topic named '{path.name}' elsewhere in this deployment.")
        document = existing.document if existing else None
        return parse_topic(path, wanted, ports.deployment, secrets, document)

    stored = write(ports, place(call), decide).document
    telemetry.info("topic.changed", topic=stored["name"], action="put")
    return answer(status, render_topic(stored, call.public_url))


def _path(call: Call) -> ArmPath:
    return ArmPath(call.names["subscription"], call.names["group"], KIND, call.names["topic"])
