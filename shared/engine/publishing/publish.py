"""Accepts events, and answers only after every matching delivery is stored."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from shared.clock import Clock, trusted_now
from shared.delivery.delivery import Origin
from shared.delivery.messages.publication import Publication
from shared.engine.ports import Commits, OffLoop, SubscriptionReader, TokenVerifier, TopicReader
from shared.engine.publishing.publish_report import PublishReport
from shared.errors import AppError, Forbidden, MethodNotAllowed, NotFound, StorageUnavailable
from shared.events.authorization import (
    authorize,
    bearer_token,
    check_network,
    client_address,
)
from shared.events.data_plane import data_plane
from shared.events.event import Event
from shared.events.publish_http import (
    accepted_answer,
    error_answer,
    no_resource,
    options_answer,
    read_events,
    topic_name,
)
from shared.events.schema_rules import Arrival
from shared.events.topic import Topic
from shared.events.trace_context import trace_context
from shared.http import Answering, HttpAnswer, HttpRequest

_PUBLISH_IDS = uuid.UUID("0f2b7c66-3f0c-4d8e-8a5d-0c7f5a0f6b11")
ANSWERED_WITHIN = 20.0  # seconds of the loop's clock, from a request's arrival to its answer
QUICK_BODY = 16 * 1024  # bytes of a request that is read at once, in about a tenth of a millisecond
QUICK_MATCH = 256 * 1024  # bytes times subscriptions: so much is matched at once

_Outcome = Publication | HttpAnswer | AppError  # what is to be stored, an answer, or a refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherAuthorization:
    """The first check of every publish request, for every kind of topic."""

    clock: Clock
    tokens: TokenVerifier | None = None  # ``None``: Entra ID tokens are not accepted
    # In lower case; ``None``: the front end does not pass the client's address.
    client_ip_header: str | None = None
    public_url: str | None = None  # of the app, where it differs from that of requests

    def check(self, request: HttpRequest, topic: Topic) -> None:
        """
        Check that the request may publish to *topic*.

        Raises:
            Forbidden: it may not, or the topic takes no keys and tokens are not configured.
            AppError: it may not, for another reason.
            SigningKeysUnavailable: the token can't be verified now.
        """
        check_network(topic, client_address(request, self.client_ip_header))
        if topic.disable_local_auth and self.tokens is None:
            raise Forbidden(
                f"Publishing to Topic {topic.name} is rejected because local authentication is"
                " disabled, and access tokens are not accepted here either: the app's setting"
                " PUSHGRID_ENTRA_TENANT is not set."
            )
        token = bearer_token(request)
        bearer = self.tokens.verify(token) if self.tokens and token is not None else None
        authorize(request, topic, self.clock.now(), bearer, self.public_url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """The use case behind the publish endpoints of custom topics and namespace topics."""

    authorization: PublisherAuthorization
    topics: TopicReader
    subscriptions: SubscriptionReader
    commits: Commits
    clock: Clock
    new_id: Callable[[], str]
    report: PublishReport
    payloads_kept_for: Callable[[Topic], timedelta]
    message_size: int  # bytes
    off_loop: OffLoop
    fresh: Callable[[], Awaitable[None]] | None = None  # waits for what others have changed
    within_span: Callable[[Answering, HttpRequest], Awaitable[HttpAnswer]] | None = None
    _under_way: set[str] = field(default_factory=set)  # ids of requests, and of our own

    def leftovers(self) -> Iterator[str]:
        """Yield what has not ended."""
        if self._under_way:
            yield f"publish requests {len(self._under_way)}"

    async def run(self, request: HttpRequest) -> HttpAnswer:
        """Answer one request, within a span if these are wanted."""
        if self.within_span:
            return await self.within_span(self._answer, request)
        return await self._answer(request)

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        """
        Answer one request; a refusal has Event Grid's form, and nothing is stored.

        Reading topic and subscriptions and storing the events take `ANSWERED_WITHIN` together, or
        it is refused. Events still waiting for a commit are not stored; events in one may be.

        What is small and needs no storage is done at once; all else runs off the event loop, so
        that no other request waits for it.
        """
        request_id = self.new_id()
        topic: Topic | None = None
        self._under_way.add(request_id)
        try:
            name = topic_name(request)
            async with asyncio.timeout(ANSWERED_WITHIN):
                await self._be_fresh()
                topic, found = await self._check_when_ready(request, name, request_id)
                if isinstance(found, HttpAnswer):
                    return found
                if isinstance(found, AppError):
                    return self._refused(request, topic, found, request_id)
                # The order of writes: the answer comes after everything that matches is stored.
                await self._store(found)
        except TimeoutError:
            return self._refused(request, topic, StorageUnavailable(), request_id)
        except AppError as error:
            return self._refused(request, topic, error, request_id)
        finally:
            self._under_way.discard(request_id)
        return accepted_answer(request, request_id)

    async def accept(self, topic: Topic, events: Sequence[Event], publish_id: str) -> None:
        """
        Publish events of our own to *topic*, as those of a request.

        Raises:
            StorageUnavailable: they may or may not be stored.
        """
        origin = Origin(publish_id, self.clock.now(), None)
        match_all = partial(self._publication, topic, origin, events)
        self._under_way.add(publish_id)
        try:
            async with asyncio.timeout(ANSWERED_WITHIN):
                await self._be_fresh()
                await self._store(await self.off_loop(match_all))
        except TimeoutError as error:
            raise StorageUnavailable from error
        finally:
            self._under_way.discard(publish_id)

    async def _be_fresh(self) -> None:
        if self.fresh:
            await self.fresh()

    async def _store(self, publication: Publication) -> None:
        if publication.matched:
            await self.commits.commit(publication)
        else:
            self.report.published({0: publication})

    def _is_quick(self, request: HttpRequest, name: str) -> bool:
        """Tell whether a request can be checked and matched in well under a millisecond."""
        size = len(request.body)
        return (
            size <= QUICK_BODY
            and "authorization" not in request.headers  # a token's keys may have to be fetched
            and self.topics.knows(name, QUICK_MATCH // max(size, 1))
        )

    async def _check_when_ready(
        self, request: HttpRequest, name: str, request_id: str
    ) -> tuple[Topic | None, _Outcome]:
        check = partial(self._check, request, name, request_id)
        if not self._is_quick(request, name):
            await self.topics.ready(name)
            if not self._is_quick(request, name):
                return await self.off_loop(check)
        return check()

    def _check(
        self, request: HttpRequest, name: str, request_id: str
    ) -> tuple[Topic | None, _Outcome]:
        """Check a request; it may have been refused by the time this ends, so it tells nobody."""
        topic = None
        try:
            topic = self.topics.topic(name)
            return topic, self._judge(request, name, topic, request_id)
        except AppError as error:
            return topic, error

    def _refused(
        self, request: HttpRequest, topic: Topic | None, error: AppError, request_id: str
    ) -> HttpAnswer:
        self.report.refused(request, topic, error, request_id)
        return error_answer(request, error, request_id)

    def _judge(
        self, request: HttpRequest, name: str, topic: Topic | None, request_id: str
    ) -> Publication | HttpAnswer:
        if request.method not in data_plane(request).methods:
            raise MethodNotAllowed
        # Before 404: the answer to a wrong key is the same whether the topic exists or not. A
        # topic that refuses keys or networks says so by its name; names are not secret.
        self.authorization.check(request, topic or self.topics.absent(name))
        if topic is None:
            raise NotFound(no_resource(request))
        if request.method == "OPTIONS":
            return options_answer(request, topic, request_id)
        arrival = Arrival(self.clock.now(), _publish_id(topic, request, request_id))
        events = read_events(request, topic, arrival)
        trace = trace_context(request.headers)
        origin = Origin(arrival.publish_id, arrival.at, None, trace=trace)
        return self._publication(topic, origin, events)

    def _publication(self, topic: Topic, origin: Origin, events: Sequence[Event]) -> Publication:
        now = trusted_now(self.clock)
        subscriptions = [
            each
            for each in self.subscriptions.of_topic(topic.name)
            if each.has_consented and not each.is_expired(now)
        ]
        return Publication.of(
            events,
            subscriptions,
            topic=topic.name,
            origin=origin,
            keep_until=origin.published_at + self.payloads_kept_for(topic),
            message_size=self.message_size,
        )


def _publish_id(topic: Topic, request: HttpRequest, request_id: str) -> str:
    """
    Return the id of what is published; a retry by the publisher's SDK has the same id.

    The SDKs keep ``x-ms-client-request-id`` on retries; without it every request is new.
    """
    client_id = request.headers.get("x-ms-client-request-id")
    if not client_id:
        return request_id.replace("-", "")
    digest = hashlib.sha256(request.body).hexdigest()
    return uuid.uuid5(_PUBLISH_IDS, f"{topic.name.lower()}|{client_id}|{digest}").hex
