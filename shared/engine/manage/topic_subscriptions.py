"""Handles event subscriptions of custom topics: nested, as extensions, and in lists of a scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared.arm.deployment_capabilities import ParentTopic
from shared.arm.system_topic_codec import DEPLOYMENT_TYPE, SOURCE_TYPE
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
from shared.engine.manage.sources import (
    ACCOUNT_SUBSCRIPTIONS,
    DEPLOYMENT_SUBSCRIPTIONS,
    sources,
)
from shared.engine.manage.subscriptions import Subscriptions, listed
from shared.engine.manage.topics import TOPICS
from shared.engine.ports import CUSTOM_TOPICS, Document, Resource, Table
from shared.events.topic import DEPLOYMENT
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

    A location or topic type in the path narrows the list. Those of system topics have a list there.
    """
    wanted_type = call.names.get("topic_type", "").casefold()
    found: list[Resource] = []
    holders: dict[str, tuple[Subscriptions, ParentTopic]] = {}  # by the id of a subscription
    for kind, form, topics in (
        (_TOPIC_TYPE_NAME, EXTENSION, _custom_topics(ports)),
        (SOURCE_TYPE, ACCOUNT_SUBSCRIPTIONS, sources(ports, ports.deployment.known_accounts)),
        (DEPLOYMENT_TYPE, DEPLOYMENT_SUBSCRIPTIONS, sources(ports, [DEPLOYMENT])),
    ):
        if wanted_type not in ("", kind.casefold()):
            continue
        for topic in topics:
            if call.covers(topic["id"]) and _is_in(topic, call.names.get("location")):
                parent = form.parent_of(topic, ports.deployment)
                its = listed(ports, parent)
                found += its
                holders.update({each.document["id"]: (form, parent) for each in its})

    def shown(stored: Document) -> Document:
        form, parent = holders[stored["id"]]
        return form.show_listed(ports, stored, parent)

    return answer_page(call, found, shown)


def _custom_topics(ports: ManagePorts) -> list[Document]:
    rows = ports.resources.list(Table.TOPICS, CUSTOM_TOPICS)
    return [each.document for each in rows if TOPICS.is_readable(each)]


def _is_in(topic: Document, location: str | None) -> bool:
    return location is None or _plain(location) == _plain(topic["location"])


def _plain(location: Any) -> str:
    """Return a location's name as ARM compares it: West Europe is westeurope."""
    return str(location).replace(" ", "").casefold()
