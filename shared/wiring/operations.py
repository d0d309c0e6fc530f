"""Composes the status routes."""

from __future__ import annotations

import time

from shared.adapters.cache import Cache
from shared.engine.operations.status import Snapshot, Status, take_snapshot
from shared.wiring import storage
from shared.wiring.process import CLOCK, once
from shared.wiring.settings import settings
from shared.wiring.timers import timer_runs

_KEEP_SECONDS = 3  # the health is public
_WAIT_SECONDS = 4  # while storage hangs


@once
def status() -> Status:
    snapshots = Cache[Snapshot | None](time.monotonic, lambda _: _KEEP_SECONDS)

    def snapshot() -> Snapshot | None:
        return snapshots.get_within("", _take_snapshot, _WAIT_SECONDS)

    return Status(counts=storage.counts(), snapshot=snapshot, admin_key=settings().admin_key)


def _take_snapshot() -> Snapshot | None:
    return take_snapshot(storage.queues(), timer_runs(), CLOCK)
