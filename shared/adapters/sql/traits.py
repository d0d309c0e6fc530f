"""Names the limits of a store in an SQL database."""

from __future__ import annotations

from shared.engine.ports.store import StoreTraits

SQL = StoreTraits(
    # Larger events are stored once, beside their messages: each retry stores its message anew.
    message_size=64 * 1024,
    most_in_hand=4096,
    hiding=None,
    has_poison_queues=False,
    has_other_queues=False,
    keeps_attempts=True,
)
