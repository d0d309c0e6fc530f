"""
Serves one timer trigger: one run at a time, on one host at a time, past due at most once.

Schedules are in UTC, as on Azure. A status remembers what was due while no host ran.

Source: azure-webjobs-sdk-extensions Timers/Listener/TimerListener.cs and
Timers/Scheduling/ScheduleMonitor.cs (2024-10).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from azure.functions.meta import Datum

from devhost.errors import BadFunctionError, HostError, InvocationError
from devhost.functions.loader import Function
from devhost.functions.metadata import TimerTrigger
from devhost.storage.errors import Outage, StorageBusyError, StorageRefusedError
from devhost.timer import ncrontab
from devhost.timer.storage import TimerStatus, TimerStorage, status_json

Invoke = Callable[[Function, Datum, None], Awaitable[Datum | None]]

# Clocks are set and machines sleep, so a long wait checks the clock now and then.
_LONGEST_SLEEP = timedelta(seconds=30)
_RETRY_DELAY = timedelta(seconds=2)

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


class TimerListener:
    """
    Serves one timer function until it is stopped; *recovery*: until a lease is tried for again.

    Raises:
        BadFunctionError: its schedule is malformed or never due.
    """

    def __init__(  # noqa: PLR0913 - named, and each of them differs in tests
        self,
        *,
        function: Function,
        storage: TimerStorage,
        recovery: timedelta,
        invoke: Invoke,
        now: Callable[[], datetime] = utc_now,
        longest_outage: float,
    ) -> None:
        trigger = function.metadata.trigger
        if not isinstance(trigger, TimerTrigger):
            raise TypeError
        try:
            self._schedule = ncrontab.parse(trigger.schedule)
            self._schedule.next_after(now())
        except ncrontab.ScheduleError as fault:
            raise BadFunctionError(f"schedule: {fault}") from fault
        self._function = function
        self._name = f"timer {function.metadata.name}"
        self._run_on_startup = trigger.run_on_startup
        often = self._schedule.fires_more_than_once_a_minute
        self._keeps_status = trigger.use_monitor and not often
        self._storage = storage
        self._recovery = recovery
        self._invoke = invoke
        self._now = now
        self._halted = asyncio.Event()
        self._stopping = False
        self._outage = Outage(self._name, longest_outage)

    def stop(self) -> None:
        """Start no more runs; one in progress is finished."""
        self._stopping = True
        self._halted.set()

    async def run(self) -> None:
        """
        Fire when due until stopped, while no other host holds the lock.

        Raises:
            HostError: storage rejects the host's requests, or is out of reach for too long.
        """
        while await self._acquire():
            try:
                await self._fire_until_halted()
            finally:
                await self._storage.release()
            if not self._stopping:
                _log.warning("%s: lost its lease, trying to take it again", self._name)
                self._halted.clear()

    async def _acquire(self) -> bool:
        while not self._stopping:
            if await self._retry(lambda: self._storage.acquire(self._halted.set)):
                return True
            await self._sleep(self._recovery)
        return False

    async def _fire_until_halted(self) -> None:
        now = self._now()
        status = await self._read_status(now)
        if status and status.next and now > status.next:
            status = await self._fire(now, status, past_due=True)
        elif self._run_on_startup and not self._halted.is_set():
            status = await self._fire(now, status, past_due=False)
        while await self._is_due(since=now):
            now = self._now()
            status = await self._fire(now, status, past_due=False)

    async def _read_status(self, now: datetime) -> TimerStatus | None:
        if not self._keeps_status:
            return None
        known = await self._retry(self._storage.read)
        if self._halted.is_set():
            # The read may have been given up; the stored status stays for the next host.
            return None
        if known and known.next == self._schedule.next_after(known.last or known.last_updated):
            return known
        # There is none, or the schedule has changed: what was due on the old one is forgotten.
        return await self._write(TimerStatus(None, self._schedule.next_after(now), now))

    async def _fire(
        self, at: datetime, status: TimerStatus | None, *, past_due: bool
    ) -> TimerStatus | None:
        # The failure has been reported and does not end the schedule.
        with contextlib.suppress(InvocationError):
            await self._invoke(self._function, timer_datum(status, past_due=past_due), None)
        return await self._write(TimerStatus(at, self._schedule.next_after(at), at))

    async def _write(self, status: TimerStatus) -> TimerStatus | None:
        if not self._keeps_status:
            return None
        await self._retry(lambda: self._storage.write(status))
        return status

    async def _is_due(self, since: datetime) -> bool:
        """
        Wait for the first due time after *since*, which a long run may have missed; False: halted.

        If the clock is set back, it is the first one after that.
        """
        due = self._schedule.next_after(since)
        while (now := self._now()) < due and not self._halted.is_set():
            if now < since:
                due = self._schedule.next_after(now)
            since = now
            await self._sleep(min(due - now, _LONGEST_SLEEP))
        return not self._halted.is_set()

    async def _sleep(self, delay: timedelta) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay.total_seconds()):
                await self._halted.wait()
        return self._halted.is_set()

    async def _retry(self, step: Callable[[], Awaitable[_T]]) -> _T | None:
        while True:
            try:
                result = await step()
            except StorageBusyError as fault:
                self._outage.failed(fault)
                if await self._sleep(_RETRY_DELAY):
                    return None
            except StorageRefusedError as fault:
                raise HostError(f"{self._name}: storage rejects the host: {fault}") from fault
            else:
                self._outage.end()
                return result


def timer_datum(status: TimerStatus | None, *, past_due: bool) -> Datum:
    """Return a timer function's input; *status*: the one before this run, if one is kept."""
    shown = status_json(status) if status else None
    data = {"Schedule": {"AdjustForDST": True}, "ScheduleStatus": shown, "IsPastDue": past_due}
    return Datum(json.dumps(data), "json")
