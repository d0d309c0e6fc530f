"""Writes metric values and definitions as Azure Monitor does."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from shared.engine.operations.metric_names import MetricDefinition
from shared.engine.operations.metrics_query import (
    AGGREGATIONS,
    INTERVALS,
    DimensionFilter,
    MetricsQuery,
    timestamp,
)
from shared.engine.timers.housekeeping import COUNTS_KEPT_FOR
from shared.metrics import Counts, Metric, Sum

_PROVIDER = "/providers/Microsoft.Insights"

DimensionValues = tuple[str, ...]  # the values of the dimensions that the filter names
Points = dict[int, Sum]  # by number of the interval
Found = dict[str, dict[DimensionValues, Points]]  # by the metrics' names


class SeriesCounts(NamedTuple):
    """The counts of one topic or subscription by minute."""

    values: Mapping[str, str]  # of its dimensions
    minutes: Iterator[tuple[datetime, Counts]]


def aggregate(query: MetricsQuery, sources: Iterable[SeriesCounts]) -> Found:
    """Add counts to the metrics, series and points they belong to, in one pass."""
    by_count: dict[Metric, list[MetricDefinition]] = defaultdict(list)
    for each in query.metrics:
        by_count[each.counted].append(each)
    found: Found = {each.name: {} for each in query.metrics}
    for source in sources:
        for at, counts in source.minutes:
            interval = (at - query.since) // query.interval
            for series, sum_ in counts.items():
                known = {**source.values, **dict(series.dimensions)}
                values = tuple(known.get(each.dimension, "") for each in query.filters)
                if not all(map(DimensionFilter.accepts, query.filters, values)):
                    continue
                for metric in by_count.get(series.metric, ()):
                    if metric.includes(series):
                        points = found[metric.name].setdefault(values, {})
                        before = points.get(interval)
                        points[interval] = before.plus(sum_) if before else sum_
    return found


def render_metric(
    resource: str,
    query: MetricsQuery,
    definition: MetricDefinition,
    found: Mapping[DimensionValues, Points],
) -> dict[str, Any]:
    aggregations = query.aggregations or (definition.aggregation,)
    # Without a filter there is always one series, with zeros where nothing was counted.
    series = found if query.filters else {(): {}, **found}
    return {
        "id": f"{resource}{_PROVIDER}/metrics/{definition.name}",
        "type": "Microsoft.Insights/metrics",
        "name": _localizable(definition.name, definition.label),
        "displayDescription": definition.description,
        "unit": definition.unit,
        "timeseries": [
            {
                "metadatavalues": [
                    {"name": _localizable(name), "value": value}
                    for name, value in zip(
                        (each.dimension.lower() for each in query.filters), values, strict=True
                    )
                ],
                "data": _data(query, points, aggregations),
            }
            for values, points in sorted(series.items())
        ],
        "errorCode": "Success",
    }


def render_definition(
    resource: str, namespace: str, definition: MetricDefinition
) -> dict[str, Any]:
    retention = f"P{COUNTS_KEPT_FOR.days}D"
    return {
        "id": f"{resource}{_PROVIDER}/metricDefinitions/{definition.name}",
        "resourceId": resource,
        "namespace": namespace,
        "name": _localizable(definition.name, definition.label),
        "displayDescription": definition.description,
        "isDimensionRequired": False,
        "unit": definition.unit,
        "primaryAggregationType": definition.aggregation,
        "supportedAggregationTypes": list(AGGREGATIONS),
        "metricAvailabilities": [{"timeGrain": each, "retention": retention} for each in INTERVALS],
        "dimensions": [_localizable(name) for name in definition.dimensions],
    }


def _data(query: MetricsQuery, points: Points, aggregations: tuple[str, ...]) -> list[Any]:
    """Return a point an interval; averages and extremes only for intervals with counts."""
    intervals = math.ceil((query.until - query.since) / query.interval)
    return [
        {"timeStamp": timestamp(query.since + number * query.interval)}
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


def _localizable(value: str, label: str | None = None) -> dict[str, str]:
    return {"value": value, "localizedValue": label or value}
