"""Derives a subscription's terms from its profile, its settings and the deployment's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from shared.delivery.delivery_profile import DeliveryProfile, Feature
from shared.delivery.policy import DeliveryTerms
from shared.delivery.profiles import PROFILES
from shared.engine.ports import TopicReader
from shared.events.topic import Topic
from shared.subscriptions.subscription import (
    NO_BATCHING,
    DeadLetterDestination,
    EventSubscription,
    RetryPolicy,
)

# A day of trying, waits, holds, a dead letter's writes, and a reserve.
LEAST_KEPT = timedelta(days=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentTerms:
    """The deployment's part of the terms: profile, time scale, and what editions leave open."""

    topics: TopicReader
    default_profile: str
    time_scale: float
    account: str = ""  # the app's storage account
    honor_retry_after: bool = False
    probation_counts_attempt: bool = False
    probation_ends_events: bool = False

    def of(self, subscription: EventSubscription) -> DeliveryTerms:
        """Return the terms of one subscription: the topic's tag wins over the default."""
        topic = self.topics.topic(subscription.topic)
        profile = self._profile(topic)
        max_attempts, time_to_live = _limits(profile, subscription.retry_policy)
        if topic and topic.retention:
            time_to_live = min(time_to_live, topic.retention)
        has = profile.features.__contains__
        return DeliveryTerms(
            profile=profile,
            max_attempts=max_attempts,
            time_to_live=time_to_live,
            dead_letter=self._dead_letter(subscription) if has(Feature.DEAD_LETTERS) else None,
            batching=subscription.batching if has(Feature.OUTPUT_BATCHING) else NO_BATCHING,
            headers=subscription.headers if has(Feature.CUSTOM_HEADERS) else (),
            endpoint=subscription.destination.kind,
            time_scale=self.time_scale,
            honor_retry_after=self.honor_retry_after,
            probation_counts_attempt=self.probation_counts_attempt,
            probation_ends_events=self.probation_ends_events,
        )

    def payloads_kept_for(self, topic: Topic) -> timedelta:
        """Return how long a topic's events are kept: longer than any of its messages lives."""
        _, _, longest = self._profile(topic).limits.time_to_live
        return max(2 * longest, LEAST_KEPT)

    def longest_time_to_live(self, name: str) -> timedelta:
        """
        Return the real time for which any subscription of a topic may keep an event.

        Raises:
            StorageUnavailable: the topic can't be read.
        """
        topic = self.topics.topic(name)
        _, _, longest = self._profile(topic).limits.time_to_live
        retention = topic.retention if topic else None
        return min(longest, retention or longest) / self.time_scale

    def _dead_letter(self, subscription: EventSubscription) -> DeadLetterDestination | None:
        """Return the destination; the app's own account is not named: it may be moved."""
        given = subscription.dead_letter
        return replace(given, account="") if given and given.account == self.account else given

    def _profile(self, topic: Topic | None) -> DeliveryProfile:
        tagged = PROFILES.get(topic.profile or "") if topic else None
        return tagged or PROFILES[self.default_profile]


def _limits(profile: DeliveryProfile, policy: RetryPolicy) -> tuple[int | None, timedelta]:
    """Return the limits; a value outside the profile's range counts as not given."""
    attempts = profile.limits.attempts
    time_to_live, shortest, longest = profile.limits.time_to_live
    given = timedelta(minutes=policy.event_time_to_live_minutes or 0)
    if shortest <= given <= longest:
        time_to_live = given
    if attempts is None:
        return None, time_to_live
    default, fewest, most = attempts
    chosen = policy.max_delivery_attempts or 0
    return chosen if fewest <= chosen <= most else default, time_to_live
