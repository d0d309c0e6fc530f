"""Cleans up after deleted event subscriptions: endpoint health, and notices to endpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shared import telemetry
from shared.arm.subscription_codec import to_subscription_in_force
from shared.engine.manage.call import ManagePorts
from shared.engine.ports import Document, Resource, Table
from shared.errors import UNREADABLE, StorageUnavailable
from shared.http import OutboundRequest
from shared.subscriptions.destination import EndpointType
from shared.subscriptions.system_event import build_deletion_notice


def delete_subscriptions(
    ports: ManagePorts, topic: str, is_meant: Callable[[Document], bool] | None = None
) -> None:
    """Delete event subscriptions of a topic, or all; deliveries that wait for them are dropped."""
    deleted = [
        subscription
        for subscription in ports.resources.list(Table.EVENT_SUBSCRIPTIONS, topic)
        if (is_meant is None or is_meant(subscription.document))
        and ports.resources.delete(Table.EVENT_SUBSCRIPTIONS, topic, subscription.name)
    ]
    for each in [None] if is_meant is None else [row.name for row in deleted]:
        delete_health(ports, topic, each)
    send_deletion_notices(ports, deleted)


def delete_health(ports: ManagePorts, topic: str, name: str | None = None) -> None:
    """
    Delete the endpoint health of one subscription or, without *name*, of all of a topic.

    Best effort: a row that remains names a generation that no longer exists, and is ignored.
    """
    try:
        rows = [] if name else ports.resources.list(Table.ENDPOINT_HEALTH, topic)
        for each in [name] if name else [row.name for row in rows]:
            ports.resources.delete(Table.ENDPOINT_HEALTH, topic, each)
    except StorageUnavailable as error:
        telemetry.error("health.not_deleted", topic=topic, subscription=name, detail=str(error))


def send_deletion_notices(ports: ManagePorts, deleted: Sequence[Resource]) -> None:
    """Notify the endpoints that had consented; best effort, and bounded in time."""
    ports.notifier.notify([notice for each in deleted if (notice := _notice(ports, each))])


def _notice(ports: ManagePorts, deleted: Resource) -> OutboundRequest | None:
    try:
        subscription = to_subscription_in_force(deleted.document)
    except UNREADABLE:  # An unreadable document can still be deleted.
        return None
    if not subscription.has_consented or subscription.destination.kind is not EndpointType.WEBHOOK:
        return None
    return build_deletion_notice(subscription, event_id=ports.new_id(), now=ports.clock.now())
