"""Answers metrics requests for topics, namespaces and event subscriptions like Azure Monitor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from shared.arm.arm_json import answer
from shared.arm.namespace_codec import TOPIC_TYPE as NAMESPACE_TOPIC_TYPE
from shared.arm.namespace_codec import TYPE as NAMESPACE_TYPE
from shared.arm.namespace_subscription_codec import TYPE as NAMESPACE_SUBSCRIPTION_TYPE
from shared.arm.system_topic_codec import TYPE as SYSTEM_TOPIC_TYPE
from shared.arm.topic_codec import TYPE as TOPIC_TYPE
from shared.arm.topic_subscription_codec import EXTENSION_TYPE, SYSTEM_TYPE
from shared.clock import Clock
from shared.engine.manage.call import Call, names_of, not_found
from shared.engine.manage.kinds import NamespaceTopics, TopicKind
from shared.engine.operations.metric_names import (
    NAMESPACE_METRICS,
    NAMESPACE_SUBSCRIPTION_METRICS,
    NAMESPACE_TOPIC_METRICS,
    SUBSCRIPTION_DIMENSION,
    SUBSCRIPTION_METRICS,
    TOPIC_DIMENSION,
    TOPIC_METRICS,
    MetricDefinition,
)
from shared.engine.operations.metrics_answer import (
    SeriesCounts,
    aggregate,
    render_definition,
    render_metric,
)
from shared.engine.operations.metrics_query import MetricsQuery, parse_query, timestamp
from shared.engine.ports import CountReader, Document, ResourceStore, Table
from shared.engine.timers.housekeeping import COUNTS_KEPT_FOR
from shared.http import HttpAnswer
from shared.metrics import Counts
from shared.nearest import did_you_mean

_DEFINITIONS: Mapping[str, Sequence[MetricDefinition]] = {
    TOPIC_TYPE: TOPIC_METRICS,
    SYSTEM_TOPIC_TYPE: TOPIC_METRICS,
    EXTENSION_TYPE: SUBSCRIPTION_METRICS,
    SYSTEM_TYPE: SUBSCRIPTION_METRICS,
    NAMESPACE_TYPE: NAMESPACE_METRICS,
    NAMESPACE_TOPIC_TYPE: NAMESPACE_TOPIC_METRICS,
    NAMESPACE_SUBSCRIPTION_TYPE: NAMESPACE_SUBSCRIPTION_METRICS,
}


class MonitoredTopic(NamedTuple):
    """A topic: its name within its namespace, and the key of its counts."""

    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoredResources:
    """One kind of resource with metrics."""

    type: str
    topics: TopicKind  # finds the topic or namespace of a path
    members: NamespaceTopics | None = None  # whose counts are those of their namespace
    resources: ResourceStore
    counts: CountReader
    clock: Clock

    def list_metrics(self, call: Call) -> HttpAnswer:
        """Answer metric values. Source: Azure Monitor, Metrics - List (2023-10-01)."""
        query = parse_query(call.query, self.clock.now(), _DEFINITIONS[self.type])
        found = self._found(call)
        counted = aggregate(query, self._sources(call, query, self._topics(found)))
        resource = _resource(call)
        value = [render_metric(resource, query, each, counted[each.name]) for each in query.metrics]
        return answer(
            200,
            {
                "cost": 0,
                "timespan": f"{timestamp(query.since)}/{timestamp(query.until)}",
                "interval": query.interval_name,
                "namespace": self.type,
                "resourceregion": self.topics.location(call),
                "value": value,
            },
        )

    def list_definitions(self, call: Call) -> HttpAnswer:
        """Answer the available metrics. Source: Metric Definitions - List (2023-10-01)."""
        self._found(call)
        resource, defined = _resource(call), _DEFINITIONS[self.type]
        value = [render_definition(resource, self.type, each) for each in defined]
        return answer(200, {"value": value})

    def _found(self, call: Call) -> Document:
        """Return the topic or namespace of a path; a subscription in it must be there."""
        found = self.topics.named(call).document
        name = call.names.get("name")
        if name is not None:
            (topic,) = self._topics(found)
            if self.resources.get(Table.EVENT_SUBSCRIPTIONS, topic.key, name) is None:
                known = self.resources.list(Table.EVENT_SUBSCRIPTIONS, topic.key)
                near = did_you_mean(name, names_of(known))
                raise not_found(call, f"{found['id']}/eventSubscriptions/{name}", near)
        return found

    def _topics(self, found: Document) -> Sequence[MonitoredTopic]:
        """Return the topics whose counts belong to *found*: itself, or all of a namespace."""
        if self.members is None:
            return [MonitoredTopic(found["name"], self.topics.name_of(found))]
        topics = self.members.of(found["name"])
        return [MonitoredTopic(each["name"], self.members.name_of(each)) for each in topics]

    def _sources(
        self, call: Call, query: MetricsQuery, counted: Sequence[MonitoredTopic]
    ) -> Iterator[SeriesCounts]:
        """Read only what the query needs: a topic's own counts include its subscriptions'."""
        filters = {each.dimension: each for each in query.filters}
        for topic in counted:
            if TOPIC_DIMENSION in filters and not filters[TOPIC_DIMENSION].accepts(topic.name):
                continue
            names = [call.names.get("name", "")]
            if SUBSCRIPTION_DIMENSION in filters:
                found = self.resources.list(Table.EVENT_SUBSCRIPTIONS, topic.key)
                names = [str(each.document.get("name", each.name)) for each in found]
                names = [name for name in names if filters[SUBSCRIPTION_DIMENSION].accepts(name)]
            for name in names:
                values = {TOPIC_DIMENSION: topic.name, SUBSCRIPTION_DIMENSION: name}
                yield SeriesCounts(values, self._minutes(query, topic.key, name))

    def _minutes(
        self, query: MetricsQuery, topic: str, name: str
    ) -> Iterator[tuple[datetime, Counts]]:
        """Read minutes within the retention only: each day is a table."""
        now = self.clock.now()
        kept_since = now - COUNTS_KEPT_FOR - timedelta(days=1)
        since, until = max(query.since, kept_since), min(query.until, now)
        return self.counts.minutes(topic, name, since, until) if since < until else iter(())


def _resource(call: Call) -> str:
    """Return the resource of the path: all but ``/providers/…/…`` at its end."""
    return call.path.rstrip("/").rsplit("/", 3)[0]
