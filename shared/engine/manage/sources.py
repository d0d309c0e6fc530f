"""
Manages sources of events, which are storage accounts and the deployment: system topics, and event
subscriptions of a source's scope.

Both forms of event subscriptions are stored under the source's one topic (`SourceTopic`), where
their names are unique; each belongs to the form in which it was created.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from shared.arm.storage_accounts import account_of
from shared.arm.subscription_codec import is_readable
from shared.arm.system_topic_codec import (
    KIND,
    LOCATION,
    parse_system_topic,
    render_system_topic,
    source_fault,
    source_of,
    to_source_parent,
    to_source_topic,
    to_system_parent_topic,
    to_system_topic,
    topic_of,
)
from shared.arm.topic_subscription_codec import (
    parse_subscription,
    patched_subscription,
    render_of_source,
    render_of_system_topic,
)
from shared.arm.tracked_resource import ArmPath, patched_resource
from shared.engine.manage.call import Call, ManagePorts, not_found
from shared.engine.manage.deletion import delete_subscriptions
from shared.engine.manage.resources import Resources
from shared.engine.manage.subscriptions import Subscriptions
from shared.engine.ports import SYSTEM_TOPICS as PARTITION
from shared.engine.ports import Document, Resource, Table
from shared.errors import InvalidDocument, NotFound
from shared.events.topic import SourceTopic


@dataclass(frozen=True, slots=True)
class _Sources:
    """Sources of one ARM type: storage accounts, or the deployment; they have no rows."""

    type: str
    partition = PARTITION
    parent = None

    def arm_id(self, call: Call) -> str:
        group = f"/subscriptions/{call.names['subscription']}/resourceGroups/{call.names['group']}"
        return f"{group}/providers/{self.type}/{call.names['account']}"

    def find(self, ports: ManagePorts, call: Call) -> Resource:
        """
        Return the source of the path.

        Raises:
            InvalidDocument: the deployment does not know it.
            NotFound: its event subscriptions are below another id.
        """
        asked, name = self.arm_id(call), self.topic_name(ports, call)
        if fault := source_fault(asked, ports.deployment):
            raise InvalidDocument(fault)
        known = _source(ports, topic_of(asked))
        if known is None:
            known = {"id": asked, "name": name, "location": LOCATION, "tags": None}
        if fault := _elsewhere(known["id"], asked):
            raise NotFound(fault)
        return Resource(name=name, document=known, etag="")

    named = find

    def name_of(self, stored: Document) -> str:
        return str(stored["name"])

    def topic_name(self, ports: ManagePorts, call: Call) -> str:
        del ports
        return SourceTopic(call.names["account"]).joined

    def not_found(self, call: Call) -> NotFound:
        return not_found(call, self.arm_id(call))


class _SystemTopics(Resources):
    """The system topics; a source has at most one."""

    def topic_name(self, ports: ManagePorts, call: Call) -> str:
        return self.name_of(self.named(ports, call).document)


def _source(ports: ManagePorts, name: SourceTopic) -> Document | None:
    """Return a source that has event subscriptions or a system topic."""
    system_topics = [each.document for each in _system_topics(ports)]
    subscriptions = ports.resources.list(Table.EVENT_SUBSCRIPTIONS, name.joined)
    ids = (each.document["topicId"] for each in subscriptions if is_readable(each.document))
    found = to_source_topic(name, system_topics, ids)
    if found is None:
        return None
    own = [each for each in system_topics if source_of(each) == found.arm_id]
    return {
        "id": found.arm_id,
        "name": found.name,
        "location": own[0]["location"] if own else LOCATION,
        "tags": own[0]["tags"] if own else None,
    }


def sources(ports: ManagePorts, names: Iterable[str]) -> Iterator[Document]:
    """Yield the sources of these *names* that have event subscriptions or a system topic."""
    for each in names:
        if found := _source(ports, SourceTopic(each)):
            yield found


def _system_topics(ports: ManagePorts) -> Sequence[Resource]:
    known = ports.resources.list(Table.TOPICS, PARTITION)
    return [each for each in known if SYSTEM_TOPICS.is_readable(each)]


def _elsewhere(known: str, asked: str) -> str | None:
    """Say that the source of an *asked* id is *known* under another one."""
    if known.casefold() == asked.casefold():
        return None
    return (
        f"'{account_of(asked)}' is a source as '{known}' already; '{asked}' would be another one."
    )


def _path(call: Call) -> ArmPath:
    return ArmPath(call.names["subscription"], call.names["group"], KIND, call.names["topic"])


def _parse(ports: ManagePorts, call: Call, body: object, existing: Document | None) -> Document:
    path = _path(call)
    stored = parse_system_topic(path, body, ports.deployment, ports.new_id, existing)
    source = source_of(stored)
    known = _source(ports, topic_of(source))
    if known and (fault := _elsewhere(known["id"], source)):
        raise InvalidDocument(fault, target="properties.source")
    for each in _system_topics(ports):
        is_other = each.document["id"].casefold() != path.arm_id.casefold()
        if is_other and topic_of(source_of(each.document)) == topic_of(source):
            raise InvalidDocument(
                f"There is an existing tracked system topic for the given source {source}. "
                "Only one system topic is allowed per source.",
                target="properties.source",
            )
    return stored


def _clear(ports: ManagePorts, topic: str) -> None:
    """Delete the event subscriptions of the source's system topic, and no others."""
    if SourceTopic.parse(topic):
        marker = f"/{KIND}/".casefold()
        delete_subscriptions(ports, topic, lambda each: marker in str(each.get("id")).casefold())


ACCOUNTS = _Sources("Microsoft.Storage/storageAccounts")
THIS_DEPLOYMENT = _Sources("Pushgrid/deployments")
SYSTEM_TOPICS = _SystemTopics(
    noun="system_topic",
    partition=PARTITION,
    name=lambda call: call.names["topic"],
    arm_id=lambda call: _path(call).arm_id,
    name_of=lambda stored: topic_of(source_of(stored)).joined,
    covers=lambda call, stored: call.covers(stored["id"]),
    parse=_parse,
    patched=lambda stored, patch: patched_resource(stored, patch, "a system topic"),
    render=render_system_topic,
    check=to_system_topic,
    clear=_clear,
    has_keys=False,
)

ACCOUNT_SUBSCRIPTIONS = Subscriptions(
    topics=ACCOUNTS,
    parent_of=to_source_parent,
    parse=parse_subscription,
    patched=patched_subscription,
    render=lambda stored, topic: render_of_source(stored, topic.limits),
    patch_status=201,
)
DEPLOYMENT_SUBSCRIPTIONS = replace(ACCOUNT_SUBSCRIPTIONS, topics=THIS_DEPLOYMENT)
SYSTEM_TOPIC_SUBSCRIPTIONS = Subscriptions(
    topics=SYSTEM_TOPICS,
    parent_of=to_system_parent_topic,
    parse=parse_subscription,
    patched=patched_subscription,
    render=lambda stored, topic: render_of_system_topic(stored, topic.limits),
    patch_status=201,
)
