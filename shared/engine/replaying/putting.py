"""Puts the events of a replay as deliveries that begin anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from shared.clock import Clock
from shared.delivery.delivery import Delivery, Origin
from shared.delivery.messages.message import DeliveryMessage
from shared.delivery.messages.packing import fits_inline
from shared.engine.delivering.deployment_terms import DeploymentTerms
from shared.engine.delivering.requeue import BlockingRequeue
from shared.engine.ports import PayloadStore
from shared.events.topic import Topic
from shared.subscriptions.subscription import EventSubscription


class ReplayTarget(NamedTuple):
    """The subscription that gets the events, and its topic."""

    subscription: EventSubscription
    topic: Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class PutEvents:
    """Puts events for one subscription: its filter is not asked."""

    payloads: PayloadStore
    requeue: BlockingRequeue
    terms: DeploymentTerms
    clock: Clock

    def put(
        self, target: ReplayTarget, publish_id: str, texts: Sequence[str], delay: timedelta
    ) -> None:
        """
        Store first deliveries of events, due after *delay*; their time to live begins now.

        The same *publish_id* and events give deliveries with the same ``aeg-output-event-id``.

        Raises:
            StorageUnavailable: some may be stored.
        """
        now = self.clock.now()
        inline = Origin(publish_id, now, None)
        parked = [text if not fits_inline(text, inline) else "" for text in texts]
        in_blob = inline
        if any(parked):
            keep_until = now + delay + self.terms.payloads_kept_for(target.topic)
            in_blob = inline._replace(payload=self.payloads.write(publish_id, keep_until, parked))
        subscription = target.subscription
        message = DeliveryMessage(
            topic=subscription.topic,
            subscription=subscription.name,
            generation=subscription.generation,
            deliveries=tuple(
                Delivery(origin=in_blob, position=number, text=None)
                if parked[number]
                else Delivery(origin=inline, position=number, text=text)
                for number, text in enumerate(texts)
            ),
            due=now + delay if delay else None,
            batch_size=subscription.batching.max_events,
        )
        self.requeue.at_due(message, patience=timedelta())  # The step is repeated, and tells so.
