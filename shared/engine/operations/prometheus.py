"""Writes counts and gauges in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shared.metrics import DEFINITIONS, Counts, Metric, Sum
from shared.subscriptions.subscription import SubscriptionKey

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Milliseconds become seconds, as summaries.
_NAMES = {
    Metric.PUBLISH_SUCCESS: "publish_success",
    Metric.PUBLISH_FAIL: "publish_fail",
    Metric.PUBLISH_LATENCY: "publish_success_latency_seconds",
    Metric.UNMATCHED: "unmatched_events",
    Metric.ADVANCED_FILTERS: "advanced_filter_evaluations",
    Metric.MATCHED: "matched_events",
    Metric.DELIVERY_SUCCESS: "delivery_success",
    Metric.ATTEMPT_FAIL: "delivery_attempt_fail",
    Metric.PROCESSING_DURATION: "destination_processing_duration_seconds",
    Metric.EVENT_AGE: "event_age_seconds",
    Metric.ANSWERED_LATE: "late_answers",
    Metric.DROPPED: "dropped_events",
    Metric.DEAD_LETTERED: "dead_lettered_events",
    Metric.HOLDS_BEGAN: "holds_began",
    Metric.HOLDS_ENDED: "holds_ended",
}
_LABELS = {
    "Error": "error",
    "ErrorType": "error_type",
    "DropReason": "drop_reason",
    "DeadLetterReason": "dead_letter_reason",
    "Reason": "reason",
}
_MILLISECONDS = 1000


class Gauge(NamedTuple):
    """A current value: its help text, and its values by those of its labels."""

    name: str
    help: str
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], float]
    kind: str = "gauge"


def exposition(totals: Mapping[SubscriptionKey, Counts], gauges: Iterable[Gauge]) -> str:
    """
    Write all samples; *totals* are by topic and subscription.

    Source: Prometheus "Exposition formats", text-based format 0.0.4.
    """
    lines: list[str] = []
    for metric in DEFINITIONS:
        lines += _counter(metric, totals)
    for gauge in gauges:
        name = f"pushgrid_{gauge.name}"
        lines += [f"# HELP {name} {gauge.help}", f"# TYPE {name} {gauge.kind}"]
        lines += [
            _sample(name, dict(zip(gauge.labels, key, strict=True)), value)
            for key, value in sorted(gauge.values.items())
        ]
    return "\n".join(lines) + "\n"


def _counter(metric: Metric, totals: Mapping[SubscriptionKey, Counts]) -> list[str]:
    definition = DEFINITIONS[metric]
    is_count = definition.unit == "Count"
    name = f"pushgrid_{_NAMES[metric]}" + ("_total" if is_count else "")
    description = definition.description.replace(" in milliseconds", "")
    kind = "counter" if is_count else "summary"
    lines = [f"# HELP {name} {description}", f"# TYPE {name} {kind}"]
    for (topic, subscription), counts in sorted(totals.items()):
        labels = {"topic": topic}
        if not definition.is_of_topic:
            labels["subscription"] = subscription
        for series, sum_ in sorted(counts.items()):
            if series.metric is metric:
                own = {_LABELS[dimension]: value for dimension, value in series.dimensions}
                lines += _samples(name, labels | own, sum_, is_count=is_count)
    return lines


def _samples(name: str, labels: Mapping[str, str], sum_: Sum, *, is_count: bool) -> list[str]:
    if is_count:
        return [_sample(name, labels, sum_.total)]
    return [
        _sample(f"{name}_sum", labels, sum_.total / _MILLISECONDS),
        _sample(f"{name}_count", labels, sum_.times),
    ]


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{pairs}}} {value:.15g}" if pairs else f"{name} {value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
