"""Accepts events, and answers only after every matching delivery is stored."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from shared import telemetry
from shared.clock import Clock
from shared.delivery.delivery import Origin
from shared.delivery.messages.publication import Matched, Publication, match, parked_lines
from shared.engine.ports import (
    Commits,
    Committed,
    Metrics,
    OffLoop,
    SubscriptionReader,
    TopicReader,
)
from shared.engine.publishing.publish_counts import count_published, count_refused, log_refused
from shared.engine.publishing.publisher_authorization import PublisherAuthorization
from shared.errors import AppError, MethodNotAllowed, NotFound
from shared.events.answers import accepted_answer, error_answer, options_answer
from shared.events.data_plane import data_plane, topic_name
from shared.events.event import Event
from shared.events.publish_request import read_events
from shared.events.schema_rules import Arrival
from shared.events.topic import Topic
from shared.events.trace_context import trace_context
from shared.http import HttpAnswer, HttpRequest
from shared.subscriptions.subscription import EventSubscription

NOTHING_COMMITTED = Committed(messages=0, requests=0)
_PUBLISH_IDS = uuid.UUID("0f2b7c66-3f0c-4d8e-8a5d-0c7f5a0f6b11")
QUICK_BODY = 16 * 1024  # bytes of a request that is read at once, in about a tenth of a millisecond
QUICK_MATCH = 256 * 1024  # bytes times subscriptions: so much is matched at once


class _Checked(NamedTuple):
    """An accepted request, and what it publishes to which subscriptions."""

    topic: Topic
    arrival: Arrival
    publication: Publication
    subscriptions: Sequence[EventSubscription]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """The use case behind the publish endpoints of custom topics and namespace topics."""

    authorization: PublisherAuthorization
    topics: TopicReader
    subscriptions: SubscriptionReader
    commits: Commits
    clock: Clock
    new_id: Callable[[], str]
    metrics: Metrics
    payloads_kept_for: Callable[[Topic], timedelta]
    off_loop: OffLoop

    async def run(self, request: HttpRequest) -> HttpAnswer:
        """
        Answer one request; a refusal has Event Grid's form, and nothing is stored.

        What is small and needs no storage is done at once; all else runs off the event loop, so
        that no other request waits for it.
        """
        request_id = self.new_id()
        try:
            name = topic_name(request)
        except AppError as error:
            return self._refused(request, None, error, request_id)
        check = partial(self._checked, request, name, request_id)
        found = check() if self._is_quick(request, name) else await self.off_loop(check)
        if isinstance(found, HttpAnswer):
            return found
        topic, arrival, publication, subscriptions = found
        try:
            # The order of writes: the answer comes after everything that matches is stored.
            committed = NOTHING_COMMITTED
            if publication.matched:
                committed = await self.commits.commit(publication)
        except AppError as error:
            return self._refused(request, topic, error, request_id)
        self._report(arrival, publication, subscriptions, committed)
        return accepted_answer(request, request_id)

    def _is_quick(self, request: HttpRequest, name: str | None) -> bool:
        """Tell whether a request can be checked and matched in well under a millisecond."""
        size = len(request.body)
        return (
            size <= QUICK_BODY
            and "authorization" not in request.headers  # a token's keys may have to be fetched
            and name is not None
            and self.topics.knows(name, QUICK_MATCH // max(size, 1))
        )

    def _checked(
        self, request: HttpRequest, name: str | None, request_id: str
    ) -> HttpAnswer | _Checked:
        topic = None
        try:
            topic = self.topics.topic(name) if name else None
            return self._read(request, name, topic, request_id)
        except AppError as error:
            return self._refused(request, topic, error, request_id)

    def _refused(
        self, request: HttpRequest, topic: Topic | None, error: AppError, request_id: str
    ) -> HttpAnswer:
        log_refused(request, topic, error, request_id, self.clock.now())
        if topic:  # Unknown names are not counted: anybody could fill the memory with them.
            count_refused(self.metrics, topic, error)
        return error_answer(request, error, request_id=request_id, now=self.clock.now())

    def _read(
        self, request: HttpRequest, name: str | None, topic: Topic | None, request_id: str
    ) -> HttpAnswer | _Checked:
        if name:
            if request.method not in data_plane(request).methods:
                raise MethodNotAllowed
            # Without a key, nobody learns which topics exist.
            self.authorization.check(request, topic or self.topics.absent(name))
        if topic is None:
            raise NotFound(
                f"No HTTP resource was found that matches the request URI '{request.url}'."
            )
        if request.method == "OPTIONS":
            return options_answer(request, topic, request_id)
        arrival = Arrival(self.clock.now(), self._publish_id(topic, request, request_id))
        events = read_events(request, topic, arrival)
        subscriptions = self._subscriptions(topic)
        matched, trace = match(events, subscriptions), trace_context(request.headers)
        origin = Origin(arrival.publish_id, self.clock.now(), None, trace=trace)
        publication = self._publication(topic, origin, events, matched)
        return _Checked(topic, arrival, publication, subscriptions)

    def _subscriptions(self, topic: Topic) -> list[EventSubscription]:
        """Return the subscriptions that may get events now."""
        now = self.clock.now()
        known = self.subscriptions.of_topic(topic.name)
        if self.clock.is_settled:
            known = [each for each in known if not each.is_expired(now)]
        return [each for each in known if each.has_consented]

    def _publication(
        self, topic: Topic, origin: Origin, events: Sequence[Event], matched: Matched
    ) -> Publication:
        texts = [event.text for event in events]
        return Publication(
            topic=topic.name,
            origin=origin,
            texts=texts,
            matched=matched,
            parked=parked_lines(matched, texts, origin),
            keep_until=origin.published_at + self.payloads_kept_for(topic),
        )

    def _report(
        self,
        arrival: Arrival,
        publication: Publication,
        subscriptions: Sequence[EventSubscription],
        committed: Committed,
    ) -> None:
        now = self.clock.now()
        latency = round((now - arrival.at).total_seconds() * 1000, 1)
        unmatched = count_published(self.metrics, publication, subscriptions, latency)
        telemetry.info(
            "event.published",
            topic=publication.topic,
            publish_id=arrival.publish_id,
            trace_id=trace.trace_id if (trace := publication.origin.trace) else None,
            events=len(publication.texts),
            unmatched=unmatched,
            deliveries=publication.load.deliveries,
            messages=committed.messages,
            requests=committed.requests if committed.requests > 1 else None,
            parked=sum(map(bool, publication.parked)) or None,
            seconds=round((now - publication.origin.published_at).total_seconds(), 3),
        )

    def _publish_id(self, topic: Topic, request: HttpRequest, request_id: str) -> str:
        """
        Return the id of what is published; a retry by the publisher's SDK has the same id.

        The SDKs keep ``x-ms-client-request-id`` on retries; without it every request is new.
        """
        client_id = request.headers.get("x-ms-client-request-id")
        if not client_id:
            return request_id.replace("-", "")
        digest = hashlib.sha256(request.body).hexdigest()
        return uuid.uuid5(_PUBLISH_IDS, f"{topic.name.lower()}|{client_id}|{digest}").hex
