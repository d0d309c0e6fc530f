"""Limits the requests to each endpoint to its allowed rate, in this process."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime

from shared.clock import Clock
from shared.delivery.allowed_rate import Allowance, ask
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

MAX_KEYS = 10_000  # subscriptions whose allowance is remembered


class AllowedRates:
    """The allowances of all subscriptions with an allowed rate; thread-safe."""

    def __init__(self, clock: Clock, lock: AbstractContextManager[object]) -> None:
        self._clock = clock
        self._lock = lock
        self._known: dict[SubscriptionKey, Allowance] = {}

    def admit(self, subscription: EventSubscription) -> datetime | None:
        """Admit one request (``None``), or return when it should ask again."""
        if subscription.rate is None:
            return None
        key = subscription.key.folded
        with self._lock:
            now = self._clock.now()
            if len(self._known) >= MAX_KEYS:
                self._known = {k: v for k, v in self._known.items() if max(v) > now}
            self._known[key], again_at = ask(self._known.get(key), subscription.rate, now)
        return again_at
