"""Converts counts to table rows and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from shared.adapters.storage.day_tables import key_of
from shared.metrics import CountRow, Counts, Metric, Series, Span, Sum

MINUTES = "metrics"  # and a day: the minutes of that day
TOTALS = "metrictotals"  # hours that add up, and the sums of those that are over
HOURS = "hours"  # its one partition
SUM = "0"  # the hour that sums have in its keys: before all others
_HOUR = "%Y%m%d%H"
_MINUTE = "%Y%m%d%H%M"


def partition_of(topic: str, subscription: str, at: datetime) -> str:
    """Return the partition of a subscription's minutes in an hour; they sort by time."""
    return f"{key_of(topic, subscription)}{at.astimezone(UTC):{_HOUR}}"


def minute_key(at: datetime) -> str:
    """Return what the keys of a minute's rows begin with."""
    return f"{at.astimezone(UTC):{_MINUTE}}"


def hour_key(at: datetime) -> str:
    """Return what the keys of an hour's rows begin with."""
    return f"{at.astimezone(UTC):{_HOUR}}"


def entity_of(row: CountRow) -> dict[str, Any]:
    """Write a row; the same process and span have the same keys."""
    if row.span is Span.MINUTE:
        return {
            "PartitionKey": partition_of(row.topic, row.subscription, row.start),
            "RowKey": f"{minute_key(row.start)}|{row.instance}",
            "Counts": text_of(row.counts),
        }
    names = key_of(row.topic, row.subscription)
    return {
        "PartitionKey": HOURS,
        "RowKey": f"{hour_key(row.start)}|{names}{row.instance}",
        "Topic": row.topic,
        "Subscription": row.subscription,
        "Until": row.start,
        "Counts": text_of(row.counts),
    }


def sum_entity(topic: str, subscription: str, until: datetime, counts: Counts) -> dict[str, Any]:
    """Write the sum of all hours up to *until*."""
    return {
        "PartitionKey": HOURS,
        "RowKey": f"{SUM}|{key_of(topic, subscription)}",
        "Topic": topic,
        "Subscription": subscription,
        "Until": until,
        "Counts": text_of(counts),
    }


def minute_of(entity: Mapping[str, Any]) -> datetime:
    """Return the minute of a row of minutes."""
    digits = str(entity["RowKey"]).partition("|")[0]
    return datetime.strptime(digits, _MINUTE).replace(tzinfo=UTC)


def text_of(counts: Counts) -> str:
    """Write counts as JSON: a list for each series."""
    series = [[each.metric, dict(each.dimensions), *sum_] for each, sum_ in counts.items()]
    return json.dumps(series, separators=(",", ":"))


def counts_of(entity: Mapping[str, Any]) -> dict[Series, Sum]:
    """Read the counts of a row; metrics that this version does not know are left out."""
    known = set(Metric)
    return {
        Series(Metric(name), tuple(sorted(dimensions.items()))): Sum(*sum_)
        for name, dimensions, *sum_ in json.loads(entity["Counts"])
        if name in known
    }
