"""Answers metrics requests for topics, namespaces and event subscriptions like Azure Monitor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from shared.arm.arm_json import answer
from shared.arm.namespace_codec import TOPIC_TYPE as NAMESPACE_TOPIC_TYPE
from shared.arm.namespace_codec import TYPE as NAMESPACE_TYPE
from shared.arm.namespace_subscription_codec import TYPE as NAMESPACE_SUBSCRIPTION_TYPE
from shared.arm.system_topic_codec import TYPE as SYSTEM_TOPIC_TYPE
from shared.arm.topic_codec import TYPE as TOPIC_TYPE
from shared.arm.topic_subscription_codec import EXTENSION_TYPE, SYSTEM_TYPE
from shared.engine.manage import namespaces, sources, topics
from shared.engine.manage.call import Call, ManagePorts, not_found
from shared.engine.manage.resources import Parents
from shared.engine.operations import metric_names
from shared.engine.operations.metric_names import (
    SUBSCRIPTION_DIMENSION,
    TOPIC_DIMENSION,
    MetricDefinition,
)
from shared.engine.operations.metrics_answer import (
    SeriesCounts,
    aggregate,
    render_definition,
    render_metric,
)
from shared.engine.operations.metrics_query import MetricsQuery, parse_query, timestamp
from shared.engine.ports import Document, Table
from shared.engine.timers.housekeeping import COUNTS_KEPT_FOR
from shared.http import HttpAnswer
from shared.metrics import Counts


class MonitoredTopic(NamedTuple):
    """A topic: its name within its namespace, and the key of its counts."""

    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoredResource:
    """One kind of resource with metrics."""

    type: str
    definitions: Sequence[MetricDefinition]
    resources: Parents  # finds the topic or namespace of a path

    def list_metrics(self, ports: ManagePorts, call: Call) -> HttpAnswer:
        """Answer metric values. Source: Azure Monitor, Metrics - List (2023-10-01)."""
        query = parse_query(call.query, ports.clock.now(), self.definitions)
        found = self._found(ports, call)
        counted = aggregate(query, self._sources(ports, call, query, self._topics(ports, found)))
        resource = _resource(call)
        value = [render_metric(resource, query, each, counted[each.name]) for each in query.metrics]
        return answer(
            200,
            {
                "cost": 0,
                "timespan": f"{timestamp(query.since)}/{timestamp(query.until)}",
                "interval": query.interval_name,
                "namespace": self.type,
                "resourceregion": self._region(ports, call),
                "value": value,
            },
        )

    def list_definitions(self, ports: ManagePorts, call: Call) -> HttpAnswer:
        """Answer the available metrics. Source: Metric Definitions - List (2023-10-01)."""
        self._found(ports, call)
        resource = _resource(call)
        return answer(
            200, {"value": [render_definition(resource, self.type, s) for s in self.definitions]}
        )

    def _found(self, ports: ManagePorts, call: Call) -> Document:
        """
        Return the topic or namespace that a path names.

        Raises:
            NotFound: it does not exist, or the subscription in the path does not.
        """
        found = self.resources.named(ports, call).document
        name = call.names.get("name")
        if name is not None:
            (topic,) = self._topics(ports, found)
            if ports.resources.get(Table.EVENT_SUBSCRIPTIONS, topic.key, name) is None:
                raise not_found(call, f"{found['id']}/eventSubscriptions/{name}")
        return found

    def _topics(self, ports: ManagePorts, found: Document) -> Sequence[MonitoredTopic]:
        """Return the topics whose counts belong to *found*: itself, or all of a namespace."""
        kind: Parents = self.resources
        documents = [found]
        if kind is namespaces.NAMESPACES:
            kind, documents = namespaces.TOPICS, [*namespaces.topics_of(ports, found["name"])]
        return [MonitoredTopic(each["name"], kind.name_of(each)) for each in documents]

    def _region(self, ports: ManagePorts, call: Call) -> str:
        """Return a resource's location; a namespace topic has its namespace's."""
        return str(
            (self.resources.parent or self.resources).named(ports, call).document["location"]
        )

    def _sources(
        self, ports: ManagePorts, call: Call, query: MetricsQuery, counted: Sequence[MonitoredTopic]
    ) -> Iterator[SeriesCounts]:
        """Read only what the query needs: a topic's own counts include its subscriptions'."""
        filters = {each.dimension: each for each in query.filters}
        for topic in counted:
            if TOPIC_DIMENSION in filters and not filters[TOPIC_DIMENSION].accepts(topic.name):
                continue
            names = [call.names.get("name", "")]
            if SUBSCRIPTION_DIMENSION in filters:
                found = ports.resources.list(Table.EVENT_SUBSCRIPTIONS, topic.key)
                names = [str(each.document.get("name", each.name)) for each in found]
                names = [name for name in names if filters[SUBSCRIPTION_DIMENSION].accepts(name)]
            for name in names:
                values = {TOPIC_DIMENSION: topic.name, SUBSCRIPTION_DIMENSION: name}
                yield SeriesCounts(values, _minutes(ports, query, topic.key, name))


def _minutes(
    ports: ManagePorts, query: MetricsQuery, topic: str, name: str
) -> Iterator[tuple[datetime, Counts]]:
    """Read minutes within the retention only: each day is a table."""
    now = ports.clock.now()
    kept_since = now - COUNTS_KEPT_FOR - timedelta(days=1)
    since, until = max(query.since, kept_since), min(query.until, now)
    return ports.counts.minutes(topic, name, since, until) if since < until else iter(())


def _resource(call: Call) -> str:
    """Return the resource of the path: all but ``/providers/…/…`` at its end."""
    return call.path.rstrip("/").rsplit("/", 3)[0]


TOPIC = MonitoredResource(
    type=TOPIC_TYPE, definitions=metric_names.TOPIC_METRICS, resources=topics.TOPICS
)
SUBSCRIPTION = MonitoredResource(
    type=EXTENSION_TYPE, definitions=metric_names.SUBSCRIPTION_METRICS, resources=topics.TOPICS
)
NAMESPACE = MonitoredResource(
    type=NAMESPACE_TYPE,
    definitions=metric_names.NAMESPACE_METRICS,
    resources=namespaces.NAMESPACES,
)
NAMESPACE_TOPIC = MonitoredResource(
    type=NAMESPACE_TOPIC_TYPE,
    definitions=metric_names.NAMESPACE_TOPIC_METRICS,
    resources=namespaces.TOPICS,
)
NAMESPACE_SUBSCRIPTION = MonitoredResource(
    type=NAMESPACE_SUBSCRIPTION_TYPE,
    definitions=metric_names.NAMESPACE_SUBSCRIPTION_METRICS,
    resources=namespaces.TOPICS,
)
SYSTEM_TOPIC = MonitoredResource(
    type=SYSTEM_TOPIC_TYPE,
    definitions=metric_names.TOPIC_METRICS,
    resources=sources.SYSTEM_TOPICS,
)
SYSTEM_TOPIC_SUBSCRIPTION = MonitoredResource(
    type=SYSTEM_TYPE,
    definitions=metric_names.SUBSCRIPTION_METRICS,
    resources=sources.SYSTEM_TOPICS,
)
ACCOUNT = MonitoredResource(
    type=SYSTEM_TOPIC_TYPE,
    definitions=metric_names.TOPIC_METRICS,
    resources=sources.ACCOUNTS,
)
DEPLOYMENT = replace(ACCOUNT, resources=sources.THIS_DEPLOYMENT)
ACCOUNT_SUBSCRIPTION = MonitoredResource(
    type=EXTENSION_TYPE,
    definitions=metric_names.SUBSCRIPTION_METRICS,
    resources=sources.ACCOUNTS,
)
DEPLOYMENT_SUBSCRIPTION = replace(ACCOUNT_SUBSCRIPTION, resources=sources.THIS_DEPLOYMENT)
