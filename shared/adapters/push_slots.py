"""How many pushes of one subscription may run at a time: more while it is quick, fewer if not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from queue import SimpleQueue
from threading import Lock
from typing import Any

START = 8  # slots of a key that nothing is known of
MOST = 64  # … and of one that is quick
QUICK = 1.0  # seconds: a push that takes less earns its key a slot
SLOW = 10.0  # seconds: one that takes more costs it half of them
STUCK_AFTER = 1.0  # seconds without a push that ends, all slots in use
SOONEST, LATEST = timedelta(seconds=10), timedelta(minutes=5)  # for what found no slot
MAX_KEYS = 10_000  # remembered while idle

SLOT = object()  # put into an inbox: a slot is yours

Inbox = SimpleQueue[Any]


@dataclass(slots=True, kw_only=True)
class _Key:
    """What is known of one subscription; *seconds* is how long its pushes take of late."""

    limit: int
    moved_at: float
    used: int = 0
    seconds: float = 1.0
    turned_away: int = 0
    waiting: deque[Inbox] = field(default_factory=deque)


class Slots:
    """
    Counts the slots in use for each key; who waits longest gets the next one.

    *clock* is monotonic, in seconds. Safe to use from any thread.
    """

    def __init__(self, start: int, most: int, clock: Callable[[], float]) -> None:
        self._start, self._most = start, most
        self._clock = clock
        self._lock = Lock()
        self._keys: dict[str, _Key] = {}

    def take(self, name: str) -> bool:
        """Take a slot if one is free."""
        with self._lock:
            key = self._key(name)
            if key.used >= key.limit:
                return False
            self._use(key)
            return True

    def wait(self, name: str, inbox: Inbox) -> None:
        """Ask for a slot: ``SLOT`` is put into *inbox* when there is one."""
        with self._lock:
            key = self._key(name)
            key.waiting.append(inbox)
            self._hand_over(key)

    def leave(self, name: str, inbox: Inbox) -> None:
        """Stop waiting; a slot that was handed over meanwhile goes back."""
        with self._lock:
            key = self._key(name)
            if inbox in key.waiting:
                key.waiting.remove(inbox)
            else:
                key.used -= 1
                self._hand_over(key)

    def give_back(self, name: str) -> None:
        """Return a slot."""
        with self._lock:
            key = self._key(name)
            key.used -= 1
            self._hand_over(key)

    def pushed(self, name: str, seconds: float) -> bool:
        """Learn how long a push took; return whether its slot may be used for the next one."""
        with self._lock:
            key = self._key(name)
            key.moved_at = self._clock()
            key.seconds += (seconds - key.seconds) / 4
            key.turned_away = max(0, key.turned_away - 1)
            if seconds < QUICK:
                key.limit = min(key.limit + 1, self._most)
                self._hand_over(key)
            elif seconds > SLOW:
                key.limit = max(key.limit // 2, 1)
            return key.used <= key.limit

    def is_stuck(self, name: str) -> bool:
        """Tell whether waiting for a slot is in vain: all are in use, and no push ends."""
        with self._lock:
            key = self._key(name)
            return key.used >= key.limit and self._clock() - key.moved_at > STUCK_AFTER

    def pace(self, name: str, count: int) -> timedelta:
        """Return when to come back with *count* pushes: after those turned away before them."""
        with self._lock:
            key = self._key(name)
            key.turned_away += count
            wait = SOONEST + timedelta(seconds=key.turned_away * key.seconds / key.limit)
            return min(wait, LATEST)

    def in_use(self) -> int:
        """Return how many slots are taken or waited for."""
        with self._lock:
            return sum(key.used + len(key.waiting) for key in self._keys.values())

    def _key(self, name: str) -> _Key:
        key = self._keys.get(name)
        if key is None:
            if len(self._keys) >= MAX_KEYS:
                self._keys = {n: k for n, k in self._keys.items() if k.used or k.waiting}
            key = self._keys[name] = _Key(limit=self._start, moved_at=self._clock())
        return key

    def _use(self, key: _Key) -> None:
        if not key.used:
            key.moved_at = self._clock()
        key.used += 1

    def _hand_over(self, key: _Key) -> None:
        while key.waiting and key.used < key.limit:
            self._use(key)
            key.waiting.popleft().put(SLOT)
