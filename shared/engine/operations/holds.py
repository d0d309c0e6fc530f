"""Lists the subscriptions that are paused or whose endpoint is held, of the whole deployment."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from shared.arm.pause_codec import to_pause
from shared.arm.subscription_codec import to_subscription_in_force
from shared.delivery.furthest import Bounds
from shared.delivery.health.availability import Availability, Open
from shared.delivery.health.availability import availability as availability_of
from shared.delivery.health.endpoint_health import Health, HoldReason, bounded_health, endpoint_id
from shared.delivery.health.health_document import health_of
from shared.engine.ports import ResourceStore, Table
from shared.errors import UNREADABLE
from shared.subscriptions.subscription import EventSubscription


class HeldSubscription(NamedTuple):
    """A subscription that gets nothing now, and why: its pause, an automatic hold, or both."""

    subscription: EventSubscription
    availability: Availability
    reasons: tuple[HoldReason, ...]


def held_subscriptions(resources: ResourceStore, now: datetime) -> list[HeldSubscription]:
    """
    Read all subscriptions that get nothing now, in the order of their topics and names.

    Rows that can't be read hold nothing, and are left out.

    Raises:
        StorageUnavailable: storage did not answer.
    """
    held = held_endpoints(resources, now)
    found = []
    for row in resources.list_all(Table.EVENT_SUBSCRIPTIONS):
        with suppress(*UNREADABLE):
            if held or to_pause(row.document):
                found.append(_judged(to_subscription_in_force(row.document), held, now))
    return [each for each in found if each.reasons]


def held_endpoints(resources: ResourceStore, now: datetime) -> dict[str, Health]:
    """
    Read the health of each endpoint that has a hold, by its id, bounded as delivering reads it.

    Rows that can't be read hold none.

    Raises:
        StorageUnavailable: storage did not answer.
    """
    held = {}
    for row in resources.list_all(Table.ENDPOINT_HEALTH):
        with suppress(*UNREADABLE):
            health = bounded_health(health_of(row.document), Bounds(now))
            if health.hold:
                held[health.endpoint] = health
    return held


def _judged(
    subscription: EventSubscription, held: dict[str, Health], now: datetime
) -> HeldSubscription:
    health = held.get(endpoint_id(subscription))
    availability = availability_of(health, now) if health else Open()
    reasons = [HoldReason.PAUSE] if subscription.pause else []
    if health and health.hold and not isinstance(availability, Open):
        reasons.append(health.hold.reason)
    return HeldSubscription(subscription, availability, tuple(reasons))
