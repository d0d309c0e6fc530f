"""Lists the metrics of each kind of resource, and the counts that each is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shared.delivery.policy import EndReason
from shared.metrics import DEFINITIONS, Metric, Series

TOPIC = "Topic"  # the dimension that divides a namespace's metrics
SUBSCRIPTION = "EventSubscriptionName"  # … and those of topics

# Drop reasons of dead letters that could not be written.
_UNWRITTEN = frozenset({EndReason.CONTAINER_NOT_FOUND, EndReason.DESTINATION_UNAVAILABLE})


class Shown(NamedTuple):
    """
    A metric as Azure Monitor shows it.

    *dimensions* are those it can be divided by. *only* restricts it to series with one of these
    dimension values. *unit* and *aggregation* are Azure Monitor's terms, *label* is the display
    name.
    """

    name: str
    counted: Metric
    label: str
    description: str
    dimensions: tuple[str, ...] = ()
    unit: str = "Count"
    aggregation: str = "Total"
    only: frozenset[str] = frozenset()

    def counts(self, series: Series) -> bool:
        """Tell whether the metric includes a series of counts."""
        return not self.only or any(value in self.only for _, value in series.dimensions)


def _of_topics() -> Iterable[Shown]:
    for metric, definition in DEFINITIONS.items():
        divides = () if definition.is_of_topic else (SUBSCRIPTION,)
        yield Shown(
            name=metric,
            counted=metric,
            label=definition.label,
            description=definition.description,
            dimensions=divides + definition.dimensions,
            unit=definition.unit,
            aggregation=definition.aggregation,
        )


def _of_namespaces() -> Iterable[Shown]:
    for shown in _of_topics():
        for name, label in _NAMESPACE_NAMES.get(shown.counted, {}).items():
            yield shown._replace(
                name=name,
                label=label,
                dimensions=(TOPIC, *shown.dimensions),
                # A latency is an average there, of topics a total.
                aggregation="Average" if shown.unit == "MilliSeconds" else shown.aggregation,
            )
        if shown.counted is Metric.DROPPED:
            yield shown._replace(
                name="FailedDeadLetteredEvents",
                label="Failed dead lettered events",
                description="Total events that could not be written to their dead-letter location.",
                dimensions=(TOPIC, SUBSCRIPTION),
                only=_UNWRITTEN,
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
}


def _without(metrics: Iterable[Shown], *dimensions: str) -> tuple[Shown, ...]:
    """Return *metrics* without these dimensions, for a resource that fixes their values."""
    return tuple(
        each._replace(dimensions=tuple(name for name in each.dimensions if name not in dimensions))
        for each in metrics
    )


def _of_subscriptions(metrics: Iterable[Shown]) -> tuple[Shown, ...]:
    """Return those of *metrics* that a subscription also has."""
    return _without((each for each in metrics if SUBSCRIPTION in each.dimensions), SUBSCRIPTION)


# Source: Event Grid "Monitoring data reference" for push, and for push with namespaces
# (2023-11-15), contract §7; "Supported metrics for Microsoft.EventGrid/namespaces" (2026-07-13).
OF_TOPIC = tuple(_of_topics())
OF_SUBSCRIPTION = _of_subscriptions(OF_TOPIC)
OF_NAMESPACE = tuple(_of_namespaces())
OF_NAMESPACE_TOPIC = _without(OF_NAMESPACE, TOPIC)
OF_NAMESPACE_SUBSCRIPTION = _of_subscriptions(OF_NAMESPACE_TOPIC)
