"""Which delivery rules hold for a subscription."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from shared.delivery.policy import DeliveryTerms
from shared.delivery.profiles import PROFILES, DeliveryProfile
from shared.engine.ports import TopicReader
from shared.subscriptions.subscription import EventSubscription
from shared.subscriptions.topic_codec import PROFILE_TAG


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The deployment's choice of profile and of time scale."""

    topics: TopicReader
    default_profile: str
    time_scale: float

    @property
    def default(self) -> DeliveryProfile:
        """Return the deployment's profile, scaled."""
        return PROFILES[self.default_profile].scaled(self.time_scale)

    def terms(self, subscription: EventSubscription) -> DeliveryTerms:
        """Return the rules for one subscription: the topic's tag wins over the default."""
        topic = self.topics.topic(subscription.topic)
        tagged = PROFILES.get(topic.tags.get(PROFILE_TAG, "")) if topic else None
        profile = tagged or PROFILES[self.default_profile]
        policy = subscription.retry_policy
        return DeliveryTerms(
            profile=profile.scaled(self.time_scale),
            max_attempts=policy.max_delivery_attempts,
            time_to_live=timedelta(minutes=policy.event_time_to_live_minutes) / self.time_scale,
        )
