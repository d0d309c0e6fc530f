"""Deletes event subscriptions with their endpoints' health, and notifies the endpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared import telemetry
from shared.arm.subscription_codec import to_subscription_in_force
from shared.clock import Clock
from shared.engine.manage.notifier import ParallelNotifier
from shared.engine.ports import Document, Resource, ResourceStore, Table
from shared.errors import UNREADABLE, StorageUnavailable
from shared.http import OutboundRequest
from shared.subscriptions.destination import EndpointType
from shared.subscriptions.system_event import build_deletion_notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Deletes event subscriptions; deliveries that wait for them are dropped."""

    resources: ResourceStore
    notifier: ParallelNotifier
    new_id: Callable[[], str]
    clock: Clock

    def delete(self, row: Resource, topic: str) -> bool:
        """Delete one event subscription; return whether it was still there."""
        if not self.resources.delete(Table.EVENT_SUBSCRIPTIONS, topic, row.name):
            return False
        self._delete_health(topic, row.name)
        self._notify([row])
        return True

    def delete_all(self, topic: str) -> None:
        """Delete all event subscriptions of a topic."""
        self._delete_rows(topic, lambda _: True)
        self._delete_health(topic, None)

    def delete_some(self, topic: str, is_meant: Callable[[Document], bool]) -> None:
        """Delete the event subscriptions of a topic whose documents are meant."""
        for row in self._delete_rows(topic, is_meant):
            self._delete_health(topic, row.name)

    def _delete_rows(self, topic: str, is_meant: Callable[[Document], bool]) -> list[Resource]:
        """Delete rows and notify their endpoints, also if a row fails: a repeat lists them not."""
        deleted: list[Resource] = []
        try:
            for row in self.resources.list(Table.EVENT_SUBSCRIPTIONS, topic):
                key = Table.EVENT_SUBSCRIPTIONS, topic, row.name
                if is_meant(row.document) and self.resources.delete(*key):
                    deleted.append(row)
        finally:
            self._notify(deleted)
        return deleted

    def _delete_health(self, topic: str, name: str | None) -> None:
        """
        Delete the endpoint health of one subscription or, without *name*, of all of a topic.

        Best effort: a row that remains names a generation that no longer exists, and is ignored.
        """
        try:
            rows = [] if name else self.resources.list(Table.ENDPOINT_HEALTH, topic)
            for each in [name] if name else [row.name for row in rows]:
                self.resources.delete(Table.ENDPOINT_HEALTH, topic, each)
        except StorageUnavailable as error:
            telemetry.error("health.not_deleted", topic=topic, subscription=name, detail=str(error))

    def _notify(self, deleted: Sequence[Resource]) -> None:
        """Notify the endpoints that had consented; best effort, and bounded in time."""
        self.notifier.notify([notice for each in deleted if (notice := self._notice(each))])

    def _notice(self, deleted: Resource) -> OutboundRequest | None:
        try:
            subscription = to_subscription_in_force(deleted.document)
        except UNREADABLE:  # An unreadable document can still be deleted.
            return None
        is_webhook = subscription.destination.kind is EndpointType.WEBHOOK
        if not subscription.has_consented or not is_webhook:
            return None
        return build_deletion_notice(subscription, event_id=self.new_id(), now=self.clock.now())
