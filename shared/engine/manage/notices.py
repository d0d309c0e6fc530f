"""Tells endpoints that their event subscriptions are deleted."""

from __future__ import annotations

from collections.abc import Sequence

from shared.arm.subscription_codec import to_subscription_in_force
from shared.engine.manage.call import ManagePorts
from shared.engine.ports import Resource
from shared.errors import UNREADABLE
from shared.http import OutboundRequest
from shared.subscriptions.deletion_notice import build_deletion_notice


def tell_endpoints(ports: ManagePorts, deleted: Sequence[Resource]) -> None:
    """Tell those that have ever consented to get events; best effort, and bounded in time."""
    ports.notifier.tell([notice for each in deleted if (notice := _notice(ports, each))])


def _notice(ports: ManagePorts, deleted: Resource) -> OutboundRequest | None:
    try:
        subscription = to_subscription_in_force(deleted.document)
    except UNREADABLE:  # It can be deleted all the same.
        return None
    if not subscription.has_consented:
        return None
    return build_deletion_notice(subscription, event_id=ports.new_id(), now=ports.clock.now())
