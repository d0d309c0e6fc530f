"""Signs the request of a batch for a subscription that asks for it."""

from __future__ import annotations

import uuid
from datetime import datetime

from shared.delivery.requests.push_batch import PushBatch
from shared.http import OutboundRequest
from shared.subscriptions.signing import sign
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

_BATCHES = uuid.UUID("0d3c3f0b-4b1e-4f0e-9c39-7d6a1c2f5e88")


def with_signature(
    request: OutboundRequest, subscription: EventSubscription, batch: PushBatch, at: datetime
) -> OutboundRequest:
    """Return *request* signed as of its attempt *at*; unchanged without secrets."""
    if not subscription.signing:
        return request
    return sign(request, subscription.signing, _message_id(batch, subscription.key), at)


def _message_id(batch: PushBatch, key: SubscriptionKey) -> str:
    """Return an id that is equal at every attempt: the event's, or one of exactly these events."""
    ids = sorted(delivery.system_id(key) for delivery, _ in batch)
    return ids[0] if len(ids) == 1 else str(uuid.uuid5(_BATCHES, "/".join(ids)))
