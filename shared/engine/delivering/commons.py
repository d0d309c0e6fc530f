"""Keeps what all endpoints of a process share, and pumps those that were woken once a turn."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from shared import telemetry
from shared.clock import Clock, Deadline
from shared.delivery.pace import Speed
from shared.engine.delivering.in_hand import Attempted, Lane, PushRequest, Shortage
from shared.engine.delivering.processes import Processes
from shared.engine.ports import ReserveConnection
from shared.subscriptions.subscription import EventSubscription
from shared.tasks import Tasks, loop_time

PUSHES = 4096  # under way in a process, as far as its descriptors allow
SHORTAGES_EVERY = timedelta(minutes=1)
BEGUN_A_TURN = 16  # requests, before others of the loop have their turn: some milliseconds
_TIMES_FREE = 3


def has_room(speed: Speed, own: int, taken: int, total: int) -> bool:
    """
    Tell whether an endpoint that holds *own* of *taken* may have one more.

    Endpoints that are not quick hold half together, and *taken* counts what they hold; one that is
    unknown and holds nothing may have its first from the next quarter. No endpoint holds more than
    three times what it leaves free: whoever hangs, something is left for others.
    """
    if speed is Speed.UNKNOWN and not own:
        return taken < total * 3 // 4
    open_to = total if speed is Speed.QUICK else total // 2
    return own < _TIMES_FREE * (open_to - taken)


@dataclass(slots=True, kw_only=True, eq=False)
class Budget:
    """The pushes of one process, divided among its endpoints."""

    pushes: int = PUSHES
    under_way: Counter[Speed] = field(default_factory=Counter)  # by endpoints' speed
    waiting: dict[Lane, None] = field(default_factory=dict)
    _has_freed: bool = False  # a push has ended since the last turn of those that wait

    def may_push(self, endpoint: Lane) -> bool:
        """Tell whether a push may begin."""
        speed = endpoint.speed
        total = taken = self.under_way.total()
        if speed is not Speed.QUICK:
            taken -= self.under_way[Speed.QUICK]
        return total < self.pushes and has_room(speed, endpoint.under_way, taken, self.pushes)

    def keeps_from_first(self, endpoint: Lane) -> bool:
        """Tell whether an endpoint of which nothing is known waits for its first push."""
        return endpoint.speed is Speed.UNKNOWN and endpoint in self.waiting

    def count(self, speed: Speed, pushes: int) -> None:
        """Count pushes to an endpoint of that speed, or no longer if negative."""
        self.under_way[speed] += pushes

    def end(self, speed: Speed) -> None:
        """Count a push less: it has ended, and others may push."""
        self.under_way[speed] -= 1
        self._has_freed = True

    def in_turn(self) -> Iterator[Lane]:
        """
        Yield those that wait and may push since another push has ended: the fewest first.

        Each is pushed for before the next is asked for, and stays in `waiting` if it waits on.
        """
        if not self._has_freed:
            return
        self._has_freed = False
        blocked: set[Speed] = set()  # where one can't push, none can
        for endpoint in sorted(self.waiting, key=lambda each: each.under_way):
            if endpoint.speed not in blocked:
                yield endpoint
                if endpoint in self.waiting:
                    blocked.add(endpoint.speed)


@dataclass(slots=True, kw_only=True)
class Commons:
    """What all endpoints share; its state belongs to the event loop."""

    budget: Budget
    push: Callable[[PushRequest], Coroutine[Any, Any, Attempted | Shortage]]
    reserve_connection: ReserveConnection
    # Reads a subscription again.
    as_cached: Callable[[EventSubscription], Coroutine[Any, Any, EventSubscription]]
    clock: Clock
    processes: Processes
    tasks: Tasks
    is_stopping: bool = False  # the host: nothing more is pushed
    _woken: dict[Lane, None] = field(default_factory=dict)
    _is_due: bool = False  # the next turn
    _shortages: int = 0  # not logged yet
    _next_shortage: Deadline | None = None

    def wake(self, endpoint: Lane) -> None:
        """Have an endpoint pumped in the next turn of the loop, however often it is woken now."""
        self._woken[endpoint] = None
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._turn, context=telemetry.own_context())

    def is_woken(self, endpoint: Lane) -> bool:
        return endpoint in self._woken

    def log_shortage(self, shortage: Shortage) -> None:
        """Log shortages, once a minute."""
        self._shortages += 1
        if self._next_shortage and not self._next_shortage.has_passed:
            return
        telemetry.error("delivery.shortage", detail=shortage.of, count=self._shortages)
        self._shortages, self._next_shortage = 0, Deadline(SHORTAGES_EVERY, loop_time)

    def _turn(self) -> None:
        """Pump those that were woken, by turns, and then those that wait for the budget."""
        begun = 0
        try:
            while self._woken and begun < BEGUN_A_TURN:
                endpoint = next(iter(self._woken))
                del self._woken[endpoint]
                begun += self._pump(endpoint)
            for endpoint in self.budget.in_turn():
                self._pump(endpoint)
        finally:  # Whatever raises, even the log: the others have their turn.
            self._is_due = False
            if self._woken:
                self.wake(next(iter(self._woken)))

    def _pump(self, endpoint: Lane) -> int:
        """Pump one; an internal error harms no other."""
        try:
            return endpoint.pump()
        except Exception as error:  # noqa: BLE001 - it is looked at again, and requeued in the end
            telemetry.error("endpoint.failed", **endpoint.key._asdict(), detail=repr(error))
            return 0
