"""Handles event subscriptions of custom topics: nested, as extensions, and in lists of a scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared.arm.deployment import ParentTopic
from shared.arm.topic_codec import TYPE as TOPIC_TYPE
from shared.arm.topic_codec import to_parent_topic
from shared.arm.topic_subscription_codec import (
    parse_subscription,
    patched_subscription,
    render_extension,
    render_subscription,
)
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.page import answer_page
from shared.engine.manage.subscriptions import Subscriptions, listed
from shared.engine.manage.topics import TOPICS
from shared.engine.ports import CUSTOM_TOPICS, Document, Resource, Table
from shared.errors import InvalidDocument
from shared.http import HttpAnswer

_TOPIC_TYPE_NAME = TOPIC_TYPE.replace("/", ".")


def _form(render: Callable[..., Document]) -> Subscriptions:
    return Subscriptions(
        topics=TOPICS,
        parent_of=to_parent_topic,
        parse=parse_subscription,
        patched=patched_subscription,
        render=lambda stored, topic: render(stored, topic.limits),
        patch_status=201,
    )


NESTED = _form(render_subscription)
EXTENSION = _form(render_extension)


def list_in_scope(ports: ManagePorts, call: Call) -> HttpAnswer:
    """
    List the subscriptions of all topics in a subscription or resource group.

    A location or topic type in the path narrows the list.
    """
    wanted_type = call.names.get("topic_type", _TOPIC_TYPE_NAME)
    found: list[Resource] = []
    parents: dict[str, ParentTopic] = {}  # by the id of a subscription
    for topic in ports.resources.list(Table.TOPICS, CUSTOM_TOPICS):
        if (
            TOPICS.is_readable(topic)
            and wanted_type.casefold() == _TOPIC_TYPE_NAME.casefold()
            and call.covers(topic.document["id"])
            and _is_in(topic, call.names.get("location"))
        ):
            parent = to_parent_topic(topic.document, ports.deployment)
            its = listed(ports, parent)
            found += its
            parents.update({each.document["id"]: parent for each in its})

    def shown(stored: Document) -> Document:
        return EXTENSION.show_listed(ports, stored, parents[stored["id"]])

    return answer_page(call, found, shown)


def refuse_scope(_: ManagePorts, call: Call) -> HttpAnswer:
    """Refuse event subscriptions of any scope that is not a topic."""
    raise InvalidDocument(
        f"There are no event subscriptions of '/{call.names['scope']}' here: the scope must be a "
        f"topic, /subscriptions/…/resourceGroups/…/providers/{TOPIC_TYPE}/…."
    )


def _is_in(topic: Resource, location: str | None) -> bool:
    return location is None or _plain(location) == _plain(topic.document["location"])


def _plain(location: Any) -> str:
    """Return a location's name as ARM compares it: West Europe is westeurope."""
    return str(location).replace(" ", "").casefold()
