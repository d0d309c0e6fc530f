"""Sends notices to endpoints in parallel, and waits for their answers only briefly."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta

from shared.engine.ports import Pusher
from shared.http import OutboundRequest

THREADS = 16
_TIMEOUT = timedelta(seconds=5)
_PATIENCE = timedelta(seconds=3)  # of the caller


class ParallelNotifier:
    """
    Implements the port ``Notifier``, on threads of its own.

    After *patience* requests under way go on; those that have not begun are never sent.
    """

    def __init__(self, pusher: Pusher, patience: timedelta = _PATIENCE) -> None:
        self._pusher = pusher
        self._patience = patience.total_seconds()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="notify")

    def notify(self, requests: Sequence[OutboundRequest]) -> None:
        sent = [self._threads.submit(self._pusher.send, each, _TIMEOUT) for each in requests]
        for late in wait(sent, self._patience).not_done:
            late.cancel()
