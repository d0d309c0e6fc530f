"""Limits the concurrent pushes of each subscription: quick ones earn slots, slow ones lose them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from shared.delivery.slots.shares import Share, Speed
from shared.delivery.slots.turns import Turns
from shared.subscriptions.subscription import SubscriptionKey

START_SLOTS = 8  # of a new subscription
MAX_SLOTS = 64  # of a quick one
QUICK = 1.0  # seconds: a success that takes less earns a slot
VERY_SLOW = 10.0  # seconds: a push that takes more costs half of the slots, and so does a failure
STUCK_AFTER = 1.0  # seconds with slots in use and no push that ends
IN_FLIGHT = Share(total=24)  # messages of a function: batchSize + newBatchThreshold in host.json
THREADS = Share(total=128, reserved=IN_FLIGHT.half)  # a thread for every message
SOONEST, LATEST = timedelta(seconds=10), timedelta(minutes=5)  # to try for a slot again
CLEARED_IN = 0.05  # seconds: lanes beyond those that clear the line in this time are not started
BRIEF = 0.02  # seconds: a push that takes less is largely work of the processor
BRIEF_LANES = 16  # of all subscriptions with brief pushes: more would only wait for each other


@dataclass(slots=True, kw_only=True, eq=False)
class SlotUse:
    """
    The slots of one subscription.

    *limit* is how many it may use, *used* how many it uses. *visits* counts the parts of messages
    in flight that are for it. *seconds* is the moving average of its pushes' times; *moved_at* is
    when the last push ended, or the first of those under way began.
    """

    key: SubscriptionKey
    limit: int
    used: int = 0
    visits: int = 0
    seconds: float | None = None
    moved_at: float = 0.0
    booked_until: float = 0.0

    @property
    def is_brief(self) -> bool:
        """Whether its pushes take little more than the processor's time."""
        return self.seconds is not None and self.seconds < BRIEF


class Slots:
    """
    Divides threads and messages in flight between subscriptions.

    *clock* is monotonic, in seconds. Not thread-safe.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        start: int = START_SLOTS,
        most: int = MAX_SLOTS,
        threads: Share = THREADS,
        in_flight: Share = IN_FLIGHT,
    ) -> None:
        self._clock = clock
        self._start, self._most = start, most
        self._threads, self._in_flight = threads, in_flight
        self._active: dict[SlotUse, None] = {}  # those with visits or slots
        self._waiting: dict[SlotUse, None] = {}  # the latest to get a slot at the end
        self._turns = Turns()
        self._used = 0

    def new(self, key: SubscriptionKey) -> SlotUse:
        """Return the slots of a subscription of which nothing is known."""
        return SlotUse(key=key, limit=self._start)

    def enter(self, use: SlotUse, *, has_line: bool) -> bool:
        """
        Admit a message; ``False``: slow subscriptions have all those in flight that they may have.

        *has_line*: other deliveries of the subscription wait for a slot already.
        """
        if not use.visits and not use.used:
            use.moved_at = self._clock()
        if not self._is_admitted(use, has_line=has_line):
            return False
        self._admit(use)
        return True

    def pass_by(self, use: SlotUse, *, has_line: bool) -> bool:
        """
        Admit a message that is to be handed over at once; ``False``: no slot is free for it.

        A slot is kept for each subscription whose turn comes before. *has_line* as for `enter`.
        """
        ahead = self._turns.ahead_of(use, self._clock())
        if has_line or use.used >= use.limit or not self._has_room(use, ahead):
            return False
        self._admit(use)
        return True

    def leave(self, use: SlotUse) -> None:
        """End a message's stay; its pushes may still be under way."""
        use.visits -= 1
        self._tidy(use)

    def take(self, use: SlotUse) -> bool:
        """Take a slot if one is free."""
        if use.used >= use.limit:
            return False
        if not self._has_room(use):
            return False
        if not use.used:
            use.moved_at = self._clock()
        use.used += 1
        self._used += 1
        self._active[use] = None
        return True

    def may_keep(self, use: SlotUse) -> bool:
        """Tell whether a slot may be used for the next request: not if others need its thread."""
        if use.used > use.limit:
            return False
        without = (each for each in self._waiting if not (each.used or self._has_room(each)))
        return not any(self.is_slow(use) or not self.is_slow(each) for each in without)

    def release(self, use: SlotUse) -> None:
        """Return a slot."""
        use.used -= 1
        self._used -= 1
        self._tidy(use)

    def wait(self, use: SlotUse) -> None:
        """Let it wait for a slot; `next_in_turn` tells when it has got one."""
        self._waiting.setdefault(use)

    def stop_waiting(self, use: SlotUse) -> None:
        """Let it wait no more."""
        self._waiting.pop(use, None)

    def next_in_turn(self) -> SlotUse | None:
        """Take a free slot for the one that has waited longest, and return it; it waits on."""
        for use in self._waiting:
            if self.take(use):
                self._waiting[use] = self._waiting.pop(use)
                return use
        return None

    def pushed(self, use: SlotUse, seconds: float, *, succeeded: bool) -> None:
        """Record how a push went."""
        use.moved_at = self._clock()
        before = seconds if use.seconds is None else use.seconds
        use.seconds = before + (seconds - before) / 4
        if not succeeded or seconds > VERY_SLOW:
            use.limit = max(use.limit // 2, 1)
        elif seconds > QUICK:
            use.limit = max(use.limit - 1, min(use.limit, self._start))
        else:
            use.limit = min(use.limit + 1, self._most)

    def not_pushed(self, use: SlotUse) -> None:
        """Record that a push could not be made, for no fault of the endpoint's."""
        use.moved_at = self._clock()

    def lanes(self, use: SlotUse, requests: int) -> int:
        """
        Return how many lanes, at most, should push a line of *requests*.

        A lane is a thread that pushes one request after the other. Of a quick subscription a few
        clear the line as fast as many do, and cost less. Threads that wait for the processor make
        pushes take longer, which must not start more of them.
        """
        if use.seconds is None or use.seconds > QUICK:
            return requests
        lanes = math.ceil(requests * use.seconds / CLEARED_IN)
        if use.is_brief:
            lanes = min(lanes, BRIEF_LANES // max(1, sum(each.is_brief for each in self._active)))
        return min(requests, max(1, lanes))

    def is_slow(self, use: SlotUse) -> bool:
        """Tell whether the subscription is not known to be quick."""
        return self.speed(use) is not Speed.QUICK

    def is_stuck(self, use: SlotUse) -> bool:
        """Tell whether the subscription is slow, and no push has ended for a while."""
        return self.is_slow(use) and self._has_stopped(use)

    def speed(self, use: SlotUse) -> Speed:
        """Return how fast its latest pushes were."""
        if use.used and self._has_stopped(use):
            return Speed.SLOW
        if use.seconds is None:
            return Speed.NEW
        return Speed.SLOW if use.seconds > QUICK else Speed.QUICK

    def pace(self, use: SlotUse, count: int) -> timedelta:
        """
        Return how long *count* requests that got no slot should stay away.

        The first of a subscription comes back soon to see whether it is its turn: the longer the
        line, the later. Those after it get times at the pace of the subscription's pushes.
        """
        now = self._clock()
        turns_away = 1 + self._turns.ahead_of(use, now) // self._in_flight.half
        back_at = now + turns_away * SOONEST.total_seconds()
        is_first = not self._turns.is_away(use, now)
        if not is_first:
            back_at = max(back_at, use.booked_until)
        back_at = min(back_at, now + LATEST.total_seconds())
        if is_first:
            self._turns.line_up(use, back_at)
        hanging = now - use.moved_at if use.used else 0.0
        seconds = max(use.seconds or QUICK, hanging)
        use.booked_until = max(
            use.booked_until, back_at + count * seconds / (use.used or use.limit)
        )
        return timedelta(seconds=back_at - now)

    def _admit(self, use: SlotUse) -> None:
        self._turns.leave(use)
        self._active[use] = None
        use.visits += 1

    def _has_room(self, use: SlotUse, ahead: int = 0) -> bool:
        speed, used = self.speed(use), self._used
        if speed is not Speed.QUICK:
            used = sum(each.used for each in self._not_quick())
        return self._threads.has_room(speed, use.used, used + ahead)

    def _has_stopped(self, use: SlotUse) -> bool:
        return self._clock() - use.moved_at > STUCK_AFTER

    def _not_quick(self) -> list[SlotUse]:
        return [each for each in self._active if self.is_slow(each)]

    def _is_admitted(self, use: SlotUse, *, has_line: bool) -> bool:
        speed = self.speed(use)
        if speed is Speed.QUICK:
            return True
        if speed is Speed.NEW and not self._turns.has_turned_away(use):
            return True  # Its first push shows within a second how fast it is.
        if has_line and use.used >= use.limit:
            return False  # The one that waits already uses every slot that comes free.
        taken = sum(each.visits for each in self._not_quick())
        ahead = self._turns.ahead_of(use, self._clock())
        return self._in_flight.has_room(speed, use.visits, taken + ahead)

    def _tidy(self, use: SlotUse) -> None:
        if not (use.visits or use.used):
            self._active.pop(use, None)
