"""Topics of the management API."""

from __future__ import annotations

from shared import telemetry
from shared.engine.manage.arm_json import answer, read_json
from shared.engine.manage.call import WRITE_TRIES, Call, ManagePorts, not_found
from shared.engine.manage.page import answer_page
from shared.engine.ports import CUSTOM_TOPICS, Resource, Table
from shared.errors import Conflict, NotFound
from shared.http import HttpAnswer
from shared.subscriptions.topic_codec import (
    TYPE,
    TopicPath,
    TopicSecrets,
    is_topic_name,
    parse_topic,
    render_topic,
)


def put_topic(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Create or replace a topic. Event Grid's clients take nothing but 201, also when replacing."""
    path, body = _path(call), read_json(call.body)
    secrets = TopicSecrets(new_key=ports.new_key, new_id=ports.new_id)
    for _ in range(WRITE_TRIES):
        existing = _named(ports, path.name)
        if existing and not _is_at(existing, path):
            raise Conflict(f"There is a topic named '{path.name}' elsewhere in this deployment.")
        document = existing.document if existing else None
        stored = parse_topic(path, body, ports.deployment, secrets, document)
        etag = existing.etag if existing else None
        try:
            ports.resources.put(Table.TOPICS, CUSTOM_TOPICS, path.name, stored, etag)
        except Conflict:
            continue  # somebody else was first: decide again on what is there now
        telemetry.info("topic.changed", topic=stored["name"], action="put")
        return answer(201, render_topic(stored, call.public_url))
    raise Conflict


def get_topic(ports: ManagePorts, call: Call) -> HttpAnswer:
    return answer(200, render_topic(topic_resource(ports, call).document, call.public_url))


def delete_topic(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Delete a topic and its event subscriptions; 204 needs no polling, and is no news twice."""
    name = call.names["topic"]
    if find_topic(ports, call):
        # The topic goes after its subscriptions: what fails half-way can be deleted again.
        _delete_subscriptions(ports, name)
        ports.resources.delete(Table.TOPICS, CUSTOM_TOPICS, name)
        _delete_subscriptions(ports, name)  # what was created meanwhile
        telemetry.info("topic.changed", topic=name, action="delete")
    return answer(204)


def list_keys(ports: ManagePorts, call: Call) -> HttpAnswer:
    keys = topic_resource(ports, call).document["keys"]
    return answer(200, {"key1": keys["key1"], "key2": keys["key2"]})


def list_topics(ports: ManagePorts, call: Call) -> HttpAnswer:
    """List the topics of a resource group, or of a subscription where no group is named."""
    scope = f"/subscriptions/{call.names['subscription']}/"
    if "group" in call.names:
        scope += f"resourceGroups/{call.names['group']}/"
    found = [
        topic
        for topic in ports.resources.list(Table.TOPICS, CUSTOM_TOPICS)
        if topic.document["id"].casefold().startswith(scope.casefold())
    ]
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
    path = _path(call)
    topic = _named(ports, path.name)
    return topic if topic and _is_at(topic, path) else None


def topic_not_found(call: Call) -> NotFound:
    return not_found(TYPE, call.names["topic"], call.names["group"])


def _path(call: Call) -> TopicPath:
    return TopicPath(call.names["subscription"], call.names["group"], call.names["topic"])


def _named(ports: ManagePorts, name: str) -> Resource | None:
    return ports.resources.get(Table.TOPICS, CUSTOM_TOPICS, name) if is_topic_name(name) else None


def _is_at(topic: Resource, path: TopicPath) -> bool:
    return bool(topic.document["id"].casefold() == path.arm_id.casefold())


def _delete_subscriptions(ports: ManagePorts, topic: str) -> None:
    for subscription in ports.resources.list(Table.EVENT_SUBSCRIPTIONS, topic):
        ports.resources.delete(Table.EVENT_SUBSCRIPTIONS, topic, subscription.document["name"])
