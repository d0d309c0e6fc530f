"""Turns a message into parts: what one subscription gets of it, with what deciding needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from shared import telemetry
from shared.clock import Clock, trusted_now
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import encode_remaining
from shared.delivery.messages.publication import wants
from shared.delivery.policy import End, EndReason, EndState, before_attempt
from shared.engine.delivering.in_hand import Part
from shared.engine.keeping.deployment_terms import DeploymentTerms
from shared.engine.keeping.payload_texts import with_texts
from shared.engine.keeping.poison_records import PoisonRecords
from shared.engine.ports import (
    Metrics,
    OffLoop,
    PayloadStore,
    Queue,
    SubscriptionReader,
    TopicReader,
)
from shared.engine.ports.settling import Ended, FollowUp, Settlement
from shared.errors import StorageUnavailable, UnreadableDocument
from shared.metrics import Metric
from shared.subscriptions.subscription import UNMATCHED, EventSubscription

STORAGE_RETRY_DELAY = timedelta(minutes=1)  # of what waits for storage to be read
EARLY_RECEIPT = timedelta(seconds=2)  # before its due time: what is received earlier is requeued
UNREADABLE_AGAIN_IN = timedelta(minutes=5)  # until a subscription may be readable


@dataclass(frozen=True, slots=True, kw_only=True)
class PartJudge:
    """Reads what judging deliveries needs: `from_cache` on the loop, all else on threads."""

    subscriptions: SubscriptionReader
    payloads: PayloadStore
    topics: TopicReader
    terms: DeploymentTerms
    records: PoisonRecords
    metrics: Metrics
    clock: Clock

    def from_cache(self, part: MessagePart) -> Part | Settlement | None:
        """
        Return the judged part; ``None``: it needs a read.

        Raises:
            StorageUnavailable: it is to come `later`.
        """
        if part.due is not None and part.due - self.clock.now() > EARLY_RECEIPT:
            return comes_back(part, part.due)
        # However many subscriptions it has: only one is asked for.
        is_known = self.topics.knows(part.topic, most=sys.maxsize)
        has_texts = all(each.text is not None for each in part.deliveries)
        if not is_known or not has_texts or part.generation == UNMATCHED:
            return None
        try:
            judged = self._by_cache(part)
        except UnreadableDocument:
            return None
        return None if judged is None or judged.ended else judged

    async def ready(self, part: MessagePart) -> None:
        """
        Have topic and subscriptions of a part read for `from_storage`, with others that wait.

        Raises:
            StorageUnavailable: they can't be read.
        """
        await self.topics.ready(part.topic)

    def from_storage(self, part: MessagePart) -> Part | Settlement:
        """
        Return what `from_cache` could not.

        Raises:
            StorageUnavailable: it is to come `later`.
        """
        try:
            return self._part(part)
        except UnreadableDocument:
            return self._keep_unreadable(part)

    def later(self, part: MessagePart) -> Settlement:
        """Return what can't be judged now, for want of storage or of a thread to read by."""
        return comes_back(part, self.clock.now() + STORAGE_RETRY_DELAY)

    async def as_cached(
        self, subscription: EventSubscription, off_loop: OffLoop
    ) -> EventSubscription:
        """
        Return a subscription as the cache has it, or as it was if it is deleted.

        Raises:
            StorageUnavailable: it can't be read.
        """
        await self.topics.ready(subscription.topic)
        known = await off_loop(partial(self.subscriptions.subscription, subscription.key))
        return known or subscription

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

    def _part(self, part: MessagePart) -> Part | Settlement:
        """Return the judged part, or drop it; what ends anything is read uncached."""
        judged = self._by_cache(part)
        if judged and not judged.ended:
            return judged
        stored = self.subscriptions.read_uncached(part.key)
        fresh = self._in_force(stored, part)
        if isinstance(fresh, EndReason):
            ends = [Ended(part.key, each, fresh, EndState.DROPPED) for each in part.deliveries]
            return Settlement(part=part, ends=ends, subscription=stored)
        if judged and fresh == judged.subscription:
            # That read has compared the clock with storage's.
            return judged if self.clock.is_trusted else self._judged(judged.source, fresh)
        return self._judged(part, fresh)

    def _by_cache(self, part: MessagePart) -> Part | None:
        """Return the part judged by what the cache says; ``None``: no subscription is in force."""
        found = self._in_force(self.subscriptions.subscription(part.key), part)
        return None if isinstance(found, EndReason) else self._judged(part, found)

    def _keep_unreadable(self, part: MessagePart) -> Settlement:
        """
        Keep what waits for a subscription that can't be read; record what is too old.

        Its own time to live is unknown: the longest that its topic allows counts.

        Raises:
            StorageUnavailable: some may be recorded.
        """
        now, longest = trusted_now(self.clock), self.terms.longest_time_to_live(part.topic)
        kept: list[Delivery] = []
        old: list[Delivery] = []
        for each in part.deliveries:
            is_young = now - each.origin.published_at < longest
            (kept if is_young else old).append(each)
        if old:
            body = encode_remaining(replace(part, deliveries=tuple(old)))
            its = [(part.key, each) for each in with_texts(old, self.payloads)]
            self.records.write(Queue.RETRIES, body, "its event subscription can't be read", its)
        telemetry.warning(
            "delivery.unreadable",
            topic=part.topic,
            subscription=part.subscription,
            kept=len(kept),
            recorded=len(old),
        )
        again_at = self.clock.now() + UNREADABLE_AGAIN_IN
        waiting = replace(part, deliveries=tuple(kept), due=again_at)
        return Settlement(part=part, follow_ups=[FollowUp(waiting, is_held=True)] if kept else ())

    def _in_force(
        self, found: EventSubscription | None, part: MessagePart
    ) -> EventSubscription | EndReason:
        if found is None or not found.owns(part.generation):
            return EndReason.SUBSCRIPTION_DELETED
        if not found.has_consented:  # It replaced one that could not be read.
            raise UnreadableDocument
        is_expired = found.is_expired(trusted_now(self.clock))
        return EndReason.SUBSCRIPTION_EXPIRED if is_expired else found

    def _judged(self, part: MessagePart, subscription: EventSubscription) -> Part:
        now, terms = trusted_now(self.clock), self.terms.of(subscription)
        loaded = with_texts(part.deliveries, self.payloads)
        if part.generation == UNMATCHED:
            part, loaded = self._matched(part, loaded, subscription)
        to_push: list[Delivery] = []
        ended: list[tuple[Delivery, End]] = []
        lost: list[Delivery] = []
        for each in loaded:
            end = before_attempt(each, terms, now)
            if each.text is None:
                lost.append(each)
            elif end is None:
                to_push.append(each)
            else:
                ended.append((each, end))
        return Part(
            source=part,
            subscription=subscription,
            terms=terms,
            to_push=tuple(to_push),
            ended=tuple(ended),
            lost=tuple(lost),
        )

    def _matched(
        self, part: MessagePart, loaded: Sequence[Delivery], subscription: EventSubscription
    ) -> tuple[MessagePart, list[Delivery]]:
        """Apply the filter of a subscription that could not be read when it was published to."""
        wanted = [each for each in loaded if each.text is None or wants(subscription, each.text)]
        topic, name = subscription.key
        matched = replace(
            part,
            topic=topic,
            subscription=name,
            generation=subscription.generation,
            deliveries=tuple(wanted),
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


def comes_back(part: MessagePart, due: datetime) -> Settlement:
    """Return the settlement of a part that comes back unjudged."""
    return Settlement(part=part, follow_ups=[FollowUp(replace(part, due=due))])
