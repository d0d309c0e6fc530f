"""What tells how things are."""

from __future__ import annotations

import time

from shared.adapters.bounded import Bounded
from shared.engine.operations.status import Status, take_snapshot
from shared.wiring import storage
from shared.wiring.once import once
from shared.wiring.process import CLOCK, settings
from shared.wiring.timers import timer_runs


@once
def status() -> Status:
    snapshot = Bounded(
        lambda: take_snapshot(storage.queues(), timer_runs(), CLOCK),
        wait_seconds=4,
        keep_seconds=3,
        monotonic=time.monotonic,
    )
    return Status(counts=storage.counts(), snapshot=snapshot.get, admin_key=settings().admin_key)
