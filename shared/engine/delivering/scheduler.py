"""Pumps endpoints by turns, and keeps what all of a process share."""

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
from shared.engine.delivering.in_hand import Attempted, EndpointHandle, PushRequest, Shortage
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
    waiting: dict[EndpointHandle, None] = field(default_factory=dict)
    _has_freed: bool = False  # a push has ended since the last turn of those that wait

    def may_push(self, endpoint: EndpointHandle) -> bool:
        """Tell whether a push may begin."""
        speed = endpoint.speed
        total = taken = self.under_way.total()
        if speed is not Speed.QUICK:
            taken -= self.under_way[Speed.QUICK]
        return total < self.pushes and has_room(speed, endpoint.under_way, taken, self.pushes)

    def keeps_from_first(self, endpoint: EndpointHandle) -> bool:
        """Tell whether an endpoint of which nothing is known waits for its first push."""
        return endpoint.speed is Speed.UNKNOWN and endpoint in self.waiting

    def count(self, speed: Speed, pushes: int) -> None:
        """Count pushes to an endpoint of that speed, or no longer if negative."""
        self.under_way[speed] += pushes

    def free(self, speed: Speed) -> None:
        """Count a push less: it has ended, and others may push."""
        self.under_way[speed] -= 1
        self._has_freed = True

    def in_turn(self) -> Iterator[EndpointHandle]:
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
class Scheduler:
    """Pumps endpoints, and has what all of them share; its state belongs to the event loop."""

    budget: Budget
    push: Callable[[PushRequest], Coroutine[Any, Any, Attempted | Shortage]]
    reserve_connection: ReserveConnection
    # Reads a subscription again.
    as_cached: Callable[[EventSubscription], Coroutine[Any, Any, EventSubscription]]
    clock: Clock
    processes: Processes
    tasks: Tasks
    is_stopping: bool = False  # the host: nothing more is pushed
    _scheduled: dict[EndpointHandle, None] = field(default_factory=dict)
    _is_due: bool = False  # the next turn
    _shortages: int = 0  # not logged yet
    _next_shortage: Deadline | None = None

    def schedule(self, endpoint: EndpointHandle) -> None:
        """Have an endpoint pumped in the next turn of the loop, once."""
        self._scheduled[endpoint] = None
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._turn, context=telemetry.own_context())

    def is_scheduled(self, endpoint: EndpointHandle) -> bool:
        return endpoint in self._scheduled

    def log_shortage(self, shortage: Shortage) -> None:
        """Log shortages, once a minute."""
        self._shortages += 1
        if self._next_shortage and not self._next_shortage.has_passed:
            return
        telemetry.error("delivery.shortage", detail=shortage.of, count=self._shortages)
        self._shortages, self._next_shortage = 0, Deadline(SHORTAGES_EVERY, loop_time)

    def _turn(self) -> None:
        """Pump those that are scheduled, by turns, and then those that wait for the budget."""
        begun = 0
        try:
            while self._scheduled and begun < BEGUN_A_TURN:
                endpoint = next(iter(self._scheduled))
                del self._scheduled[endpoint]
                begun += self._pump(endpoint)
            for endpoint in self.budget.in_turn():
                self._pump(endpoint)
        finally:  # Whatever raises, even the log: the others have their turn.
            self._is_due = False
            if self._scheduled:
                self.schedule(next(iter(self._scheduled)))

    def _pump(self, endpoint: EndpointHandle) -> int:
        """Pump one; an internal error harms no other."""
        try:
            return endpoint.pump()
        except Exception as error:  # noqa: BLE001 - it is looked at again, and requeued in the end
            telemetry.error("endpoint.failed", **endpoint.key._asdict(), detail=repr(error))
            return 0
