"""Composes the status routes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from shared.adapters.cache import Cache
from shared.engine.operations.holds import HeldSubscription, held_subscriptions
from shared.engine.operations.status import Snapshot, Status, take_snapshot
from shared.wiring import storage
from shared.wiring.process import CLOCK, once
from shared.wiring.settings import settings
from shared.wiring.timers import timer_runs

_KEEP_SECONDS = 3  # the health is public
_KEEP_HOLDS_SECONDS = 10  # all subscriptions are read
_WAIT_SECONDS = 4  # while storage hangs


@once
def status() -> Status:
    holds = Cache[Sequence[HeldSubscription]](time.monotonic, lambda _: _KEEP_HOLDS_SECONDS)
    snapshots = Cache[Snapshot | None](time.monotonic, lambda _: _KEEP_SECONDS)

    def snapshot() -> Snapshot | None:
        return snapshots.get_within("", _take_snapshot, _WAIT_SECONDS)

    def held() -> Sequence[HeldSubscription]:
        return holds.get(
            "", lambda: held_subscriptions(storage.resources(), CLOCK.now()), lambda _: False
        )

    return Status(
        counts=storage.counts(), snapshot=snapshot, held=held, admin_key=settings().admin_key
    )


def _take_snapshot() -> Snapshot | None:
    return take_snapshot(storage.queues(), timer_runs(), CLOCK)
