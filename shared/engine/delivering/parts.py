"""Turns a message into parts: what one subscription gets of it, with what deciding needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from shared import telemetry
from shared.clock import Clock
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import encode_parts
from shared.delivery.messages.publication import wants
from shared.delivery.policy import DeliveryTerms, End, EndReason, Go, before_attempt
from shared.delivery.requests.push_request import Loaded
from shared.engine.delivering.attempt_recorder import log_dropped
from shared.engine.delivering.deployment_terms import DeploymentTerms
from shared.engine.delivering.poison_records import PoisonRecords
from shared.engine.delivering.requeue import LONG_HOLD, LONG_WAIT
from shared.engine.ports import Metrics, PayloadStore, Queue, SubscriptionReader
from shared.errors import StorageUnavailable, UnreadableDocument
from shared.metrics import Metric
from shared.subscriptions.subscription import UNMATCHED, EventSubscription

EARLY_RECEIPT = timedelta(seconds=2)  # before its due time: what is received earlier is put back
STORAGE_RETRY_DELAY = timedelta(minutes=1)
UNREADABLE_AGAIN_IN = timedelta(minutes=5)  # until a subscription may be readable

_WithTexts = Sequence[tuple[Delivery, str | None]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedPart:
    """The deliveries of one subscription in a message, judged before their attempt."""

    message: MessagePart
    subscription: EventSubscription
    terms: DeliveryTerms
    to_push: tuple[Loaded, ...]
    ended: tuple[tuple[Loaded, End], ...]  # those that are not tried any more
    lost: tuple[Delivery, ...]  # those whose event is gone


class PutBack(NamedTuple):
    """Deliveries that come back when due, unjudged."""

    message: MessagePart
    long: timedelta = LONG_WAIT  # longer waits have no trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Reads what judging deliveries needs: `from_cache` on the loop, all else on threads."""

    subscriptions: SubscriptionReader
    payloads: PayloadStore
    terms: DeploymentTerms
    records: PoisonRecords
    metrics: Metrics
    clock: Clock

    def from_cache(self, message: MessagePart) -> JudgedPart | PutBack | None:
        """
        Return the part of one subscription; ``None``: it needs a read.

        Raises:
            StorageUnavailable: it is to be `put_back`.
        """
        if message.due is not None and message.due - self.clock.now() > EARLY_RECEIPT:
            return PutBack(message)
        is_known = self.terms.topics.knows(message.topic, most=sys.maxsize)
        has_texts = all(each.text is not None for each in message.deliveries)
        if not is_known or not has_texts or message.generation == UNMATCHED:
            return None
        try:
            _, part = self._by_cache(message)
        except UnreadableDocument:
            return None
        return None if part is None or part.ended else part

    def from_storage(self, message: MessagePart) -> JudgedPart | PutBack | None:
        """
        Return what `from_cache` could not; ``None``: it is dropped, or recorded.

        Raises:
            StorageUnavailable: it is to be `put_back`.
        """
        try:
            return self._part(message)
        except UnreadableDocument:
            return self._keep_unreadable(message)

    def put_back(self, message: MessagePart) -> PutBack:
        """Put back what can't be judged now, for want of storage or of a thread to read by."""
        return PutBack(replace(message, due=self.clock.now() + STORAGE_RETRY_DELAY))

    def current(self, subscription: EventSubscription) -> EventSubscription:
        """Return a subscription as it is now, or as it was if it can't be read."""
        try:
            return self.subscriptions.subscription(subscription.key) or subscription
        except StorageUnavailable:
            return subscription

    def is_unchanged(self, subscription: EventSubscription) -> bool:
        """
        Tell whether *subscription* is what is stored now; ``False`` if that can't be read.

        A pause changes nothing for what is under way.
        """
        try:
            found = self.subscriptions.read_uncached(subscription.key)
        except StorageUnavailable:
            return False
        return found is not None and replace(found, pause=subscription.pause) == subscription

    def _part(self, message: MessagePart) -> JudgedPart | None:
        """Return the part, or drop it; what ends anything is read uncached."""
        found, part = self._by_cache(message)
        if part and not part.ended:
            return part
        fresh = self._unless_ended(self.subscriptions.read_uncached(message.key), message)
        if isinstance(fresh, EndReason):
            texts = [delivery.text for delivery in message.deliveries]
            log_dropped(self.metrics, message.key, fresh, texts)
            return None
        return part if fresh == found else self._judged(message, fresh)

    def _by_cache(
        self, message: MessagePart
    ) -> tuple[EventSubscription | EndReason, JudgedPart | None]:
        """Return what the cache says, and the part by that, if its subscription is in force."""
        found = self._unless_ended(self.subscriptions.subscription(message.key), message)
        return found, None if isinstance(found, EndReason) else self._judged(message, found)

    def _keep_unreadable(self, message: MessagePart) -> PutBack | None:
        """
        Keep what waits for a subscription that can't be read; record what is too old.

        Its own time to live is unknown: the longest that its topic allows counts.

        Raises:
            StorageUnavailable: some may be recorded.
        """
        now, longest = self.clock.now(), self.terms.longest_time_to_live(message.topic)
        kept: list[Delivery] = []
        old: list[Delivery] = []
        for each in message.deliveries:
            is_young = now - each.origin.published_at < longest or not self.clock.is_settled
            (kept if is_young else old).append(each)
        for part, text in encode_parts(replace(message, deliveries=tuple(old))):
            events = [event for _, event in texts_of(part.deliveries, self.payloads)]
            self.records.write(Queue.RETRIES, text, "its event subscription can't be read", events)
        telemetry.warning(
            "delivery.unreadable",
            topic=message.topic,
            subscription=message.subscription,
            kept=len(kept),
            recorded=len(old),
        )
        if not kept:
            return None
        again_at = now + UNREADABLE_AGAIN_IN
        waiting = replace(message, deliveries=tuple(kept), due=again_at)
        return PutBack(waiting, LONG_HOLD)  # there may be many

    def _unless_ended(
        self, found: EventSubscription | None, message: MessagePart
    ) -> EventSubscription | EndReason:
        if found is None or not found.owns(message.generation):
            return EndReason.SUBSCRIPTION_DELETED
        if not found.has_consented:  # It replaced one that could not be read.
            raise UnreadableDocument
        is_expired = found.is_expired(self.clock.now()) and self.clock.is_settled
        return EndReason.SUBSCRIPTION_EXPIRED if is_expired else found

    def _judged(self, message: MessagePart, subscription: EventSubscription) -> JudgedPart:
        now = self.clock.now()
        terms = replace(self.terms.of(subscription), ends_by_age=self.clock.is_settled)
        loaded: _WithTexts = texts_of(message.deliveries, self.payloads)
        if message.generation == UNMATCHED:
            message, loaded = self._matched(message, loaded, subscription)
        to_push: list[Loaded] = []
        ended: list[tuple[Loaded, End]] = []
        lost: list[Delivery] = []
        for delivery, text in loaded:
            verdict = before_attempt(delivery, terms, now)
            if text is None:
                lost.append(delivery)
            elif isinstance(verdict, Go):
                to_push.append(Loaded(delivery, text))
            else:
                ended.append((Loaded(delivery, text), verdict))
        return JudgedPart(
            message=message,
            subscription=subscription,
            terms=terms,
            to_push=tuple(to_push),
            ended=tuple(ended),
            lost=tuple(lost),
        )

    def _matched(
        self,
        message: MessagePart,
        loaded: _WithTexts,
        subscription: EventSubscription,
    ) -> tuple[MessagePart, _WithTexts]:
        """Apply the filter of a subscription that could not be read when it was published to."""
        wanted = [pair for pair in loaded if pair[1] is None or wants(subscription, pair[1])]
        topic, name = subscription.key
        matched = replace(
            message,
            topic=topic,
            subscription=name,
            generation=subscription.generation,
            deliveries=tuple(delivery for delivery, _ in wanted),
        )
        self.metrics.count(Metric.MATCHED, topic, name, by=len(wanted))
        telemetry.info(
            "delivery.matched",
            topic=topic,
            subscription=name,
            events=len(loaded),
            matched=len(wanted),
        )
        return matched, wanted


def texts_of(
    deliveries: Sequence[Delivery], payloads: PayloadStore
) -> list[tuple[Delivery, str | None]]:
    """
    Return each delivery with its event's text; ``None`` if its payload blob is missing.

    Raises:
        StorageUnavailable: a blob can't be read now.
    """
    names = {each.origin.payload for each in deliveries if each.text is None}
    blobs = {name: payloads.read(name) for name in names if name}
    return [
        (each, each.text if each.text is not None else _line(blobs, each)) for each in deliveries
    ]


def _line(blobs: dict[str, Sequence[str] | None], delivery: Delivery) -> str | None:
    lines = blobs.get(delivery.origin.payload or "") or ()
    line = delivery.origin.first_line + delivery.position
    return (lines[line] or None) if line < len(lines) else None
