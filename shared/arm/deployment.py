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
    def under_profile(self) -> str:
        """The end of a sentence about these limits."""
        return f" under the delivery profile {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """
    The settings of this app that limit what documents can ask for.

    *account* is the app's storage account, the only one that can hold dead letters. *profiles*
    maps names to the limits of each delivery profile. *allow_http* permits endpoints without TLS.
    *has_webhook_identity*: the app can get Entra ID tokens for webhooks. *has_client_ip_header*:
    the front end passes on the publishers' addresses. *own_addresses* are the (host, port) pairs
    of the app itself, which no endpoint can have.
    """

    account: str
    profiles: Mapping[str, ProfileLimits]
    default_profile: str
    allow_http: bool = False
    has_webhook_identity: bool = False
    has_client_ip_header: bool = False
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


def profile_limits(profile: DeliveryProfile) -> ProfileLimits:
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
