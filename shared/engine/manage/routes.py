"""Which paths the management API has, and what answers each verb on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.keys import Keys
from shared.engine.manage.metrics import subscription_metrics, topic_metrics
from shared.engine.manage.namespace_topics import KEYS as NAMESPACE_TOPIC_KEYS
from shared.engine.manage.namespace_topics import (
    SUBSCRIPTIONS,
    delete_namespace_topic,
    get_namespace_topic,
    list_namespace_topics,
    patch_namespace_topic,
    put_namespace_topic,
)
from shared.engine.manage.namespaces import KEYS as NAMESPACE_KEYS
from shared.engine.manage.namespaces import (
    delete_namespace,
    get_namespace,
    list_namespaces,
    patch_namespace,
    put_namespace,
)
from shared.engine.manage.subscriptions import Subscriptions
from shared.engine.manage.topic_subscriptions import EXTENSION, NESTED, list_across, refuse_scope
from shared.engine.manage.topics import KEYS as TOPIC_KEYS
from shared.engine.manage.topics import (
    delete_topic,
    get_topic,
    list_topics,
    patch_topic,
    put_topic,
)
from shared.errors import NotFound
from shared.http import HttpAnswer

Handler = Callable[[ManagePorts, Call], HttpAnswer]


class Route(NamedTuple):
    """
    A path whose segments in braces have names, and what answers each verb on it.

    A first segment ``{*scope}`` stands for one or more segments.
    """

    segments: tuple[str, ...]
    handlers: Mapping[str, Handler]


def _route(path: str, **handlers: Handler) -> Route:
    return Route(tuple(path.split("/")), handlers)


def _keys(path: str, keys: Keys) -> tuple[Route, ...]:
    return (
        _route(f"{path}/listKeys", POST=keys.list),
        _route(f"{path}/regenerateKey", POST=keys.regenerate),
    )


def _of_topic(path: str, form: Subscriptions) -> tuple[Route, ...]:
    """Return the routes of event subscriptions in one form."""
    return (
        _route(path, GET=form.list),
        _route(
            f"{path}/{{name}}", GET=form.get, PUT=form.put, PATCH=form.patch, DELETE=form.delete
        ),
        _route(f"{path}/{{name}}/getFullUrl", POST=form.full_url),
        _route(f"{path}/{{name}}/getDeliveryAttributes", POST=form.delivery_attributes),
    )


def _refused(path: str) -> tuple[Route, ...]:
    every = dict.fromkeys(("GET", "PUT", "PATCH", "DELETE", "POST"), refuse_scope)
    return tuple(_route(path + rest, **every) for rest in ("", "/{name}", "/{name}/{action}"))


def _across(scope: str) -> tuple[Route, ...]:
    """Return the routes of the lists over all topics of a scope."""
    return tuple(
        _route(f"{scope}/{_PROVIDER}/{narrowed}eventSubscriptions", GET=list_across)
        for narrowed in (
            "",
            "locations/{location}/",
            "topicTypes/{topic_type}/",
            "locations/{location}/topicTypes/{topic_type}/",
        )
    )


_METRICS = "providers/Microsoft.Insights/metrics"
_PROVIDER = "providers/Microsoft.EventGrid"
_SUBSCRIPTION = "subscriptions/{subscription}"
_GROUP = f"{_SUBSCRIPTION}/resourceGroups/{{group}}"
_TOPIC = f"{_GROUP}/{_PROVIDER}/topics/{{topic}}"
_NAMESPACE = f"{_GROUP}/{_PROVIDER}/namespaces/{{namespace}}"
_NAMESPACE_TOPIC = f"{_NAMESPACE}/topics/{{topic}}"

# The first that fits is taken.
ROUTES = (
    _route(f"{_SUBSCRIPTION}/{_PROVIDER}/topics", GET=list_topics),
    _route(f"{_GROUP}/{_PROVIDER}/topics", GET=list_topics),
    _route(_TOPIC, GET=get_topic, PUT=put_topic, PATCH=patch_topic, DELETE=delete_topic),
    *_keys(_TOPIC, TOPIC_KEYS),
    _route(f"{_TOPIC}/{_METRICS}", GET=topic_metrics),
    _route(f"{_TOPIC}/eventSubscriptions/{{name}}/{_METRICS}", GET=subscription_metrics),
    _route(
        f"{_TOPIC}/{_PROVIDER}/eventSubscriptions/{{name}}/{_METRICS}", GET=subscription_metrics
    ),
    *_of_topic(f"{_TOPIC}/eventSubscriptions", NESTED),
    *_of_topic(f"{_TOPIC}/{_PROVIDER}/eventSubscriptions", EXTENSION),
    _route(f"{_SUBSCRIPTION}/{_PROVIDER}/namespaces", GET=list_namespaces),
    _route(f"{_GROUP}/{_PROVIDER}/namespaces", GET=list_namespaces),
    _route(
        _NAMESPACE,
        GET=get_namespace,
        PUT=put_namespace,
        PATCH=patch_namespace,
        DELETE=delete_namespace,
    ),
    *_keys(_NAMESPACE, NAMESPACE_KEYS),
    _route(f"{_NAMESPACE}/topics", GET=list_namespace_topics),
    _route(
        _NAMESPACE_TOPIC,
        GET=get_namespace_topic,
        PUT=put_namespace_topic,
        PATCH=patch_namespace_topic,
        DELETE=delete_namespace_topic,
    ),
    *_keys(_NAMESPACE_TOPIC, NAMESPACE_TOPIC_KEYS),
    *_of_topic(f"{_NAMESPACE_TOPIC}/eventSubscriptions", SUBSCRIPTIONS),
    *_across(_SUBSCRIPTION),
    *_across(_GROUP),
    *_refused(f"{{*scope}}/{_PROVIDER}/eventSubscriptions"),
)


def find(path: str) -> tuple[Route, Mapping[str, str]]:
    """
    Return the route that *path* takes, and what its names stand for.

    Raises:
        NotFound: there is none.
    """
    # Split before decoding: an encoded slash belongs to its segment.
    segments = [unquote(segment) for segment in path.strip("/").split("/")]
    for route in ROUTES:
        names = _match(route.segments, segments)
        if names is not None:
            return route, names
    raise NotFound("No resource type of Microsoft.EventGrid served here has this path.")


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
