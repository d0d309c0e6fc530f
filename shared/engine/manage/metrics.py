"""Metrics of topics and event subscriptions, as Azure Monitor answers them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.engine.housekeeping import COUNTS_KEPT_FOR
from shared.engine.manage.arm_json import answer
from shared.engine.manage.call import Call, ManagePorts, not_found
from shared.engine.manage.metrics_query import SUBSCRIPTION_NAME, MetricsQuery, parse_query
from shared.engine.manage.topics import TOPICS
from shared.engine.ports import Table
from shared.http import HttpAnswer
from shared.metrics import DEFINITIONS, Counts, Metric, Sum
from shared.subscriptions.subscription_codec import EXTENSION_TYPE
from shared.subscriptions.topic_codec import TYPE as TOPIC_TYPE

TYPE = "Microsoft.Insights/metrics"
_SUFFIX = "/providers/Microsoft.Insights/metrics"

Divided = tuple[str, ...]  # the values of the dimensions that the filter names
Points = dict[int, Sum]  # by number of the interval


def topic_metrics(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Answer what a topic and its subscriptions have counted."""
    query = parse_query(call.query, ports.clock.now(), of_topic=True)
    topic = TOPICS.named(ports, call).document
    names = [""]  # the topic itself, with the sums over its subscriptions
    for dimension in query.wanted:
        if dimension.dimension == SUBSCRIPTION_NAME:
            found = ports.resources.list(Table.EVENT_SUBSCRIPTIONS, topic["name"])
            names = [each.document["name"] for each in found]
            names = [name for name in names if dimension.wants(name)]
    sources = {name: _minutes(ports, query, topic["name"], name) for name in names}
    return _answer(call, query, topic["location"], TOPIC_TYPE, sources)


def subscription_metrics(ports: ManagePorts, call: Call) -> HttpAnswer:
    """Answer what one event subscription has counted."""
    query = parse_query(call.query, ports.clock.now(), of_topic=False)
    topic = TOPICS.named(ports, call).document
    name = call.names["name"]
    if ports.resources.get(Table.EVENT_SUBSCRIPTIONS, topic["name"], name) is None:
        raise not_found(call, f"{topic['id']}/eventSubscriptions/{name}")
    sources = {name: _minutes(ports, query, topic["name"], name)}
    return _answer(call, query, topic["location"], EXTENSION_TYPE, sources)


def _minutes(
    ports: ManagePorts, query: MetricsQuery, topic: str, name: str
) -> Iterator[tuple[datetime, Counts]]:
    """Read what is kept; a time span may begin in the Middle Ages, and each day is a table."""
    now = ports.clock.now()
    kept_since = now - COUNTS_KEPT_FOR - timedelta(days=1)
    since, until = max(query.since, kept_since), min(query.until, now)
    return ports.counts.minutes(topic, name, since, until) if since < until else iter(())


def _answer(
    call: Call,
    query: MetricsQuery,
    location: str,
    namespace: str,
    sources: Mapping[str, Iterator[tuple[datetime, Counts]]],
) -> HttpAnswer:
    found: dict[Metric, dict[Divided, Points]] = defaultdict(lambda: defaultdict(dict))
    for name, minutes in sources.items():
        for at, counts in minutes:
            _gather(found, query, name, (at - query.since) // query.interval, counts)
    resource = call.path.rstrip("/")[: -len(_SUFFIX)]
    return answer(
        200,
        {
            "cost": 0,
            "timespan": f"{_time(query.since)}/{_time(query.until)}",
            "interval": query.interval_name,
            "namespace": namespace,
            "resourceregion": location,
            "value": [_metric(resource, query, each, found[each]) for each in query.metrics],
        },
    )


def _gather(
    found: dict[Metric, dict[Divided, Points]],
    query: MetricsQuery,
    subscription: str,
    interval: int,
    counts: Counts,
) -> None:
    """Add one minute's counts to the series and points that they belong to."""
    for series, sum_ in counts.items():
        values = {SUBSCRIPTION_NAME: subscription, **dict(series.dimensions)}
        if all(each.wants(values.get(each.dimension, "")) for each in query.wanted):
            divided = tuple(values.get(each.dimension, "") for each in query.wanted)
            points = found[series.metric][divided]
            known = points.get(interval)
            points[interval] = known.plus(sum_) if known else sum_


def _metric(
    resource: str, query: MetricsQuery, metric: Metric, found: Mapping[Divided, Points]
) -> dict[str, Any]:
    definition = DEFINITIONS[metric]
    aggregations = query.aggregations or (definition.aggregation,)
    # Undivided there is always one series, with zeros where nothing was counted.
    series = found if query.wanted else {(): {}, **found}
    return {
        "id": f"{resource}{_SUFFIX}/{metric}",
        "type": TYPE,
        "name": {"value": metric, "localizedValue": definition.label},
        "displayDescription": definition.description,
        "unit": definition.unit,
        "timeseries": [
            {
                "metadatavalues": [
                    {"name": {"value": name, "localizedValue": name}, "value": value}
                    for name, value in zip(
                        (each.dimension.lower() for each in query.wanted), divided, strict=True
                    )
                ],
                "data": _data(query, points, aggregations),
            }
            for divided, points in sorted(series.items())
        ],
        "errorCode": "Success",
    }


def _data(query: MetricsQuery, points: Points, aggregations: tuple[str, ...]) -> list[Any]:
    """Return a point for each interval; averages and extremes only where something was counted."""
    intervals = math.ceil((query.until - query.since) / query.interval)
    return [
        {"timeStamp": _time(query.since + number * query.interval)}
        | {
            name.lower(): value
            for name in aggregations
            if (value := _value(name, points.get(number))) is not None
        }
        for number in range(intervals)
    ]


def _value(aggregation: str, sum_: Sum | None) -> float | None:
    if sum_ is None:
        return 0.0 if aggregation in {"Total", "Count"} else None
    return {
        "Total": float(sum_.total),
        "Count": float(sum_.times),
        "Average": sum_.total / sum_.times,
        "Minimum": float(sum_.least),
        "Maximum": float(sum_.most),
    }[aggregation]


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
