"""
Writes documents that others may change at the same time, and deletes event subscriptions.

No update is ever lost silently. With a subscription goes its endpoint's health, and its endpoint is
notified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shared import telemetry
from shared.arm.subscription_codec import to_subscription_in_force
from shared.clock import Clock
from shared.engine.ports import Document, Notifier, Resource, ResourceStore, Table
from shared.errors import UNREADABLE, Conflict, StorageUnavailable
from shared.http import OutboundRequest
from shared.races import Backoff, tries
from shared.subscriptions.destination import EndpointType
from shared.subscriptions.system_event import build_deletion_notice


class DocumentKey(NamedTuple):
    """Identifies a stored document."""

    table: Table
    partition: str
    name: str


def write(
    resources: ResourceStore,
    key: DocumentKey,
    decide: Callable[[Resource | None], Document],
    backoff: Backoff,
    may_stay: Callable[[Resource], bool] = lambda _: True,
) -> Resource:
    """
    Store what *decide* makes of the current document.

    After a lost race it waits for *backoff*, reads again and decides again. *may_stay* judges a new
    document beside what others created meanwhile: one that may not stay is deleted again, and
    counts as a lost race.

    Raises:
        Conflict: every try lost its race.
    """
    for _ in tries(backoff):
        existing = resources.get(*key)
        document = decide(existing)
        try:
            stored = resources.put(*key, document, existing.etag if existing else None)
        except Conflict:
            continue
        if existing or may_stay(stored):
            return stored
        resources.delete(*key, stored.etag)
    raise Conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Deletes event subscriptions; deliveries that wait for them are dropped."""

    resources: ResourceStore
    notifier: Notifier
    new_id: Callable[[], str]
    clock: Clock

    def delete(self, row: Resource, topic: str) -> bool:
        """Delete one event subscription; return whether it was still there."""
        if not self.resources.delete(Table.EVENT_SUBSCRIPTIONS, topic, row.name):
            return False
        self._delete_health(topic, row.name)
        self._notify([row])
        return True

    def delete_all(self, topic: str, is_meant: Callable[[Document], bool] | None = None) -> None:
        """Delete the event subscriptions of a topic that are meant, or all."""
        deleted = [
            row
            for row in self.resources.list(Table.EVENT_SUBSCRIPTIONS, topic)
            if (is_meant is None or is_meant(row.document))
            and self.resources.delete(Table.EVENT_SUBSCRIPTIONS, topic, row.name)
        ]
        for each in [None] if is_meant is None else [row.name for row in deleted]:
            self._delete_health(topic, each)
        self._notify(deleted)

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
