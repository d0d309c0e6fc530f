"""Counts publish requests, and logs refused ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared import telemetry
from shared.clip import clip
from shared.clock import timestamp
from shared.delivery.messages.publication import Publication
from shared.engine.ports import Metrics
from shared.errors import AppError, TooLarge
from shared.events.schema_rules import SCHEMA_NAMES
from shared.events.topic import Topic
from shared.http import HttpRequest
from shared.metrics import Metric, error_type
from shared.subscriptions.subscription import UNMATCHED, EventSubscription


def count_published(
    metrics: Metrics,
    publication: Publication,
    subscriptions: Sequence[EventSubscription],
    latency: float,
) -> int:
    """
    Count an accepted request; return how many of its events matched no subscription.

    *latency* is in milliseconds. Every advanced filter of a subscription counts for every event,
    even where matching stopped earlier.
    """
    topic, events = publication.topic, len(publication.texts)
    metrics.count(Metric.PUBLISH_SUCCESS, topic, by=events)
    metrics.count(Metric.PUBLISH_LATENCY, topic, by=latency)
    if unmatched := events - len({i for _, positions in publication.matched for i in positions}):
        metrics.count(Metric.UNMATCHED, topic, by=unmatched)
    for subscription, positions in publication.matched:
        if subscription.generation != UNMATCHED:  # otherwise they are counted when they match
            metrics.count(Metric.MATCHED, topic, subscription.name, by=len(positions))
    for each in subscriptions:
        if filters := len(each.filter.advanced):
            metrics.count(Metric.ADVANCED_FILTERS, topic, each.name, by=filters * events)
    return unmatched


def count_refused(metrics: Metrics, topic: Topic, error: AppError) -> None:
    """Count a request that was refused."""
    code, kind = error.faults[0].code, error_type(error.status)
    metrics.count(Metric.PUBLISH_FAIL, topic.name, Error=code, ErrorType=kind)


def log_refused(
    request: HttpRequest, topic: Topic | None, error: AppError, request_id: str, now: datetime
) -> None:
    """
    Log a refused request, with the fields of Event Grid's ``PublishFailures``.

    Only of a body that is too large is the error's text logged: others may quote the publisher's
    signature. Only the log says that a topic does not exist.

    Source: contract §7, and Event Grid "Enable diagnostic logs for topics" (2021-05).
    """
    code = error.faults[0].code
    record: dict[str, telemetry.Field] = {}
    if topic:
        resource = topic.arm_id.upper()
        schema = SCHEMA_NAMES[topic.input_schema]
        uri = clip(request.url.partition("?")[0].upper())
        publisher = f"category=User, inputSchema={schema}, armResourceId={resource}"
        record = {
            "time": timestamp(now),
            "resourceId": resource,
            "category": "PublishFailures",
            "operationName": "Publish",
            "message": f"inputEventsCount=null, requestUri={uri}, publisherInfo=PublisherInfo("
            f"{publisher}), httpStatusCode={error.code}, errorType={error_type(error.status)}, "
            f"errorMessage={code}",
        }
    name = topic.name if topic else "/".join(request.params.values())
    telemetry.info(
        "publish.refused",
        f"publish.refused {telemetry.shortened(name, 50)}: {error.status} {code}, {request_id}",
        topic=name,
        status=error.status,
        code=code,
        request_id=request_id,
        unknown_topic=topic is None or None,
        detail=error.message if isinstance(error, TooLarge) else None,
        **record,
    )
