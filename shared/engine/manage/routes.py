"""Routes the paths and verbs of the management API to their handlers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from shared.arm.topic_codec import to_topic
from shared.engine.manage import arm_stubs, metrics_api, namespaces, sources, topics
from shared.engine.manage.attempts_api import attempts_of, failures_of
from shared.engine.manage.call import Call, ManagePorts
from shared.engine.manage.dead_letters_api import dead_letter_blobs_of, dead_letter_records_of
from shared.engine.manage.endpoint_tests_api import endpoint_tests_of
from shared.engine.manage.forecast_api import forecast_of
from shared.engine.manage.hold_actions import hold_actions, list_holds
from shared.engine.manage.matches_api import matches_of
from shared.engine.manage.metrics_api import MonitoredResource
from shared.engine.manage.not_included import refuse_scope, refused_path
from shared.engine.manage.replays_api import (
    cancel_replay,
    get_replay,
    list_replays,
    start_replay,
)
from shared.engine.manage.resources import Resources
from shared.engine.manage.secret_rotation import secret_rotation_of
from shared.engine.manage.subscriptions import Subscriptions
from shared.engine.manage.topic_subscriptions import EXTENSION, NESTED, list_in_scope
from shared.http import HttpAnswer

Handler = Callable[[ManagePorts, Call], HttpAnswer]


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


def _route(path: str, **handlers: Handler) -> Route:
    return Route(tuple(path.split("/")), handlers)


def _resource_routes(path: str, kind: Resources) -> tuple[Route, ...]:
    """Return the routes of one kind of resource; *path* is that of a single one."""
    routes = (
        _route(path.rpartition("/")[0], GET=kind.list),
        _route(path, GET=kind.get, PUT=kind.put, PATCH=kind.patch, DELETE=kind.delete),
        _route(f"{path}/whatIf", POST=kind.what_if),
    )
    if not kind.has_keys:
        return routes
    return (
        *routes,
        _route(f"{path}/listKeys", POST=kind.list_keys),
        _route(f"{path}/regenerateKey", POST=kind.regenerate_key),
    )


def _subscription_routes(path: str, form: Subscriptions) -> tuple[Route, ...]:
    """Return the routes of event subscriptions in one form."""
    return (
        _route(path, GET=form.list),
        _route(
            f"{path}/{{name}}", GET=form.get, PUT=form.put, PATCH=form.patch, DELETE=form.delete
        ),
        _route(f"{path}/{{name}}/attempts", GET=attempts_of(form)),
        _route(f"{path}/{{name}}/failures", GET=failures_of(form)),
        _route(f"{path}/{{name}}/forecast", GET=forecast_of(form)),
        _route(f"{path}/{{name}}/test", POST=endpoint_tests_of(form)),
        *(
            _route(f"{path}/{{name}}/{action}", POST=handler)
            for action, handler in hold_actions(form).items()
        ),
        _route(f"{path}/{{name}}/deadLetters", GET=dead_letter_blobs_of(form)),
        _route(f"{path}/{{name}}/deadLetters/records", GET=dead_letter_records_of(form))._replace(
            has_payloads=True
        ),
        _route(f"{path}/{{name}}/getFullUrl", POST=form.full_url),
        _route(f"{path}/{{name}}/getDeliveryAttributes", POST=form.delivery_attributes),
        _route(f"{path}/{{name}}/rotateSecret", POST=secret_rotation_of(form)),
        _route(f"{path}/{{name}}/whatIf", POST=form.what_if),
    )


def _metrics_routes(path: str, monitored: MonitoredResource) -> tuple[Route, ...]:
    return (
        _route(f"{path}/{_INSIGHTS}/metrics", GET=monitored.list_metrics),
        _route(f"{path}/{_INSIGHTS}/metricDefinitions", GET=monitored.list_definitions),
    )


def _refused_routes(path: str) -> tuple[Route, ...]:
    every = dict.fromkeys(("GET", "PUT", "PATCH", "DELETE", "POST"), refuse_scope)
    return tuple(_route(path + tail, **every) for tail in ("", "/{name}", "/{name}/{action}"))


def _list_routes(scope: str) -> tuple[Route, ...]:
    """Return the routes of the lists over all topics of a scope."""
    return tuple(
        _route(f"{scope}/{_PROVIDER}/{narrowed}eventSubscriptions", GET=list_in_scope)
        for narrowed in (
            "",
            "locations/{location}/",
            "topicTypes/{topic_type}/",
            "locations/{location}/topicTypes/{topic_type}/",
        )
    )


_NO_PARENT = re.compile(r"(/providers/Microsoft\.EventGrid)//", re.IGNORECASE)
_INSIGHTS = "providers/Microsoft.Insights"
_PROVIDER = "providers/Microsoft.EventGrid"
_SUBSCRIPTION = "subscriptions/{subscription}"
_GROUP = f"{_SUBSCRIPTION}/resourceGroups/{{group}}"
_TOPIC = f"{_GROUP}/{_PROVIDER}/topics/{{topic}}"
_NAMESPACE = f"{_GROUP}/{_PROVIDER}/namespaces/{{namespace}}"
_NAMESPACE_TOPIC = f"{_NAMESPACE}/topics/{{topic}}"

_SYSTEM_TOPIC = f"{_GROUP}/{_PROVIDER}/systemTopics/{{topic}}"
_STORAGE = f"{_GROUP}/providers/Microsoft.Storage/storageAccounts"
_ACCOUNT = f"{_STORAGE}/{{account}}"
_DEPLOYMENT = f"{_GROUP}/providers/Pushgrid/deployments/{{account}}"

# The first match wins.
ROUTES = (
    _route("subscriptions", GET=arm_stubs.list_subscriptions),
    _route(_SUBSCRIPTION, GET=arm_stubs.get_subscription),
    _route(_GROUP, GET=arm_stubs.get_group, PUT=arm_stubs.get_group),
    _route(_STORAGE, GET=arm_stubs.list_storage_accounts),
    _route(_ACCOUNT, GET=arm_stubs.get_storage_account),
    _route(f"{_PROVIDER}/topicTypes", GET=arm_stubs.list_topic_types),
    _route(f"{_PROVIDER}/topicTypes/{{topic_type}}", GET=arm_stubs.get_topic_type),
    _route(f"{_PROVIDER}/topicTypes/{{topic_type}}/eventTypes", GET=arm_stubs.list_event_types),
    _route(f"{_ACCOUNT}/{_PROVIDER}/eventTypes", GET=arm_stubs.list_account_event_types),
    _route(f"{_DEPLOYMENT}/{_PROVIDER}/eventTypes", GET=arm_stubs.list_deployment_event_types),
    _route(f"{_SUBSCRIPTION}/{_PROVIDER}", GET=arm_stubs.get_provider),
    _route(f"{_SUBSCRIPTION}/{_PROVIDER}/register", POST=arm_stubs.get_provider),
    _route(f"{_SUBSCRIPTION}/{_PROVIDER}/topics", GET=topics.TOPICS.list),
    *_resource_routes(_TOPIC, topics.TOPICS),
    _route(f"{_TOPIC}/matches", POST=matches_of(NESTED, to_topic)),
    *_metrics_routes(_TOPIC, metrics_api.TOPIC),
    *_metrics_routes(f"{_TOPIC}/eventSubscriptions/{{name}}", metrics_api.SUBSCRIPTION),
    *_metrics_routes(f"{_TOPIC}/{_PROVIDER}/eventSubscriptions/{{name}}", metrics_api.SUBSCRIPTION),
    *_subscription_routes(f"{_TOPIC}/eventSubscriptions", NESTED),
    *_subscription_routes(f"{_TOPIC}/{_PROVIDER}/eventSubscriptions", EXTENSION),
    _route(f"{_SUBSCRIPTION}/{_PROVIDER}/namespaces", GET=namespaces.NAMESPACES.list),
    *_resource_routes(_NAMESPACE, namespaces.NAMESPACES),
    *_metrics_routes(_NAMESPACE, metrics_api.NAMESPACE),
    *_resource_routes(_NAMESPACE_TOPIC, namespaces.TOPICS),
    _route(
        f"{_NAMESPACE_TOPIC}/matches",
        POST=matches_of(namespaces.SUBSCRIPTIONS, namespaces.to_unpublished_topic),
    ),
    *_metrics_routes(_NAMESPACE_TOPIC, metrics_api.NAMESPACE_TOPIC),
    *_metrics_routes(
        f"{_NAMESPACE_TOPIC}/eventSubscriptions/{{name}}", metrics_api.NAMESPACE_SUBSCRIPTION
    ),
    *_subscription_routes(f"{_NAMESPACE_TOPIC}/eventSubscriptions", namespaces.SUBSCRIPTIONS),
    _route(f"{_SUBSCRIPTION}/{_PROVIDER}/systemTopics", GET=sources.SYSTEM_TOPICS.list),
    *_resource_routes(_SYSTEM_TOPIC, sources.SYSTEM_TOPICS),
    *_metrics_routes(_SYSTEM_TOPIC, metrics_api.SYSTEM_TOPIC),
    *_metrics_routes(
        f"{_SYSTEM_TOPIC}/eventSubscriptions/{{name}}", metrics_api.SYSTEM_TOPIC_SUBSCRIPTION
    ),
    *_subscription_routes(
        f"{_SYSTEM_TOPIC}/eventSubscriptions", sources.SYSTEM_TOPIC_SUBSCRIPTIONS
    ),
    *_metrics_routes(_ACCOUNT, metrics_api.ACCOUNT),
    *_metrics_routes(
        f"{_ACCOUNT}/{_PROVIDER}/eventSubscriptions/{{name}}", metrics_api.ACCOUNT_SUBSCRIPTION
    ),
    *_subscription_routes(
        f"{_ACCOUNT}/{_PROVIDER}/eventSubscriptions", sources.ACCOUNT_SUBSCRIPTIONS
    ),
    *_metrics_routes(_DEPLOYMENT, metrics_api.DEPLOYMENT),
    *_metrics_routes(
        f"{_DEPLOYMENT}/{_PROVIDER}/eventSubscriptions/{{name}}",
        metrics_api.DEPLOYMENT_SUBSCRIPTION,
    ),
    *_subscription_routes(
        f"{_DEPLOYMENT}/{_PROVIDER}/eventSubscriptions", sources.DEPLOYMENT_SUBSCRIPTIONS
    ),
    _route(f"{_GROUP}/{_PROVIDER}/holds", GET=list_holds),
    _route(f"{_GROUP}/{_PROVIDER}/replays", GET=list_replays, POST=start_replay),
    _route(f"{_GROUP}/{_PROVIDER}/replays/{{replay}}", GET=get_replay),
    _route(f"{_GROUP}/{_PROVIDER}/replays/{{replay}}/cancel", POST=cancel_replay),
    *_list_routes(_SUBSCRIPTION),
    *_list_routes(_GROUP),
    *_refused_routes(f"{{*scope}}/{_PROVIDER}/eventSubscriptions"),
)


def find(path: str) -> tuple[Route, Mapping[str, str]]:
    """
    Return the route of *path* and the values of its named segments.

    Raises:
        NotFound: no route matches.
    """
    # `az resource` writes the path of a resource without a parent with an empty segment.
    path = _NO_PARENT.sub(r"\1/", path.strip("/"))
    # Split before decoding: an encoded slash belongs to its segment.
    segments = [unquote(segment) for segment in path.split("/")]
    for route in ROUTES:
        names = _match(route.segments, segments)
        if names is not None:
            return route, names
    raise refused_path(segments)


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
