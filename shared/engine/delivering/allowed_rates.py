"""Keeps to the rates that endpoints have granted, as far as one process can."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime

from shared.clock import Clock
from shared.delivery.allowed_rate import Allowance, ask
from shared.subscriptions.subscription import EventSubscription

MAX_KEYS = 10_000  # remembered


class AllowedRates:
    """The allowances of all subscriptions that have one; safe to use from any thread."""

    def __init__(self, clock: Clock, lock: AbstractContextManager[object]) -> None:
        self._clock = clock
        self._lock = lock
        self._known: dict[tuple[str, str], Allowance] = {}

    def turned_away(self, subscription: EventSubscription) -> datetime | None:
        """Let one request of *subscription* go, or return when it should ask again."""
        if subscription.rate is None:
            return None
        key = subscription.topic.lower(), subscription.name.lower()
        with self._lock:
            now = self._clock.now()
            if len(self._known) >= MAX_KEYS:
                self._known = {k: v for k, v in self._known.items() if max(v) > now}
            self._known[key], place = ask(self._known.get(key), subscription.rate, now)
        return place
