"""Writes metric values and definitions as Azure Monitor does."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from shared.engine.operations.metric_names import Shown
from shared.engine.operations.metrics_query import (
    AGGREGATIONS,
    INTERVALS,
    MetricsQuery,
    timestamp,
)
from shared.engine.timers.housekeeping import COUNTS_KEPT_FOR
from shared.metrics import Counts, Metric, Sum

_PROVIDER = "/providers/Microsoft.Insights"

Divided = tuple[str, ...]  # the values of the dimensions that the filter names
Points = dict[int, Sum]  # by number of the interval
Found = dict[str, dict[Divided, Points]]  # by the metrics' names


class Source(NamedTuple):
    """The counts of one topic or subscription by minute; *values* are its dimension values."""

    values: Mapping[str, str]
    minutes: Iterator[tuple[datetime, Counts]]


def aggregate(query: MetricsQuery, sources: Iterable[Source]) -> Found:
    """Add counts to the metrics, series and points they belong to, in one pass."""
    shown: dict[Metric, list[Shown]] = defaultdict(list)
    for each in query.metrics:
        shown[each.counted].append(each)
    found: Found = {each.name: {} for each in query.metrics}
    for source in sources:
        for at, counts in source.minutes:
            interval = (at - query.since) // query.interval
            for series, sum_ in counts.items():
                values = {**source.values, **dict(series.dimensions)}
                if not all(each.wants(values.get(each.dimension, "")) for each in query.wanted):
                    continue
                divided = tuple(values.get(each.dimension, "") for each in query.wanted)
                for metric in shown.get(series.metric, ()):
                    if metric.counts(series):
                        points = found[metric.name].setdefault(divided, {})
                        known = points.get(interval)
                        points[interval] = known.plus(sum_) if known else sum_
    return found


def render_metric(
    resource: str, query: MetricsQuery, shown: Shown, found: Mapping[Divided, Points]
) -> dict[str, Any]:
    """Write the values of a metric."""
    aggregations = query.aggregations or (shown.aggregation,)
    # Undivided there is always one series, with zeros where nothing was counted.
    series = found if query.wanted else {(): {}, **found}
    return {
        "id": f"{resource}{_PROVIDER}/metrics/{shown.name}",
        "type": "Microsoft.Insights/metrics",
        "name": _localizable(shown.name, shown.label),
        "displayDescription": shown.description,
        "unit": shown.unit,
        "timeseries": [
            {
                "metadatavalues": [
                    {"name": _localizable(name), "value": value}
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


def render_definition(resource: str, namespace: str, shown: Shown) -> dict[str, Any]:
    """Write the definition of a metric."""
    retention = f"P{COUNTS_KEPT_FOR.days}D"
    return {
        "id": f"{resource}{_PROVIDER}/metricDefinitions/{shown.name}",
        "resourceId": resource,
        "namespace": namespace,
        "name": _localizable(shown.name, shown.label),
        "displayDescription": shown.description,
        "isDimensionRequired": False,
        "unit": shown.unit,
        "primaryAggregationType": shown.aggregation,
        "supportedAggregationTypes": list(AGGREGATIONS),
        "metricAvailabilities": [{"timeGrain": each, "retention": retention} for each in INTERVALS],
        "dimensions": [_localizable(name) for name in shown.dimensions],
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
