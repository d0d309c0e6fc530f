"""Limits the requests that operators make an app send."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from shared.delivery.pace import Allowance, ask
from shared.subscriptions.subscription import SubscriptionKey

_MOST = 1000  # subscriptions that are remembered


@dataclass(slots=True)
class RequestRate:
    """The latest requests of one process, by subscription."""

    _known: dict[SubscriptionKey, Allowance] = field(default_factory=dict)

    def wait(self, key: SubscriptionKey, rate: int, now: datetime) -> float | None:
        """Count a request at *rate* a minute; or return the seconds to wait: it may not be made."""
        before = self._known.pop(key.folded, None)
        after, again_at = ask(before, rate, now)
        self._known[key.folded] = before if again_at and before else after
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return (again_at - now).total_seconds() if again_at else None
