"""Manages custom topics, and namespaces with their topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.arm import namespace_codec as namespaces
from shared.arm import topic_codec as topics
from shared.arm.network_rules_codec import to_networks
from shared.engine.manage.call import Call
from shared.engine.manage.tracked_resources import TrackedResources
from shared.engine.ports import CUSTOM_TOPICS, NAMESPACE_TOPICS, NAMESPACES, Document, Table
from shared.events.topic import Topic, TopicName


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomTopics(TrackedResources):
    """The custom topics."""

    noun = "topic"
    kind = topics.KIND
    partition = CUSTOM_TOPICS

    def parse(self, call: Call, body: object, existing: Document | None) -> Document:
        return topics.parse_topic(self.path(call), body, self.deployment, self.new_id, existing)

    def render(self, stored: Document, public_url: str) -> Document:
        return topics.render_topic(stored, public_url)

    def check(self, stored: Document) -> Topic:
        return topics.to_topic(stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespaces(TrackedResources):
    """The namespaces."""

    noun = segment = "namespace"
    kind = namespaces.KIND
    partition = NAMESPACES

    def parse(self, call: Call, body: object, existing: Document | None) -> Document:
        return namespaces.parse_namespace(self.path(call), body, self.deployment, existing)

    def render(self, stored: Document, public_url: str) -> Document:
        return namespaces.render_namespace(stored, public_url)

    def check(self, stored: Document) -> object:
        return to_networks(stored["properties"])

    def clear(self, name: str) -> None:
        for topic in self.resources.list(Table.TOPICS, NAMESPACE_TOPICS):
            if topic.name.startswith(f"{name.lower()}."):
                self.deletion.delete_all(topic.name)
                self.resources.delete(Table.TOPICS, NAMESPACE_TOPICS, topic.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceTopics(TrackedResources):
    """The topics of namespaces."""

    noun = "topic"
    partition = NAMESPACE_TOPICS

    parent: Namespaces

    def name(self, call: Call) -> str:
        return self._name(call).joined

    def arm_id(self, call: Call) -> str:
        return f"{self.parent.arm_id(call)}/topics/{call.names['topic']}"

    def name_of(self, stored: Document) -> str:
        return TopicName(stored["namespace"], stored["name"]).joined

    def covers(self, call: Call, stored: Document) -> bool:
        return _is_in(call.names["namespace"], stored)

    def parse(self, call: Call, body: object, existing: Document | None) -> Document:
        namespace, name = self.parent.named(call).document, self._name(call)
        return namespaces.parse_namespace_topic(name, body, namespace, existing)

    def patched(self, stored: Document, patch: object) -> object:
        return namespaces.patched_namespace_topic(stored, patch)

    def render(self, stored: Document, public_url: str) -> Document:
        del public_url
        return namespaces.render_namespace_topic(stored)

    def check(self, stored: Document) -> Topic:
        """Read a stored topic without its namespace's keys and networks, which publishing needs."""
        return namespaces.to_namespace_topic(stored, {"keys": {}, "properties": {}})

    def of(self, namespace: str) -> Sequence[Document]:
        """Return all topics of a namespace that can be read."""
        rows = filter(self.is_readable, self.resources.list(Table.TOPICS, NAMESPACE_TOPICS))
        return [each.document for each in rows if _is_in(namespace, each.document)]

    def _name(self, call: Call) -> TopicName:
        return TopicName(call.names["namespace"], call.names["topic"])


def _is_in(namespace: str, topic: Document) -> bool:
    return bool(topic["namespace"].casefold() == namespace.casefold())
