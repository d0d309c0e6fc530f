"""Limits the concurrent pushes of each subscription: quick ones earn slots, slow ones lose them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import timedelta
from queue import SimpleQueue
from threading import Lock
from typing import Any

from shared.delivery.slots.shares import Share, Speed
from shared.delivery.slots.turns import Turns

START_SLOTS = 8  # of a new key
MAX_SLOTS = 64  # of a quick key
QUICK = 1.0  # seconds: a success that takes less earns its key a slot
VERY_SLOW = 10.0  # seconds: a push that takes more costs it half of them, and so does a failure
STUCK_AFTER = 1.0  # seconds with slots in use and no push that ends
IN_FLIGHT = Share(total=24)  # messages of a function: batchSize + newBatchThreshold in host.json
THREADS = Share(total=128, reserved=IN_FLIGHT.half)  # a thread for every message
SOONEST, LATEST = timedelta(seconds=10), timedelta(minutes=5)  # to try for a slot again
MAX_KEYS = 10_000  # remembered while idle

SLOT = object()  # put into an inbox: the visit got a slot


@dataclass(slots=True, kw_only=True, eq=False)
class _KeyState:
    """The state of one subscription; *seconds* is the moving average of its pushes' times."""

    name: Hashable
    limit: int
    moved_at: float = 0.0
    seconds: float | None = None
    visits: int = 0
    pushing: int = 0  # visits that have a slot
    used: int = 0
    booked_until: float = 0.0
    waiting: deque[Visit] = field(default_factory=deque)


@dataclass(slots=True, kw_only=True, eq=False)
class Visit:
    """
    A job's stay: it holds *slots* and, while its invocation lasts, a message in flight.

    ``SLOT`` arrives in *inbox*.
    """

    key: _KeyState
    since: float
    is_detached: bool = False  # its invocation has ended, its pushes go on
    slots: int = 0
    inbox: SimpleQueue[Any] = field(default_factory=SimpleQueue)


class Slots:
    """
    Counts slots and messages in flight by key; the visit that waits longest gets the next slot.

    *clock* is monotonic, in seconds. Thread-safe.
    """

    def __init__(
        self,
        start: int,
        most: int,
        clock: Callable[[], float],
        *,
        threads: Share = THREADS,
        in_flight: Share = IN_FLIGHT,
    ) -> None:
        self._start, self._most = start, most
        self._clock = clock
        self._threads, self._in_flight = threads, in_flight
        self._lock = Lock()
        self._keys: dict[Hashable, _KeyState] = {}
        self._active: dict[Hashable, _KeyState] = {}  # with visits or slots
        self._waiting: dict[Hashable, _KeyState] = {}  # the latest to get a slot at the end
        self._turns = Turns()
        self._used = self._pushing = 0

    def enter(self, name: Hashable) -> Visit | None:
        """Begin a visit; ``None``: slow keys have all the messages in flight that they may have."""
        with self._lock:
            key = self._key(name)
            if not key.visits and not key.used:
                key.moved_at = self._clock()
            if not self._is_admitted(key):
                return None
            self._turns.leave(name)
            self._active[name] = key
            key.visits += 1
            return Visit(key=key, since=self._clock())

    def leave(self, visit: Visit) -> None:
        """End a visit; its pushes may still be on their way."""
        with self._lock:
            if not visit.is_detached:
                visit.key.visits -= 1
                self._tidy(visit.key)

    def should_detach(self, visit: Visit) -> bool:
        """Tell whether the invocation of a visit should end before its pushes, which are slow."""
        with self._lock:
            is_old = self._clock() - visit.since > STUCK_AFTER
            is_slow = self._speed(visit.key) is not Speed.QUICK
            return bool(visit.slots) and is_old and is_slow

    def detach(self, visit: Visit) -> None:
        """Free the message in flight of a visit whose invocation has ended; its slots stay."""
        with self._lock:
            visit.key.visits -= 1
            if visit.slots:
                self._count_pushing(visit.key, -1)
            visit.is_detached = True
            self._tidy(visit.key)
            self._grant_all()

    def take(self, visit: Visit) -> bool:
        """Take a slot if one is free."""
        with self._lock:
            return self._take(visit)

    def wait(self, visit: Visit) -> None:
        """Wait for a slot: ``SLOT`` arrives in the visit's inbox."""
        with self._lock:
            key = visit.key
            key.waiting.append(visit)
            self._waiting.setdefault(key.name, key)
            self._grant(key)

    def stop_waiting(self, visit: Visit) -> None:
        """Stop waiting; return a slot that was granted meanwhile."""
        with self._lock:
            if visit in visit.key.waiting:
                visit.key.waiting.remove(visit)
                self._tidy(visit.key)
            else:
                self._release(visit)

    def release_slot(self, visit: Visit) -> None:
        """Return a slot."""
        with self._lock:
            self._release(visit)

    def pushed(self, visit: Visit, seconds: float, *, succeeded: bool) -> bool:
        """Record how a push went; return whether its slot may be used for the next one."""
        with self._lock:
            key = visit.key
            was_quick = self._speed(key) is Speed.QUICK
            key.moved_at = self._clock()
            before = seconds if key.seconds is None else key.seconds
            key.seconds = before + (seconds - before) / 4
            if not succeeded or seconds > VERY_SLOW:
                key.limit = max(key.limit // 2, 1)
            elif seconds > QUICK:
                key.limit = max(key.limit - 1, min(key.limit, self._start))
            else:
                key.limit = min(key.limit + 1, self._most)
                self._grant(key)
            if not was_quick and self._speed(key) is Speed.QUICK:
                self._grant_all()  # What it held of the slow ones' half is free for others.
            return key.used <= key.limit

    def is_starved(self, visit: Visit) -> bool:
        """Tell whether a visit without slots should give up: its key is slow, and no push ends."""
        with self._lock:
            key = visit.key
            return not (visit.slots or self._speed(key) is Speed.QUICK) and self._is_stuck(key)

    def pace(self, name: Hashable, count: int) -> timedelta:
        """
        Return how long *count* pushes that got no slot should stay away.

        The first of a key comes back soon to see whether it is its turn: the longer the line, the
        later. Those after it get times at the pace of the key's pushes.
        """
        with self._lock:
            key, now = self._key(name), self._clock()
            turns_away = 1 + self._turns.ahead_of(name, now) // self._in_flight.half
            back_at = now + turns_away * SOONEST.total_seconds()
            is_first = not self._turns.is_away(name, now)
            if not is_first:
                back_at = max(back_at, key.booked_until)
            back_at = min(back_at, now + LATEST.total_seconds())
            if is_first:
                self._turns.line_up(name, back_at)
            hanging = now - key.moved_at if key.used else 0.0
            seconds = max(key.seconds or QUICK, hanging)
            key.booked_until = max(key.booked_until, back_at + count * seconds / key.limit)
            return timedelta(seconds=back_at - now)

    def _key(self, name: Hashable) -> _KeyState:
        key = self._keys.get(name)
        if key is None:
            if len(self._keys) >= MAX_KEYS:
                self._keys = dict(self._active)
            key = self._keys[name] = _KeyState(name=name, limit=self._start)
        return key

    def _is_stuck(self, key: _KeyState) -> bool:
        return self._clock() - key.moved_at > STUCK_AFTER

    def _speed(self, key: _KeyState) -> Speed:
        if key.used and self._is_stuck(key):
            return Speed.SLOW
        if key.seconds is None:
            return Speed.NEW
        return Speed.SLOW if key.seconds > QUICK else Speed.QUICK

    def _not_quick(self) -> list[_KeyState]:
        return [k for k in self._active.values() if self._speed(k) is not Speed.QUICK]

    def _is_admitted(self, key: _KeyState) -> bool:
        speed = self._speed(key)
        if speed is Speed.QUICK:
            return True
        if speed is Speed.NEW and not self._turns.has_turned_away(key.name):
            return True  # Its first push shows within a second how fast it is.
        if key.waiting and key.used >= key.limit:
            return False  # The one that waits already uses every slot that comes free.
        taken = sum(each.visits for each in self._not_quick())
        ahead = self._turns.ahead_of(key.name, self._clock())
        return self._in_flight.has_room(speed, key.visits, taken + ahead)

    def _take(self, visit: Visit) -> bool:
        key = visit.key
        if key.used >= key.limit:
            return False
        speed = self._speed(key)
        used, pushing = self._used, self._pushing
        if speed is not Speed.QUICK:
            rivals = self._not_quick()
            used = sum(each.used for each in rivals)
            pushing = sum(each.pushing for each in rivals)
        if not self._threads.has_room(speed, key.used, used):
            return False
        if not visit.slots and not visit.is_detached:
            if not self._in_flight.has_room(speed, key.pushing, pushing):
                return False
            self._count_pushing(key, 1)
        if not key.used:
            key.moved_at = self._clock()
        visit.slots += 1
        key.used += 1
        self._used += 1
        return True

    def _release(self, visit: Visit) -> None:
        key = visit.key
        visit.slots -= 1
        key.used -= 1
        self._used -= 1
        if not visit.slots and not visit.is_detached:
            self._count_pushing(key, -1)
        self._tidy(key)
        self._grant_all()

    def _count_pushing(self, key: _KeyState, change: int) -> None:
        key.pushing += change
        self._pushing += change

    def _grant(self, key: _KeyState) -> None:
        while key.waiting and self._take(key.waiting[0]):
            key.waiting.popleft().inbox.put(SLOT)
            self._waiting[key.name] = self._waiting.pop(key.name)
        self._tidy(key)

    def _grant_all(self) -> None:
        for key in list(self._waiting.values()):
            self._grant(key)

    def _tidy(self, key: _KeyState) -> None:
        if not key.waiting:
            self._waiting.pop(key.name, None)
        if not (key.visits or key.used or key.waiting):
            self._active.pop(key.name, None)
