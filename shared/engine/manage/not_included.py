"""Refuses paths of what Event Grid has and Pushgrid has not."""

from __future__ import annotations

from itertools import pairwise
from typing import NoReturn

from shared.arm.not_included import RESOURCES, TOPIC_TYPES
from shared.arm.system_topic_codec import TYPE as SYSTEM_TOPIC_TYPE
from shared.arm.topic_codec import TYPE as TOPIC_TYPE
from shared.engine.manage.call import Call, ManagePorts
from shared.errors import InvalidDocument, NotFound


def refused_path(segments: list[str]) -> NotFound:
    """Return the error about a path that no route has, with the feature that it belongs to."""
    lowered = [each.casefold() for each in segments]
    for provider in ("microsoft.eventgrid", "microsoft.insights"):
        if provider in lowered:
            below = lowered[len(lowered) - lowered[::-1].index(provider) :]
            for kind in below[::2]:
                if feature := RESOURCES.get(kind):
                    return NotFound(feature.sentence)
    providers = [after for each, after in pairwise(segments) if each.casefold() == "providers"]
    provider = next(reversed(providers), "Microsoft.EventGrid")
    return NotFound(f"No resource type of {provider} served here has this path.")


def refuse_scope(_: ManagePorts, call: Call) -> NoReturn:
    """Refuse event subscriptions of any scope that is neither a topic nor a storage account."""
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
