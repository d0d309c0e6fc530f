"""Sends what nobody waits for an answer to."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta

from shared.engine.ports import Pusher
from shared.http import OutboundRequest

THREADS = 16
TIMEOUT = timedelta(seconds=5)  # of a request
PATIENCE = timedelta(seconds=3)  # of whoever has them sent


class PatientNotifier:
    """
    Implements the port ``Notifier``, on threads of its own.

    What is on its way after *patience* goes on; what is not yet, is never sent.
    """

    def __init__(self, pusher: Pusher, patience: timedelta = PATIENCE) -> None:
        self._pusher = pusher
        self._patience = patience.total_seconds()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="notify")

    def tell(self, requests: Sequence[OutboundRequest]) -> None:
        sent = [self._threads.submit(self._pusher.send, each, TIMEOUT) for each in requests]
        for late in wait(sent, self._patience).not_done:
            late.cancel()
