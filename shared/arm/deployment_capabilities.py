"""Defines a request for an event subscription, and what it depends on: deployment and topic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.arm.sections import Document
from shared.delivery.delivery_profile import DeliveryProfile
from shared.events.topic import InputSchema
from shared.settings.storage_settings import with_own_account


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentCapabilities:
    """The settings of this app that limit what documents can ask for."""

    account: str  # the app's storage account
    profiles: Mapping[str, DeliveryProfile]
    default_profile: str
    dead_letter_accounts: Collection[str] = ()  # others that can hold dead letters
    # Those among them of which it is known where their queues are.
    queue_accounts: Collection[str] = ()
    has_queues: bool = True  # the app's own account has queues for users
    allow_http: bool = False  # endpoints without TLS
    has_webhook_identity: bool = False  # the app can get Entra ID tokens for webhooks
    has_client_ip_header: bool = False  # the front end passes on the publishers' addresses
    # Of the app itself, which no endpoint can have.
    app_addresses: frozenset[tuple[str, int]] = frozenset()

    @property
    def known_accounts(self) -> tuple[str, ...]:
        """The storage accounts that can have dead letters, the app's own first."""
        return with_own_account(self.account, self.dead_letter_accounts)

    def profile(self, tagged: str | None) -> DeliveryProfile:
        """Return the *tagged* profile, or the default one."""
        return self.profiles.get(tagged or "") or self.profiles[self.default_profile]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentTopic:
    """The topic of an event subscription."""

    name: str  # on the data plane
    arm_id: str
    input_schema: InputSchema
    profile: DeliveryProfile
    retention: timedelta | None = None  # how long the topic keeps events; ``None``: no limit
    # The ARM id below which its subscriptions are; empty: its own, whichever form a client uses.
    holder: str = ""

    def subscription_id(self, name: str) -> str:
        """Return the ARM id of the event subscription *name*."""
        return f"{self.holder or self.arm_id}/eventSubscriptions/{name}"

    def has(self, subscription_id: object) -> bool:
        """Tell whether a stored subscription is below the *holder*; what has no id counts as so."""
        if not self.holder or not isinstance(subscription_id, str):
            return True
        return subscription_id.casefold().startswith(f"{self.holder}/".casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRequest:
    """The PUT of a subscription, and the values that its validation depends on."""

    name: str
    body: object
    topic: ParentTopic
    deployment: DeploymentCapabilities
    new_id: Callable[[], str]
    new_key: Callable[[], str]  # Base64 of 24 to 64 random bytes
    now: datetime
    by: str  # whose request it is
    existing: Document | None = None  # the stored document that it replaces
    keeps_url: bool = False  # a destination without a URL keeps the existing one's
    damaged: Document | None = None  # a stored document that can't be read


def under(profile: DeliveryProfile) -> str:
    """Return the phrase that ends a fault about what a profile allows."""
    return f" under the delivery profile {profile.name}"
