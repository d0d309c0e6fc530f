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
    _shortages: int = 0  # not logged yet
    _next_shortage: Deadline | None = None

    def wake(self, endpoint: Pushing) -> None:
        """Have an endpoint pumped in the next turn of the loop, however often it is woken now."""
        if not self._woken:
            self._pump_soon()
        self._woken[endpoint] = None

    def is_woken(self, endpoint: Pushing) -> bool:
        return endpoint in self._woken

    def log_shortage(self, shortage: Shortage) -> None:
        """Log shortages, once a minute."""
        self._shortages += 1
        if self._next_shortage and not self._next_shortage.has_passed:
            return
        telemetry.error("delivery.shortage", detail=shortage.of, count=self._shortages)
        self._shortages, self._next_shortage = 0, Deadline(SHORTAGES_EVERY, loop_time)

    def _pump(self) -> None:
        """Pump those that were woken, by turns, and then those that wait for the budget."""
        begun = 0
        while self._woken and begun < BEGUN_A_TURN:
            endpoint = next(iter(self._woken))
            del self._woken[endpoint]
            begun += endpoint.pump()
        for each in self.budget.in_turn():
            each.pump()
        if self._woken:
            self._pump_soon()

    def _pump_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._pump, context=telemetry.own_context())
