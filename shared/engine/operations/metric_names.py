"""Lists the metrics of each kind of resource, and the counts that each is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shared.delivery.policy import EndReason
from shared.metrics import DEFINITIONS, Metric, Series

TOPIC_DIMENSION = "Topic"  # the dimension that divides a namespace's metrics
SUBSCRIPTION_DIMENSION = "EventSubscriptionName"  # … and those of topics

# Drop reasons of dead letters that could not be written.
_UNWRITTEN_REASONS = frozenset({EndReason.CONTAINER_NOT_FOUND, EndReason.DESTINATION_UNAVAILABLE})


class MetricDefinition(NamedTuple):
    """A metric as Azure Monitor defines it, in its terms."""

    name: str
    counted: Metric
    label: str  # the display name
    description: str
    dimensions: tuple[str, ...] = ()  # those it can be divided by
    unit: str = "Count"
    aggregation: str = "Total"
    dimension_values: frozenset[str] = frozenset()  # only series with one of these

    def includes(self, series: Series) -> bool:
        return not self.dimension_values or any(
            value in self.dimension_values for _, value in series.dimensions
        )


def _topic_definitions() -> Iterable[MetricDefinition]:
    for metric, definition in DEFINITIONS.items():
        divides = () if definition.is_of_topic else (SUBSCRIPTION_DIMENSION,)
        yield MetricDefinition(
            name=metric,
            counted=metric,
            label=definition.label,
            description=definition.description,
            dimensions=divides + definition.dimensions,
            unit=definition.unit,
            aggregation=definition.aggregation,
        )


def _namespace_definitions() -> Iterable[MetricDefinition]:
    for definition in _topic_definitions():
        for name, label in _NAMESPACE_NAMES.get(definition.counted, {}).items():
            yield definition._replace(
                name=name,
                label=label,
                dimensions=(TOPIC_DIMENSION, *definition.dimensions),
                # A latency is an average there, of topics a total.
                aggregation="Average"
                if definition.unit == "MilliSeconds"
                else definition.aggregation,
            )
        if definition.counted is Metric.DROPPED:
            yield definition._replace(
                name="FailedDeadLetteredEvents",
                label="Failed dead lettered events",
                description="Total events that could not be written to their dead-letter location.",
                dimensions=(TOPIC_DIMENSION, SUBSCRIPTION_DIMENSION),
                dimension_values=_UNWRITTEN_REASONS,
            )


# The documents of 2023 and the list of 2026 use different names for the same metric.
_NAMESPACE_NAMES = {
    Metric.PUBLISH_SUCCESS: {"SuccessfulPublishedEvents": "Successful Publish Events"},
    Metric.PUBLISH_FAIL: {"FailedPublishedEvents": "Failed Publish Events"},
    Metric.PUBLISH_LATENCY: {"PublishLatencyInMilliseconds": "Publish Operations Latency"},
    Metric.UNMATCHED: {"UnmatchedEventCount": "Unmatched Events"},
    Metric.MATCHED: {"MatchedEventCount": "Matched Events"},
    Metric.DELIVERY_SUCCESS: {"SuccessfulReceivedEvents": "Successful Received Events"},
    Metric.ATTEMPT_FAIL: {"FailedReceivedEvents": "Failed Received Events"},
    Metric.PROCESSING_DURATION: {
        "DestinationProcessingDurationMs": "Destination processing duration in milliseconds"
    },
    Metric.DROPPED: {"DroppedEvents": "Dropped events", "DroppedEventCount": "Dropped Events"},
    Metric.DEAD_LETTERED: {
        "SuccessfulDeadLetteredEvents": "Successful dead lettered events",
        "DeadLetteredCount": "Dead Lettered Events",
    },
    Metric.HOLDS_BEGAN: {"HoldBeganCount": "Holds Begun"},
    Metric.HOLDS_ENDED: {"HoldEndedCount": "Holds Ended"},
}


def _without(metrics: Iterable[MetricDefinition], *dimensions: str) -> tuple[MetricDefinition, ...]:
    """Return *metrics* without these dimensions, for a resource that fixes their values."""
    return tuple(
        each._replace(dimensions=tuple(name for name in each.dimensions if name not in dimensions))
        for each in metrics
    )


def _subscription_definitions(metrics: Iterable[MetricDefinition]) -> tuple[MetricDefinition, ...]:
    """Return those of *metrics* that a subscription also has."""
    return _without(
        (each for each in metrics if SUBSCRIPTION_DIMENSION in each.dimensions),
        SUBSCRIPTION_DIMENSION,
    )


# Source: Event Grid "Monitoring data reference" for push, and for push with namespaces
# (2023-11-15), contract §7; "Supported metrics for Microsoft.EventGrid/namespaces" (2026-07-13).
TOPIC_METRICS = tuple(_topic_definitions())
SUBSCRIPTION_METRICS = _subscription_definitions(TOPIC_METRICS)
NAMESPACE_METRICS = tuple(_namespace_definitions())
NAMESPACE_TOPIC_METRICS = _without(NAMESPACE_METRICS, TOPIC_DIMENSION)
NAMESPACE_SUBSCRIPTION_METRICS = _subscription_definitions(NAMESPACE_TOPIC_METRICS)
