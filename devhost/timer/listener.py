"""
Serves one timer trigger: one run at a time, on one host at a time, past due at most once.

Source: azure-webjobs-sdk-extensions Timers/Listener/TimerListener.cs and
Timers/Scheduling/ScheduleMonitor.cs (2024-10).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from azure.functions.meta import Datum

from devhost.errors import BadFunctionError, HostError, InvocationError
from devhost.functions.loader import Function
from devhost.functions.metadata import TimerTrigger
from devhost.storage.errors import Outage, StorageBusyError, StorageRefusedError
from devhost.timer import ncrontab
from devhost.timer.ncrontab import Schedule

Invoke = Callable[[Function, Datum, None], Awaitable[Datum | None]]

# Clocks are set and machines sleep, so a long wait checks the clock now and then.
_LONGEST_SLEEP = timedelta(seconds=30)
_RETRY_DELAY = timedelta(seconds=2)

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerStatus:
    """A timer's state, kept between two runs of the host."""

    #: None: the timer has not run on this schedule.
    last: datetime | None
    next: datetime | None
    last_updated: datetime


class StatusStore(Protocol):
    """Keeps the status; both methods may raise StorageBusyError or StorageRefusedError."""

    async def read(self) -> TimerStatus | None:
        """Return the status, or None if there is none."""

    async def write(self, status: TimerStatus) -> None:
        """Store *status*."""


class Lock(Protocol):
    """A lock that one of the hosts with the same host id holds."""

    async def acquire(self, lost: Callable[[], None]) -> bool:
        """
        Try to take the lock; False: another host has it. *lost* is called if it expires.

        May raise StorageBusyError or StorageRefusedError.
        """

    async def release(self) -> None:
        """Release the lock."""

    @property
    def recovery_interval(self) -> timedelta:
        """How long to wait before the next try."""


def make_schedule(text: str) -> Schedule:
    """
    Parse a timer's schedule.

    Raises:
        BadFunctionError: it is not NCRONTAB; time spans are not supported.
    """
    try:
        return ncrontab.parse(text)
    except ncrontab.ScheduleError as fault:
        raise BadFunctionError(f"schedule: {fault}") from fault


def local_moment(shown: datetime) -> datetime:
    """
    Return the moment at which local time is *shown*, which has no zone; the first one of two.

    A local time that is skipped when clocks go forward is taken as much later.
    """
    # Not `shown.astimezone()`: for a skipped time it differs between Python 3.11 and 3.12.
    return datetime.fromtimestamp(shown.timestamp(), UTC).astimezone()


class TimerListener:
    """Serves one timer function until it is stopped."""

    def __init__(  # noqa: PLR0913 - named, and each of them differs in tests
        self,
        *,
        function: Function,
        statuses: StatusStore,
        lock: Lock,
        invoke: Invoke,
        now: Callable[[], datetime],
        local: Callable[[datetime], datetime] = local_moment,
    ) -> None:
        trigger = function.metadata.trigger
        if not isinstance(trigger, TimerTrigger):
            raise TypeError
        self._function = function
        self._trigger = trigger
        self._schedule = make_schedule(trigger.schedule)
        is_monitored = trigger.use_monitor and not self._schedule.fires_more_than_once_a_minute
        self._statuses = statuses if is_monitored else None
        self._lock = lock
        self._invoke = invoke
        self._now = now
        self._local = local
        self._halted = asyncio.Event()
        self._stopping = False
        self._outage = Outage(f"timer {function.metadata.name}")

    def stop(self) -> None:
        """Start no more runs; one in progress is finished."""
        self._stopping = True
        self._halted.set()

    async def run(self) -> None:
        """
        Fire when due until stopped, while no other host holds the lock.

        Raises:
            HostError: storage rejects the host's requests.
        """
        while await self._acquire():
            try:
                await self._fire_until_halted()
            finally:
                await self._lock.release()
            if not self._stopping:
                _log.warning(
                    "timer %s: lost its lease, trying to take it again",
                    self._function.metadata.name,
                )
                self._halted.clear()

    async def _acquire(self) -> bool:
        while not self._stopping:
            taken = await self._retry(lambda: self._lock.acquire(self._halted.set))
            if taken:
                return True
            await self._sleep(self._lock.recovery_interval)
        return False

    async def _fire_until_halted(self) -> None:
        now = self._now()
        status = await self._read_status(now)
        if status and status.next and now > status.next:
            status = await self._fire(now, status, past_due=True)
        elif self._trigger.run_on_startup and not self._halted.is_set():
            status = await self._fire(now, status, past_due=False)
        while not self._halted.is_set():
            due = self._next_after(self._now())
            if due is None:
                _log.warning(
                    "timer %s: schedule %r is never due",
                    self._function.metadata.name,
                    self._trigger.schedule,
                )
                await self._halted.wait()
                return
            if due := await self._wait_until(due):
                status = await self._fire(due, status, past_due=False)

    async def _read_status(self, now: datetime) -> TimerStatus | None:
        if self._statuses is None:
            return None
        known = await self._retry(self._statuses.read)
        if self._halted.is_set():
            # The read may have been given up; the stored status stays for the next host.
            return None
        if known is not None:
            expected = self._next_after(known.last or known.last_updated)
            if known.next == expected:
                return known
            # The schedule has changed: what was due on the old one is forgotten.
            if expected is not None and now > expected:
                expected = self._next_after(now)
            initial = replace(known, last=None, next=expected, last_updated=now)
        else:
            initial = TimerStatus(last=None, next=self._next_after(now), last_updated=now)
        await self._write(initial)
        return initial

    async def _fire(
        self, at: datetime, status: TimerStatus | None, *, past_due: bool
    ) -> TimerStatus | None:
        seen = timer_datum(status if self._statuses else None, past_due=past_due)
        # The failure has been reported and does not end the schedule.
        with contextlib.suppress(InvocationError):
            await self._invoke(self._function, seen, None)
        if self._statuses is None:
            return None
        done = TimerStatus(last=at, next=self._next_after(at), last_updated=at)
        await self._write(done)
        return done

    def _next_after(self, moment: datetime) -> datetime | None:
        due = self._schedule.next_after(moment)
        if due is None or not self._schedule.names_hours:
            return due
        # The UTC offset at the due time may differ from *moment*'s.
        return self._local(due.replace(tzinfo=None))

    async def _write(self, status: TimerStatus) -> None:
        statuses = self._statuses
        if statuses is not None:
            await self._retry(lambda: statuses.write(status))

    async def _wait_until(self, due: datetime) -> datetime | None:
        """Wait until it is due, sooner if the clock is set back; None: halted."""
        now = self._now()
        while now < due:
            if await self._sleep(min(due - now, _LONGEST_SLEEP)):
                return None
            before, now = now, self._now()
            if now < before:
                due = self._next_after(now) or due
        return None if self._halted.is_set() else due

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
                self._outage.begin(fault)
                if await self._sleep(_RETRY_DELAY):
                    return None
            except StorageRefusedError as fault:
                name = self._function.metadata.name
                raise HostError(f"timer {name}: storage rejects the host: {fault}") from fault
            else:
                self._outage.end()
                return result


def timer_datum(status: TimerStatus | None, *, past_due: bool) -> Datum:
    """Return a timer function's input; *status*: the one before this run, if one is kept."""
    shown = status_json(status) if status else None
    data = {"Schedule": {"AdjustForDST": True}, "ScheduleStatus": shown, "IsPastDue": past_due}
    return Datum(json.dumps(data), "json")


def status_json(status: TimerStatus) -> dict[str, str]:
    """Return *status* as the real host stores it and passes it to the function."""
    return {
        "Last": _json_time(status.last),
        "Next": _json_time(status.next),
        "LastUpdated": _json_time(status.last_updated),
    }


def _json_time(moment: datetime | None) -> str:
    # The year 1 means never.
    return "0001-01-01T00:00:00" if moment is None else moment.isoformat()
