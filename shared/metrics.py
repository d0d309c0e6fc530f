"""Names the metrics as Event Grid does, and adds up counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class Metric(StrEnum):
    """
    Names of metrics.

    Source: Event Grid "Monitoring data reference - push" (2023-11-15), contract §7; those of holds,
    of ages and of late answers are ours. The last one is a balance, shown only as a gauge.
    """

    PUBLISH_SUCCESS = "PublishSuccessCount"
    PUBLISH_FAIL = "PublishFailCount"
    PUBLISH_LATENCY = "PublishSuccessLatencyInMs"
    UNMATCHED = "UnmatchedEventCount"
    ADVANCED_FILTERS = "AdvancedFilterEvaluationCount"
    MATCHED = "MatchedEventCount"
    DELIVERY_SUCCESS = "DeliverySuccessCount"
    ATTEMPT_FAIL = "DeliveryAttemptFailCount"
    PROCESSING_DURATION = "DestinationProcessingDurationInMs"
    EVENT_AGE = "EventAgeInMs"
    ANSWERED_LATE = "LateAnswerCount"
    DROPPED = "DroppedEventCount"
    DEAD_LETTERED = "DeadLetteredCount"
    HOLDS_BEGAN = "HoldBeganCount"
    HOLDS_ENDED = "HoldEndedCount"
    AWAITING_BLOB = "AwaitingBlobCount"  # given up: +1; its blob is written, or it is dropped: -1


class Definition(NamedTuple):
    """A metric as Azure Monitor describes it."""

    label: str  # its display name
    description: str
    dimensions: tuple[str, ...] = ()  # those beyond topic and subscription
    is_of_topic: bool = False  # not counted per subscription
    unit: str = "Count"
    aggregation: str = "Total"


DEFINITIONS: Mapping[Metric, Definition] = {
    Metric.PUBLISH_SUCCESS: Definition(
        "Published Events", "Total events published to this topic.", is_of_topic=True
    ),
    Metric.PUBLISH_FAIL: Definition(
        "Publish Failed Events",
        "Total requests to publish to this topic that were refused.",
        dimensions=("ErrorType", "Error"),
        is_of_topic=True,
    ),
    Metric.PUBLISH_LATENCY: Definition(
        "Publish Success Latency",
        "Publish success latency in milliseconds.",
        is_of_topic=True,
        unit="MilliSeconds",
    ),
    Metric.UNMATCHED: Definition(
        "Unmatched Events",
        "Total events not matching any of the event subscriptions for this topic.",
        is_of_topic=True,
    ),
    Metric.ADVANCED_FILTERS: Definition(
        "Advanced Filter Evaluations",
        "Total advanced filters evaluated across event subscriptions for this topic.",
    ),
    Metric.MATCHED: Definition("Matched Events", "Total events matched to event subscriptions."),
    Metric.DELIVERY_SUCCESS: Definition(
        "Delivered Events", "Total events delivered to event subscriptions."
    ),
    Metric.ATTEMPT_FAIL: Definition(
        "Delivery Failed Events",
        "Total attempts that failed to deliver an event to event subscriptions.",
        dimensions=("Error", "ErrorType"),
    ),
    Metric.PROCESSING_DURATION: Definition(
        "Destination Processing Duration",
        "Destination processing duration in milliseconds.",
        unit="MilliSeconds",
        aggregation="Average",
    ),
    Metric.EVENT_AGE: Definition(
        "Event Age",
        "Time since the oldest event of a request was published, when it was attempted or put back,"
        " in milliseconds.",
        unit="MilliSeconds",
        aggregation="Maximum",
    ),
    Metric.ANSWERED_LATE: Definition(
        "Late Answers",
        "Total events that an endpoint accepted after the request had timed out.",
    ),
    Metric.DROPPED: Definition(
        "Dropped Events",
        "Total dropped events matching to event subscriptions.",
        dimensions=("DropReason",),
    ),
    Metric.DEAD_LETTERED: Definition(
        "Dead Lettered Events",
        "Total dead lettered events matching to event subscriptions.",
        dimensions=("DeadLetterReason",),
    ),
    Metric.HOLDS_BEGAN: Definition(
        "Holds Begun",
        "Total holds of event subscriptions that have begun.",
        dimensions=("Reason",),
    ),
    Metric.HOLDS_ENDED: Definition(
        "Holds Ended",
        "Total holds of event subscriptions that have ended.",
        dimensions=("Reason",),
    ),
}


class Sum(NamedTuple):
    """The sum of some values, and the smallest and largest of them."""

    total: float
    times: int
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Sum:
        """Return the sum of *values*, of which there is at least one."""
        return cls(sum(values), len(values), min(values), max(values))

    def plus(self, other: Sum) -> Sum:
        """Return both together."""
        return Sum(
            self.total + other.total,
            self.times + other.times,
            min(self.least, other.least),
            max(self.most, other.most),
        )


class Series(NamedTuple):
    """A metric and the values of its dimensions, by name, in the order of the names."""

    metric: Metric
    dimensions: tuple[tuple[str, str], ...] = ()


Counts = Mapping[Series, Sum]


class Span(StrEnum):
    """The time span of a row: minutes are queried, hours add up to the totals."""

    MINUTE = "minute"
    HOUR = "hour"


class CountRow(NamedTuple):
    """All that one process has counted so far in one span of time; names are in lower case."""

    span: Span
    start: datetime
    topic: str
    # Empty: the counts of a topic; its minutes hold the sums over its subscriptions as well.
    subscription: str
    instance: str
    counts: Counts


def add(counts: dict[Series, Sum], more: Counts) -> None:
    """Add *more* to *counts*."""
    for series, sum_ in more.items():
        known = counts.get(series)
        counts[series] = known.plus(sum_) if known else sum_


def total_of(all_counts: Iterable[Counts]) -> dict[Series, Sum]:
    """Return the sums of all counts."""
    total: dict[Series, Sum] = {}
    for counts in all_counts:
        add(total, counts)
    return total


def text_of_counts(counts: Counts) -> str:
    """Write counts as JSON: a list for each series."""
    series = [[each.metric, dict(each.dimensions), *sum_] for each, sum_ in counts.items()]
    return _compact(series)


_compact = json.JSONEncoder(separators=(",", ":")).encode


def counts_of_text(text: str) -> dict[Series, Sum]:
    """
    Read what `text_of_counts` has written; metrics that this version does not know are left out.

    Raises:
        ValueError: it is damaged.
    """
    known = set(Metric)
    return {
        Series(Metric(name), tuple(sorted(dimensions.items()))): Sum(*sum_)
        for name, dimensions, *sum_ in json.loads(text)
        if name in known
    }


def count_of(counts: Counts, *metrics: Metric) -> int:
    """Return the sum of some metrics over all their series."""
    return round(sum(sum_.total for series, sum_ in counts.items() if series.metric in metrics))


def most_frequent_error(counts: Counts) -> str:
    """Return the outcome of most failed attempts; empty without any."""
    errors: dict[str, float] = {}
    for series, sum_ in counts.items():
        if series.metric is Metric.ATTEMPT_FAIL:
            name = dict(series.dimensions)["Error"]
            errors[name] = errors.get(name, 0) + sum_.total
    return max(errors, key=lambda each: errors[each], default="")


def error_type(status: int | None) -> str:
    """Name the kind of an error, by its HTTP status if there was an answer."""
    if status is None:
        return "NoAnswer"
    return {4: "ClientError", 5: "ServerError"}.get(status // 100, "UnexpectedStatus")
