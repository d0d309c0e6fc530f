"""Counts publish requests, and logs them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from shared import telemetry
from shared.clip import clip
from shared.clock import Clock, timestamp
from shared.delivery.messages.publication import Publication
from shared.engine.ports import Metrics
from shared.errors import AppError, StorageUnavailable, TooLarge, WrongPath
from shared.events.event import distinct
from shared.events.schema_rules import SCHEMA_NAMES
from shared.events.topic import Topic
from shared.http import HttpRequest
from shared.metrics import Metric, Sum, error_type
from shared.settings import PublishLogging
from shared.subscriptions.subscription import UNMATCHED


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishReport:
    """Counts what publish requests did, and logs it."""

    metrics: Metrics
    clock: Clock
    logging: PublishLogging = PublishLogging.COMMITS

    def published(
        self, publications: Mapping[int, Publication], sharing: Sequence[Collection[int]] = ()
    ) -> None:
        """
        Report requests that were stored together, those to each topic as one.

        *sharing* has the numbers of the publications in each message.
        """
        now = self.clock.now()
        by_request = self.logging is PublishLogging.REQUESTS
        together: defaultdict[str | int, set[int]] = defaultdict(set)
        for number, each in publications.items():
            together[number if by_request else each.topic].add(number)
        for numbers in together.values():
            group = [publications[number] for number in sorted(numbers)]
            self._count(group, now)
            messages = sum(not numbers.isdisjoint(message) for message in sharing)
            _log_published(group, messages, len(publications), now)

    def refused(
        self, request: HttpRequest, topic: Topic | None, error: AppError, request_id: str
    ) -> None:
        """Report a refused request."""
        _log_refused(request, topic, error, request_id, self.clock.now())
        if topic:  # Unknown names are not counted: anybody could fill the memory with them.
            code, kind = error.faults[0].code, error_type(error.status)
            self.metrics.count(Metric.PUBLISH_FAIL, topic.name, Error=code, ErrorType=kind)

    def _count(self, group: Sequence[Publication], now: datetime) -> None:
        """
        Add up the counts of requests to one topic.

        Every advanced filter of a subscription counts for every event, even where matching stopped
        earlier.
        """
        values: defaultdict[tuple[Metric, str], list[float]] = defaultdict(list)
        for each in group:
            events = len(each.texts)
            values[Metric.PUBLISH_SUCCESS, ""].append(events)
            values[Metric.PUBLISH_LATENCY, ""].append(_milliseconds(each, now))
            if unmatched := each.unmatched:
                values[Metric.UNMATCHED, ""].append(unmatched)
            for subscription, positions in each.matched:
                if subscription.generation != UNMATCHED:  # else they are counted when they match
                    values[Metric.MATCHED, subscription.name].append(len(positions))
            for subscription in each.considered:
                if filters := len(subscription.filter.advanced):
                    values[Metric.ADVANCED_FILTERS, subscription.name].append(filters * events)
        for (metric, subscription_name), found in values.items():
            self.metrics.count(metric, group[0].topic, subscription_name, by=Sum.of(found))


def _log_published(
    group: Sequence[Publication], messages: int, requests: int, now: datetime
) -> None:
    """Log requests to one topic that are stored in *messages*, in a commit of *requests*."""
    ids = [each.origin.publish_id for each in group]
    traces = distinct(trace.trace_id for each in group if (trace := each.origin.trace))
    named: dict[str, telemetry.Field] = {"publish_ids": ids, "trace_ids": traces}
    if len(group) == 1:
        named = {"publish_id": ids[0], "trace_id": traces[0] if traces else None}
    telemetry.info(
        "event.published",
        topic=group[0].topic,
        **named,
        events=sum(len(each.texts) for each in group),
        unmatched=sum(each.unmatched for each in group),
        deliveries=sum(each.load.deliveries for each in group),
        messages=messages,
        requests=requests if requests > 1 else None,
        parked=sum(sum(map(bool, each.parked)) for each in group) or None,
        seconds=round(max(_milliseconds(each, now) for each in group) / 1000, 3),
    )


def _milliseconds(publication: Publication, now: datetime) -> float:
    """Return how long ago its request arrived."""
    return round((now - publication.origin.published_at).total_seconds() * 1000, 1)


def _log_refused(
    request: HttpRequest, topic: Topic | None, error: AppError, request_id: str, now: datetime
) -> None:
    """
    Log a refused request, with the fields of Event Grid's ``PublishFailures``.

    The error's text is logged of a body that is too large and of a wrong path: others may quote the
    publisher's signature. Only the log says that a topic does not exist.

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
    is_unknown = topic is None and not isinstance(error, StorageUnavailable | WrongPath)
    telemetry.info(
        "publish.refused",
        f"publish.refused {telemetry.shortened(name, 50)}: {error.status} {code}, {request_id}",
        topic=name,
        status=error.status,
        code=code,
        request_id=request_id,
        unknown_topic=is_unknown or None,
        detail=error.message if isinstance(error, TooLarge | WrongPath) else None,
        **record,
    )
