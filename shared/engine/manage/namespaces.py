"""Namespaces of the management API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared import telemetry
from shared.engine.manage.arm_json import answer, read_json
from shared.engine.manage.call import Call, ManagePorts, is_at, not_found
from shared.engine.manage.keys import Keys
from shared.engine.manage.page import answer_page
from shared.engine.manage.topics import delete_subscriptions
from shared.engine.manage.writing import Place, write
from shared.engine.ports import NAMESPACE_TOPICS, NAMESPACES, Resource, Table
from shared.errors import Conflict, NotFound
from shared.events.topic import TopicName
from shared.http import HttpAnswer
from shared.subscriptions.arm_path import ArmPath, patched_resource
from shared.subscriptions.namespace_codec import (
    KIND,
    TYPE,
    parse_namespace,
    render_namespace,
)


def put_namespace(ports: ManagePorts, call: Call) -> HttpAnswer:
    body = read_json(call.body)
    return _write(ports, call, 201, lambda _: body)


def patch_namespace(ports: ManagePorts, call: Call) -> HttpAnswer:
    patch = read_json(call.body)

    def changed(existing: Resource | None) -> object:
        if existing is None or not is_at(existing, _path(call)):
            raise namespace_not_found(call)
        return patched_resource(existing.document, patch, "a namespace")

    return _write(ports, call, 200, changed)


def get_namespace(ports: ManagePorts, call: Call) -> HttpAnswer:
    return answer(200, render_namespace(namespace_resource(ports, call).document, call.public_url))


def delete_namespace(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Delete a namespace with its topics and their event subscriptions."""
    if find_namespace(ports, call):
        _delete_topics(ports, call)
        ports.resources.delete(*namespace_place(call))
        _delete_topics(ports, call)  # what was created meanwhile
        telemetry.info("namespace.changed", namespace=call.names["namespace"], action="delete")
    return answer(204)


def list_namespaces(ports: ManagePorts, call: Call) -> HttpAnswer:
    """List the namespaces of a resource group, or of a subscription where no group is named."""
    namespaces = ports.resources.list(Table.TOPICS, NAMESPACES)
    found = [each for each in namespaces if call.covers(each.document["id"])]
    return answer_page(call, found, lambda stored: render_namespace(stored, call.public_url))


def namespace_resource(ports: ManagePorts, call: Call) -> Resource:
    """
    Return the namespace that the path of *call* names.

    Raises:
        NotFound: there is none, or it is in another resource group.
    """
    namespace = find_namespace(ports, call)
    if namespace is None:
        raise namespace_not_found(call)
    return namespace


def find_namespace(ports: ManagePorts, call: Call) -> Resource | None:
    """Return the namespace that the path of *call* names, if it is there."""
    namespace = ports.resources.get(*namespace_place(call))
    return namespace if namespace and is_at(namespace, _path(call)) else None


def namespace_not_found(call: Call) -> NotFound:
    return not_found(TYPE, call.names["namespace"], call.names["group"])


def namespace_place(call: Call) -> Place:
    return Place(Table.TOPICS, NAMESPACES, call.names["namespace"])


def topics_of(ports: ManagePorts, call: Call) -> list[Resource]:
    """Return all topics of the namespace that the path of *call* names."""
    name = call.names["namespace"].casefold()
    topics = ports.resources.list(Table.TOPICS, NAMESPACE_TOPICS)
    return [each for each in topics if each.document["namespace"].casefold() == name]


KEYS = Keys(find=namespace_resource, place=namespace_place)


def _delete_topics(ports: ManagePorts, call: Call) -> None:
    for topic in topics_of(ports, call):
        name = TopicName(topic.document["namespace"], topic.document["name"]).joined
        delete_subscriptions(ports, name)
        ports.resources.delete(Table.TOPICS, NAMESPACE_TOPICS, name)


def _write(
    ports: ManagePorts, call: Call, status: int, body: Callable[[Resource | None], object]
) -> HttpAnswer:
    path = _path(call)

    def decide(existing: Resource | None) -> Mapping[str, Any]:
        wanted = body(existing)
        if existing and not is_at(existing, path):
            raise Conflict(f"There is a namespace '{path.name}' elsewhere in this deployment.")
        document = existing.document if existing else None
        return parse_namespace(path, wanted, ports.deployment, ports.new_key, document)

    stored = write(ports, namespace_place(call), decide).document
    telemetry.info("namespace.changed", namespace=stored["name"], action="put")
    return answer(status, render_namespace(stored, call.public_url))


def _path(call: Call) -> ArmPath:
    return ArmPath(call.names["subscription"], call.names["group"], KIND, call.names["namespace"])
