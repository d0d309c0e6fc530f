"""Records every message that can't be handled in the container ``poison``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared import telemetry
from shared.clock import Clock, timestamp
from shared.deadletter.paths import blob_path
from shared.delivery.delivery import Delivery
from shared.delivery.policy import EndReason, EndState
from shared.engine.ports import DeadLetterStore, Queue
from shared.engine.ports.settling import Ended
from shared.events.literals import dumps, loads
from shared.subscriptions.subscription import SubscriptionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonRecords:
    """Writes to the app's container ``poison``; what is recorded has ended."""

    store: DeadLetterStore
    clock: Clock
    new_id: Callable[[], str]
    hear: Callable[[Ended], object]

    def write(
        self,
        queue: Queue,
        body: str,
        reason: str,
        deliveries: Sequence[tuple[SubscriptionKey, Delivery]] = (),
    ) -> None:
        """
        Store the message *body* from *queue*, with the events of *deliveries*, which end by that.

        Raises:
            StorageUnavailable: the message must not be deleted.
        """
        now = self.clock.now()
        path = blob_path(queue, now, self.new_id())
        record = {
            "queue": queue,
            "reason": reason,
            "recordedAt": timestamp(now),
            "body": body,
            "events": [_readable(each.text) for _, each in deliveries],
        }
        self.store.write_poison(path, dumps(record, indent=1).encode("ascii"))
        telemetry.error("message.poisoned", queue=queue, reason=reason, record=f"poison/{path}")
        for key, each in deliveries:
            self.hear(Ended(key, each, EndReason.POISON, EndState.RECORDED))


def _readable(text: str | None) -> object:
    """Return an event's JSON, or its text if it is not JSON."""
    try:
        return text and loads(text)
    except (ValueError, RecursionError):
        return text
