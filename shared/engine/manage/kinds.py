"""
Defines each kind of resource that has event subscriptions or contains what has them.

Sources of events are storage accounts and the deployment; a system topic stands for one. Event
subscriptions of a source's scope and of its system topic are stored under the source's one topic
(`SourceTopic`), where their names are unique; each belongs to the form in which it was created.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from shared.arm import document_names
from shared.arm import namespace_codec as namespaces
from shared.arm import system_topic_codec as system_topics
from shared.arm import topic_codec as topics
from shared.arm.network_rules_codec import to_networks
from shared.arm.subscription_codec import is_readable
from shared.arm.system_topic_codec import LOCATION, source_fault, source_of, topic_of
from shared.arm.tracked_resource import account_of, patched_resource, render_tracked
from shared.engine.manage.call import Call, not_found
from shared.engine.manage.tracked_resources import TrackedResources
from shared.engine.ports import (
    CUSTOM_TOPICS,
    NAMESPACE_TOPICS,
    NAMESPACES,
    SYSTEM_TOPICS,
    Document,
    Resource,
    Table,
)
from shared.errors import InvalidDocument, NotFound
from shared.events.topic import SourceTopic, Topic, TopicName


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomTopics(TrackedResources):
    """The custom topics."""

    noun = "topic"
    kind = topics.KIND
    names = document_names.TOPIC
    monitored_type = topics.TYPE
    partition = CUSTOM_TOPICS

    def parse(self, call: Call, body: object, existing: Document | None) -> Document:
        return topics.parse_topic(self.path(call), body, self.deployment, self.new_id, existing)

    def render(self, stored: Document, public_url: str) -> Document:
        return topics.render_topic(stored, public_url)

    def read(self, stored: Document) -> Topic:
        return topics.to_topic(stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespaces(TrackedResources):
    """The namespaces."""

    noun = segment = "namespace"
    kind = namespaces.KIND
    names = document_names.NAMESPACE
    monitored_type = namespaces.TYPE
    partition = NAMESPACES

    def parse(self, call: Call, body: object, existing: Document | None) -> Document:
        return namespaces.parse_namespace(self.path(call), body, self.deployment, existing)

    def render(self, stored: Document, public_url: str) -> Document:
        return namespaces.render_namespace(stored, public_url)

    def read(self, stored: Document) -> object:
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
    monitored_type = namespaces.TOPIC_TYPE
    names = document_names.NAMESPACE_TOPIC
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
        return patched_resource(stored, patch, "a topic", ())

    def render(self, stored: Document, public_url: str) -> Document:
        del public_url
        return namespaces.render_namespace_topic(stored)

    def read(self, stored: Document) -> Topic:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTopics(TrackedResources):
    """The system topics; a source has at most one."""

    noun = "system_topic"
    kind = system_topics.KIND
    names = document_names.SYSTEM_TOPIC
    monitored_type = system_topics.TYPE
    partition = SYSTEM_TOPICS
    has_keys = False

    def name_of(self, stored: Document) -> str:
        return topic_of(source_of(stored)).joined

    def topic_name(self, call: Call) -> str:
        return self.name_of(self.named(call).document)

    def parse(self, call: Call, body: object, existing: Document | None) -> Document:
        path = self.path(call)
        stored = system_topics.parse_system_topic(
            path, body, self.deployment, self.new_id, existing
        )
        source = source_of(stored)
        known = self.source(topic_of(source))
        if known and (fault := _elsewhere(known["id"], source)):
            raise InvalidDocument(fault, target="properties.source")
        for each in self._all():
            is_other = each["id"].casefold() != path.arm_id.casefold()
            if is_other and topic_of(source_of(each)) == topic_of(source):
                raise InvalidDocument(
                    f"There is an existing tracked system topic for the given source {source}. "
                    "Only one system topic is allowed per source.",
                    target="properties.source",
                )
        return stored

    def render(self, stored: Document, public_url: str) -> Document:
        del public_url
        return render_tracked(stored, self.kind, {"metricResourceId": stored["metricResourceId"]})

    def read(self, stored: Document) -> object:
        return system_topics.to_system_topic(stored)

    def clear(self, name: str) -> None:
        """Delete the event subscriptions of the source's system topic, and no others."""
        if SourceTopic.parse(name):
            marker = f"/{system_topics.KIND}/".casefold()
            self.deletion.delete_some(name, lambda each: marker in str(each.get("id")).casefold())

    def source(self, name: SourceTopic) -> Document | None:
        """Return a source that has event subscriptions or a system topic."""
        known = self._all()
        subscriptions = self.resources.list(Table.EVENT_SUBSCRIPTIONS, name.joined)
        ids = (each.document["topicId"] for each in subscriptions if is_readable(each.document))
        found = system_topics.to_source_topic(name, known, ids)
        if found is None:
            return None
        own = [each for each in known if source_of(each) == found.arm_id]
        return {
            "id": found.arm_id,
            "name": found.name,
            "location": own[0]["location"] if own else LOCATION,
            "tags": own[0]["tags"] if own else None,
        }

    def sources(self, names: Iterable[str]) -> Iterator[Document]:
        for each in names:
            if found := self.source(SourceTopic(each)):
                yield found

    def _all(self) -> Sequence[Document]:
        known = self.resources.list(Table.TOPICS, SYSTEM_TOPICS)
        return [each.document for each in known if self.is_readable(each)]


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of one ARM type: storage accounts, or the deployment; they have no rows."""

    type: str
    system_topics: SystemTopics
    monitored_type = SystemTopics.monitored_type
    partition = SYSTEM_TOPICS

    def arm_id(self, call: Call) -> str:
        group = f"/subscriptions/{call.names['subscription']}/resourceGroups/{call.names['group']}"
        return f"{group}/providers/{self.type}/{call.names['account']}"

    def find(self, call: Call) -> Resource:
        """Return the source of the path, which must be known, and under no other id."""
        asked, name = self.arm_id(call), self.topic_name(call)
        if fault := source_fault(asked, self.system_topics.deployment):
            raise InvalidDocument(fault)
        known = self.system_topics.source(topic_of(asked))
        if known is None:
            known = {"id": asked, "name": name, "location": LOCATION, "tags": None}
        if fault := _elsewhere(known["id"], asked):
            raise NotFound(fault)
        return Resource(name=name, document=known, etag="")

    def named(self, call: Call) -> Resource:
        return self.find(call)

    def location(self, call: Call) -> str:
        return str(self.find(call).document["location"])

    def name_of(self, stored: Document) -> str:
        return str(stored["name"])

    def topic_name(self, call: Call) -> str:
        return SourceTopic(call.names["account"]).joined

    def not_found(self, call: Call) -> NotFound:
        return not_found(call, self.arm_id(call))


def _elsewhere(known: str, asked: str) -> str | None:
    """Say that the source of an *asked* id is *known* under another one."""
    if known.casefold() == asked.casefold():
        return None
    return (
        f"'{account_of(asked)}' is a source as '{known}' already; '{asked}' would be another one."
    )


TopicKind = TrackedResources | Sources  # as event subscriptions and metrics use one
