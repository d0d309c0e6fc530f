"""Composes the preparation of storage, which each process begins once."""

from __future__ import annotations

import time

from shared.wiring.process import CLOCK, once, threads
from shared.wiring.settings import settings_fault


@once
def begin_preparation() -> None:
    """Prepare storage in the background, unless the settings are wrong."""
    if settings_fault() is None:
        threads().begin(_prepare)


def _prepare() -> None:
    from shared.engine.timers.preparation import Preparation
    from shared.wiring import storage

    Preparation(
        watch=storage.queues(), state=storage.resources(), clock=CLOCK, sleep=time.sleep
    ).run()
