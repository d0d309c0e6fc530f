"""Finds the route of a path; names what Event Grid has there and Pushgrid has not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple, NoReturn
from urllib.parse import unquote

from shared.arm.not_included import RESOURCES, TOPIC_TYPES
from shared.arm.system_topic_codec import TYPE as SYSTEM_TOPIC_TYPE
from shared.arm.topic_codec import TYPE as TOPIC_TYPE
from shared.engine.manage.call import Call
from shared.errors import InvalidDocument, NotFound
from shared.http import HttpAnswer

Handler = Callable[[Call], HttpAnswer]
_NO_PARENT = re.compile(r"(/providers/Microsoft\.EventGrid)//", re.IGNORECASE)


class Route(NamedTuple):
    """
    A path and the handler of each verb on it.

    Segments in braces match any segment and name it; a first ``{*scope}`` matches one or more.
    """

    segments: tuple[str, ...]
    handlers: Mapping[str, Handler]
    has_payloads: bool = False  # its answers have events as published, which readers don't see

    def is_open_to_readers(self, method: str) -> bool:
        """Tell whether a reader may send *method*: docs/security.md has the table."""
        return method == "GET" and not self.has_payloads


def route(path: str, *, has_payloads: bool = False, **handlers: Handler) -> Route:
    """Return the route of *path*, with the handler of each verb."""
    return Route(tuple(path.split("/")), handlers, has_payloads)


def find(routes: Iterable[Route], path: str) -> tuple[Route, Mapping[str, str]]:
    """
    Return the first of *routes* that fits *path*, and the values of its named segments.

    Raises:
        NotFound: no route matches.
    """
    # `az resource` writes the path of a resource without a parent with an empty segment.
    path = _NO_PARENT.sub(r"\1/", path.strip("/"))
    # Split before decoding: an encoded slash belongs to its segment.
    segments = [unquote(segment) for segment in path.split("/")]
    for route in routes:
        names = _match(route.segments, segments)
        if names is not None:
            return route, names
    raise _unknown(segments)


def _match(wanted: tuple[str, ...], segments: list[str]) -> Mapping[str, str] | None:
    names = {}
    if wanted[0] == "{*scope}":
        scope, segments = segments[: 1 - len(wanted)], segments[1 - len(wanted) :]
        if not all(scope) or not scope:
            return None
        names, wanted = {"scope": "/".join(scope)}, wanted[1:]
    if len(wanted) != len(segments):
        return None
    for pattern, segment in zip(wanted, segments, strict=True):
        if pattern.startswith("{") and segment:
            names[pattern[1:-1]] = segment
        elif pattern.casefold() != segment.casefold():
            return None
    return names


def _unknown(segments: list[str]) -> NotFound:
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


def refuse_scope(call: Call) -> NoReturn:
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
