"""Answers requests for event subscriptions of a scope: lists of a group, and what is held."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from shared.arm.arm_json import answer
from shared.arm.deployment_capabilities import ParentTopic
from shared.arm.not_included import RESOURCES, TOPIC_TYPES
from shared.arm.system_topic_codec import DEPLOYMENT_TYPE, SOURCE_TYPE
from shared.arm.system_topic_codec import TYPE as SYSTEM_TOPIC_TYPE
from shared.arm.topic_codec import TYPE as TOPIC_TYPE
from shared.clock import Clock
from shared.engine.manage.call import Call, answer_page
from shared.engine.manage.kinds import CustomTopics, SystemTopics
from shared.engine.manage.subscriptions import Subscriptions
from shared.engine.operations import subscription_state
from shared.engine.operations.subscription_state import held_subscriptions
from shared.engine.ports import CUSTOM_TOPICS, Document, Resource, Table
from shared.errors import InvalidDocument
from shared.events.topic import DEPLOYMENT
from shared.http import HttpAnswer

_TOPIC_TYPE_NAME = TOPIC_TYPE.replace("/", ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeLists:
    """Lists over all topics; event subscriptions of each kind are shown in one form."""

    custom_topics: CustomTopics
    system_topics: SystemTopics
    of_topics: Subscriptions
    of_accounts: Subscriptions
    of_deployment: Subscriptions
    clock: Clock

    def subscriptions(self, call: Call) -> HttpAnswer:
        """
        List the subscriptions of all topics in a subscription or resource group.

        A location or topic type in the path narrows it. Those of system topics have another list.
        """
        found: list[Resource] = []
        holders: dict[str, tuple[Subscriptions, ParentTopic]] = {}  # by the id of a subscription
        for of, topic in self._topics(call.names.get("topic_type", "").casefold()):
            if call.covers(topic["id"]) and _is_in(topic, call.names.get("location")):
                parent = of.form.parent_of(topic, of.deployment)
                its = of.listed(parent)
                found += its
                holders.update({each.document["id"]: (of, parent) for each in its})

        def shown(stored: Document) -> Document:
            of, parent = holders[stored["id"]]
            return of.show_listed(stored, parent)

        return answer_page(call, found, shown)

    def holds(self, call: Call) -> HttpAnswer:
        """Answer the subscriptions of a group that are paused, or whose endpoint is held."""
        found = held_subscriptions(self.custom_topics.resources, self.clock.now())
        value = [
            {
                "topic": subscription.topic,
                "subscription": subscription.name,
                **subscription_state.holds_document(subscription.pause, availability),
            }
            for subscription, availability, *_ in found
            if call.covers(subscription.topic_id)
        ]
        return answer(200, {"value": value})

    def _topics(self, wanted_type: str) -> Iterable[tuple[Subscriptions, Document]]:
        if wanted_type in ("", _TOPIC_TYPE_NAME.casefold()):
            for row in self.custom_topics.resources.list(Table.TOPICS, CUSTOM_TOPICS):
                if self.custom_topics.is_readable(row):
                    yield self.of_topics, row.document
        if wanted_type in ("", SOURCE_TYPE.casefold()):
            for source in self.system_topics.sources(self.system_topics.deployment.known_accounts):
                yield self.of_accounts, source
        if wanted_type in ("", DEPLOYMENT_TYPE.casefold()):
            for source in self.system_topics.sources([DEPLOYMENT]):
                yield self.of_deployment, source


def _is_in(topic: Document, location: str | None) -> bool:
    return location is None or _plain(location) == _plain(topic["location"])


def _plain(location: Any) -> str:
    """Return a location's name as ARM compares it: West Europe is westeurope."""
    return str(location).replace(" ", "").casefold()


def refuse_scope(call: Call) -> NoReturn:
    scope = call.names["scope"].split("/")
    if [each.casefold() for each in scope[-3:-1]] == SYSTEM_TOPIC_TYPE.casefold().split("/"):
        raise InvalidDocument(
            "The event subscriptions of a system topic are not an extension of it: their path is "
            f"/{call.names['scope']}/eventSubscriptions/NAME."
        )
    named = next(
        (RESOURCES[each.casefold()] for each in scope if each.casefold() in RESOURCES), TOPIC_TYPES
    )
    raise InvalidDocument(
        f"There are no event subscriptions of '/{call.names['scope']}' here: the scope must be a "
        f"topic, /subscriptions/…/resourceGroups/…/providers/{TOPIC_TYPE}/…, or a storage account, "
        "/subscriptions/…/resourceGroups/…/providers/Microsoft.Storage/storageAccounts/…."
        f" {named.sentence}"
    )
