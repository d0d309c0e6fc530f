"""What documents must respect in this deployment, whatever resource they describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from shared.delivery.profile import DeliveryProfile, Feature
from shared.events.topic import InputSchema

Range = tuple[int, int, int]  # default, least and most; equal where nothing can be chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileLimits:
    """
    What a subscription can ask for under the delivery profile *name*.

    *attempts* ``None``: they have no limit. *minutes* are those of the time to live.
    """

    name: str
    attempts: Range | None
    minutes: Range
    has_dead_letters: bool = True
    has_batching: bool = True
    has_custom_headers: bool = True

    @property
    def whose(self) -> str:
        """Say whose limits these are, at the end of a sentence."""
        return f" under the delivery profile {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """
    What resources can refer to.

    *account* is the app's own storage account, the only one that dead letters go to. *profiles*
    are the delivery profiles there are, by name. *allow_http* lets endpoints have no TLS. With
    *has_webhook_identity* there are tokens for webhooks that Entra ID protects.
    *knows_clients* says that the front end tells the publishers' addresses. *own_addresses* are the
    host and port pairs under which this app is known: no endpoint is there.
    """

    account: str
    profiles: Mapping[str, ProfileLimits]
    default_profile: str
    allow_http: bool = False
    has_webhook_identity: bool = False
    knows_clients: bool = False
    own_addresses: frozenset[tuple[str, int]] = frozenset()

    def limits(self, tagged: str | None) -> ProfileLimits:
        """Return the limits of the profile that a topic is tagged with, else of the default."""
        return self.profiles.get(tagged or "") or self.profiles[self.default_profile]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentTopic:
    """
    What an event subscription has to respect of its topic.

    *name* is the one that the data plane uses. *retention* is how long the topic keeps events at
    most; ``None``: no limit of its own.
    """

    name: str
    arm_id: str
    input_schema: InputSchema
    limits: ProfileLimits
    retention: timedelta | None = None


def limits_of(profile: DeliveryProfile) -> ProfileLimits:
    """Return what subscriptions can ask for under *profile*."""
    default, shortest, longest = (
        each // timedelta(minutes=1) for each in profile.limits.time_to_live
    )
    return ProfileLimits(
        name=profile.name,
        attempts=profile.limits.attempts,
        minutes=(default, shortest, longest),
        has_dead_letters=Feature.DEAD_LETTERS in profile.features,
        has_batching=Feature.OUTPUT_BATCHING in profile.features,
        has_custom_headers=Feature.CUSTOM_HEADERS in profile.features,
    )
