"""Keeps what all endpoints of a process share, and pumps those that were woken once a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from shared import telemetry
from shared.clock import Clock, Deadline
from shared.engine.delivering.budget import Budget, Pushing
from shared.engine.delivering.in_hand import Attempted, PushRequest, Shortage
from shared.engine.delivering.processes import Processes
from shared.engine.keeping.event_loop import loop_time
from shared.engine.ports import ReserveConnection
from shared.subscriptions.subscription import EventSubscription
from shared.tasks import Tasks

SHORTAGES_EVERY = timedelta(minutes=1)
BEGUN_A_TURN = 16  # requests, before others of the loop have their turn: some milliseconds


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
    _woken: dict[Pushing, None] = field(default_factory=dict)
    _is_due: bool = False  # the next turn
    _shortages: int = 0  # not logged yet
    _next_shortage: Deadline | None = None

    def wake(self, endpoint: Pushing) -> None:
        """Have an endpoint pumped in the next turn of the loop, however often it is woken now."""
        self._woken[endpoint] = None
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._turn, context=telemetry.own_context())

    def is_woken(self, endpoint: Pushing) -> bool:
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

    def _pump(self, endpoint: Pushing) -> int:
        """Pump one; an internal error harms no other."""
        try:
            return endpoint.pump()
        except Exception as error:  # noqa: BLE001 - it is looked at again, and requeued in the end
            telemetry.error("endpoint.failed", **endpoint.key._asdict(), detail=repr(error))
            return 0
