"""How many pushes of one subscription may run at a time: more while it is quick, fewer if not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import timedelta
from queue import SimpleQueue
from threading import Lock
from typing import Any

from shared.delivery.slots.shares import Share, Standing
from shared.delivery.slots.turns import Turns

START_SLOTS = 8  # slots of a key that nothing is known of
MAX_SLOTS = 64  # … and of one that is quick
QUICK = 1.0  # seconds: a success that takes less earns its key a slot
SLOW = 10.0  # seconds: a push that takes more costs it half of them, and so does a failure
STUCK_AFTER = 1.0  # seconds with slots in use and no push that ends
PLACES = Share(total=24)  # a function's messages in flight: batchSize + newBatchThreshold
THREADS = Share(total=128, kept=PLACES.half)  # who has a place finds a thread
SOONEST, LATEST = timedelta(seconds=10), timedelta(minutes=5)  # for what found no slot
MAX_KEYS = 10_000  # remembered while idle

SLOT = object()  # put into an inbox: a slot is yours


@dataclass(slots=True, kw_only=True, eq=False)
class _Key:
    """What is known of one subscription; *seconds* is how long its pushes take of late."""

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
    A run's stay: it holds *slots*, and one of the host's places while its invocation lasts.

    ``SLOT`` comes by *inbox*.
    """

    key: _Key
    since: float
    is_outside: bool = False  # its invocation has ended, its pushes go on
    slots: int = 0
    inbox: SimpleQueue[Any] = field(default_factory=SimpleQueue)


class Slots:
    """
    Counts the slots and places in use for each key; who waits longest gets the next one.

    *clock* is monotonic, in seconds. Safe to use from any thread.
    """

    def __init__(
        self,
        start: int,
        most: int,
        clock: Callable[[], float],
        *,
        threads: Share = THREADS,
        places: Share = PLACES,
    ) -> None:
        self._start, self._most = start, most
        self._clock = clock
        self._threads, self._places = threads, places
        self._lock = Lock()
        self._keys: dict[Hashable, _Key] = {}
        self._active: dict[Hashable, _Key] = {}  # that have visits or slots
        self._waiting: dict[Hashable, _Key] = {}  # the one that had a slot last at the end
        self._turns = Turns()
        self._used = self._pushing = 0

    def enter(self, name: Hashable) -> Visit | None:
        """Begin a run; ``None`` if it must go back, for slow keys have all the places they may."""
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
        """End a run; its pushes may still be on their way."""
        with self._lock:
            if not visit.is_outside:
                visit.key.visits -= 1
                self._tidy(visit.key)

    def outstays(self, visit: Visit) -> bool:
        """Tell whether a run's invocation had better end: its pushes are slow."""
        with self._lock:
            is_old = self._clock() - visit.since > STUCK_AFTER
            is_slow = self._standing(visit.key) is not Standing.QUICK
            return bool(visit.slots) and is_old and is_slow

    def go_on_outside(self, visit: Visit) -> None:
        """Free the place of a run that has slots: its invocation has ended."""
        with self._lock:
            visit.key.visits -= 1
            if visit.slots:
                self._count_pushing(visit.key, -1)
            visit.is_outside = True
            self._tidy(visit.key)
            self._hand_over_all()

    def take(self, visit: Visit) -> bool:
        """Take a slot if one is free."""
        with self._lock:
            return self._take(visit)

    def wait(self, visit: Visit) -> None:
        """Ask for a slot: ``SLOT`` is put into the visit's inbox when there is one."""
        with self._lock:
            key = visit.key
            key.waiting.append(visit)
            self._waiting.setdefault(key.name, key)
            self._hand_over(key)

    def stop_waiting(self, visit: Visit) -> None:
        """Stop waiting; a slot that was handed over meanwhile goes back."""
        with self._lock:
            if visit in visit.key.waiting:
                visit.key.waiting.remove(visit)
                self._tidy(visit.key)
            else:
                self._give_back(visit)

    def give_back(self, visit: Visit) -> None:
        """Return a slot."""
        with self._lock:
            self._give_back(visit)

    def pushed(self, visit: Visit, seconds: float, *, succeeded: bool) -> bool:
        """Learn what came of a push; return whether its slot may be used for the next one."""
        with self._lock:
            key = visit.key
            was_quick = self._standing(key) is Standing.QUICK
            key.moved_at = self._clock()
            before = seconds if key.seconds is None else key.seconds
            key.seconds = before + (seconds - before) / 4
            if not succeeded or seconds > SLOW:
                key.limit = max(key.limit // 2, 1)
            elif seconds > QUICK:
                key.limit = max(key.limit - 1, min(key.limit, self._start))
            else:
                key.limit = min(key.limit + 1, self._most)
                self._hand_over(key)
            if not was_quick and self._standing(key) is Standing.QUICK:
                self._hand_over_all()  # Others may have what it held of the slow ones' half.
            return key.used <= key.limit

    def is_in_vain(self, visit: Visit) -> bool:
        """Tell whether a run without slots had better go: its key gets nowhere."""
        with self._lock:
            key = visit.key
            return not (visit.slots or self._standing(key) is Standing.QUICK) and self._rests(key)

    def pace(self, name: Hashable, count: int) -> timedelta:
        """
        Return when to come back with *count* pushes.

        The first of a key that is turned away soon asks again whether it is its turn: the longer
        the line, the later. Those after it get times at the pace of the key's pushes.
        """
        with self._lock:
            key, now = self._key(name), self._clock()
            rounds = 1 + self._turns.ahead_of(name, now) // self._places.half
            back_at = now + rounds * SOONEST.total_seconds()
            is_first = not self._turns.is_away(name, now)
            if not is_first:
                back_at = max(back_at, key.booked_until)
            back_at = min(back_at, now + LATEST.total_seconds())
            if is_first:
                self._turns.stand(name, back_at)
            hanging = now - key.moved_at if key.used else 0.0
            seconds = max(key.seconds or QUICK, hanging)
            key.booked_until = max(key.booked_until, back_at + count * seconds / key.limit)
            return timedelta(seconds=back_at - now)

    def _key(self, name: Hashable) -> _Key:
        key = self._keys.get(name)
        if key is None:
            if len(self._keys) >= MAX_KEYS:
                self._keys = dict(self._active)
            key = self._keys[name] = _Key(name=name, limit=self._start)
        return key

    def _rests(self, key: _Key) -> bool:
        return self._clock() - key.moved_at > STUCK_AFTER

    def _standing(self, key: _Key) -> Standing:
        if key.used and self._rests(key):
            return Standing.SLOW
        if key.seconds is None:
            return Standing.NEW
        return Standing.SLOW if key.seconds > QUICK else Standing.QUICK

    def _not_quick(self) -> list[_Key]:
        return [k for k in self._active.values() if self._standing(k) is not Standing.QUICK]

    def _is_admitted(self, key: _Key) -> bool:
        standing = self._standing(key)
        if standing is Standing.QUICK:
            return True
        if standing is Standing.NEW and not self._turns.has_turned_away(key.name):
            return True  # It may wait for a second.
        if key.waiting and key.used >= key.limit:
            return False  # One that waits is enough to use every slot that comes free.
        taken = sum(each.visits for each in self._not_quick())
        ahead = self._turns.ahead_of(key.name, self._clock())
        return self._places.has_room(standing, key.visits, taken + ahead)

    def _take(self, visit: Visit) -> bool:
        key = visit.key
        if key.used >= key.limit:
            return False
        standing = self._standing(key)
        used, pushing = self._used, self._pushing
        if standing is not Standing.QUICK:
            rivals = self._not_quick()
            used = sum(each.used for each in rivals)
            pushing = sum(each.pushing for each in rivals)
        if not self._threads.has_room(standing, key.used, used):
            return False
        if not visit.slots and not visit.is_outside:
            if not self._places.has_room(standing, key.pushing, pushing):
                return False
            self._count_pushing(key, 1)
        if not key.used:
            key.moved_at = self._clock()
        visit.slots += 1
        key.used += 1
        self._used += 1
        return True

    def _give_back(self, visit: Visit) -> None:
        key = visit.key
        visit.slots -= 1
        key.used -= 1
        self._used -= 1
        if not visit.slots and not visit.is_outside:
            self._count_pushing(key, -1)
        self._tidy(key)
        self._hand_over_all()

    def _count_pushing(self, key: _Key, change: int) -> None:
        key.pushing += change
        self._pushing += change

    def _hand_over(self, key: _Key) -> None:
        while key.waiting and self._take(key.waiting[0]):
            key.waiting.popleft().inbox.put(SLOT)
            self._waiting[key.name] = self._waiting.pop(key.name)
        self._tidy(key)

    def _hand_over_all(self) -> None:
        for key in list(self._waiting.values()):
            self._hand_over(key)

    def _tidy(self, key: _Key) -> None:
        if not key.waiting:
            self._waiting.pop(key.name, None)
        if not (key.visits or key.used or key.waiting):
            self._active.pop(key.name, None)
