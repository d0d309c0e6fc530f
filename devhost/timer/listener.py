"""
The loop of one timer trigger: one run at a time, one host at a time, past due at most once.

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
from devhost.host_json import parse_time_span
from devhost.storage.errors import StorageBusyError, StorageRefusedError
from devhost.storage.outage import Outage
from devhost.timer import ncrontab
from devhost.timer.ncrontab import Schedule

Invoke = Callable[[Function, Datum, None], Awaitable[Datum | None]]

# Clocks are set and machines sleep: a long wait looks at the clock now and then.
_LONGEST_SLEEP = timedelta(seconds=30)
_RETRY = timedelta(seconds=2)

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is remembered of a timer between two hosts."""

    #: None: it has never run on this schedule.
    last: datetime | None
    next: datetime | None
    last_updated: datetime


class StatusStore(Protocol):
    """Remembers the status; both methods may raise StorageBusyError or StorageRefusedError."""

    async def read(self) -> Status | None:
        """Return what is remembered."""

    async def write(self, status: Status) -> None:
        """Remember *status*."""


class Lock(Protocol):
    """Held by one host of those with the same host id."""

    async def acquire(self, lost: Callable[[], None]) -> bool:
        """
        Try to take it; False: another host has it.

        May raise StorageBusyError or StorageRefusedError.

        *lost* is called when it could not be kept.
        """

    async def release(self) -> None:
        """Give it back."""

    @property
    def recovery_interval(self) -> timedelta:
        """How long to wait before the next try."""


def make_schedule(text: str) -> Schedule:
    """
    Parse a timer's schedule: NCRONTAB, or a time span.

    Raises:
        BadFunctionError: it is neither.
    """
    if ":" in text:
        span = parse_time_span(text.strip())
        if span is None or span <= timedelta(0):
            raise BadFunctionError(f"schedule {text!r} is no time span")
        return ncrontab.Schedule(interval=span)
    try:
        schedule = ncrontab.parse(text)
    except ncrontab.ScheduleError as fault:
        raise BadFunctionError(f"schedule: {fault}") from fault
    return schedule


def on_the_wall(shown: datetime) -> datetime:
    """
    Return when the process's clock shows *shown*, which knows no zone; the first time of two.

    What it never shows, as it is put on meanwhile, is as much later as it is put on.
    """
    # By way of the timestamp: of a time that is never shown, `astimezone` makes another one
    # before Python 3.12 than since.
    return datetime.fromtimestamp(shown.timestamp(), UTC).astimezone()


class Timer:
    """Serves one timer function until it is stopped."""

    def __init__(  # noqa: PLR0913 - named, and each of them differs in tests
        self,
        *,
        function: Function,
        statuses: StatusStore,
        lock: Lock,
        invoke: Invoke,
        now: Callable[[], datetime],
        local: Callable[[datetime], datetime] = on_the_wall,
    ) -> None:
        trigger = function.metadata.trigger
        if not isinstance(trigger, TimerTrigger):
            raise TypeError
        self._function = function
        self._trigger = trigger
        self._schedule = make_schedule(trigger.schedule)
        rare = not self._schedule.fires_more_than_once_a_minute
        self._statuses = statuses if trigger.use_monitor and rare else None
        self._lock = lock
        self._invoke = invoke
        self._now = now

        self._local = local
        self._halted = asyncio.Event()
        self._stopping = False
        self._outage = Outage(f"timer {function.metadata.name}")

    def stop(self) -> None:
        """Start no more runs; one that is under way goes on."""
        self._stopping = True
        self._halted.set()

    async def run(self) -> None:
        """
        Fire when due until stopped, as long as no other host does.

        Raises:
            HostError: storage refuses the host, which cannot go on then.
        """
        while await self._acquire():
            try:
                await self._fire_until_halted()
            finally:
                await self._lock.release()
            if not self._stopping:
                _log.warning(
                    "timer %s: its lease was lost, trying for it again",
                    self._function.metadata.name,
                )
                self._halted.clear()

    async def _acquire(self) -> bool:
        while not self._stopping:
            taken = await self._insist(lambda: self._lock.acquire(self._halted.set))
            if taken:
                return True
            await self._sleep(self._lock.recovery_interval)
        return False

    async def _fire_until_halted(self) -> None:
        now = self._now()
        status = await self._known_status(now)
        if status and status.next and now > status.next:
            status = await self._fire(now, status, past_due=True)
        elif self._trigger.run_on_startup and not self._halted.is_set():
            status = await self._fire(now, status, past_due=False)
        while not self._halted.is_set():
            due = self._next_after(self._now())
            if due is None:
                _log.warning(
                    "%s: schedule %r is never due",
                    self._function.metadata.name,
                    self._trigger.schedule,
                )
                await self._halted.wait()
                return
            if await self._wait_until(due):
                status = await self._fire(due, status, past_due=False)

    async def _known_status(self, now: datetime) -> Status | None:
        if self._statuses is None:
            return None
        known = await self._insist(self._statuses.read)
        if self._halted.is_set():
            # Nothing may have been read: what is there is the next host's to judge.
            return None
        if known is not None:
            expected = self._next_after(known.last or known.last_updated)
            if known.next == expected:
                return known
            # Another schedule than the one it was written for: what is due starts afresh.
            if expected is not None and now > expected:
                expected = self._next_after(now)
            fresh = replace(known, last=None, next=expected, last_updated=now)
        else:
            fresh = Status(last=None, next=self._next_after(now), last_updated=now)
        await self._write(fresh)
        return fresh

    async def _fire(self, at: datetime, status: Status | None, *, past_due: bool) -> Status | None:
        seen = datum(status if self._statuses else None, past_due=past_due)
        # Reported already; a failure does not end the schedule.
        with contextlib.suppress(InvocationError):
            await self._invoke(self._function, seen, None)
        if self._statuses is None:
            return None
        done = Status(last=at, next=self._next_after(at), last_updated=at)
        await self._write(done)
        return done

    def _next_after(self, moment: datetime) -> datetime | None:
        due = self._schedule.next_after(moment)
        if due is None or not self._schedule.goes_by_the_wall:
            return due
        # *moment* knows its distance from UTC, which may be another one when it is due.
        return self._local(due.replace(tzinfo=None))

    async def _write(self, status: Status) -> None:
        statuses = self._statuses
        if statuses is not None:
            await self._insist(lambda: statuses.write(status))

    async def _wait_until(self, due: datetime) -> bool:
        while (left := due - self._now()) > timedelta(0):
            if await self._sleep(min(left, _LONGEST_SLEEP)):
                return False
        return not self._halted.is_set()

    async def _sleep(self, delay: timedelta) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay.total_seconds()):
                await self._halted.wait()
        return self._halted.is_set()

    async def _insist(self, step: Callable[[], Awaitable[_T]]) -> _T | None:
        while True:
            try:
                result = await step()
            except StorageBusyError as fault:
                self._outage.met(fault)
                if await self._sleep(_RETRY):
                    return None
            except StorageRefusedError as fault:
                name = self._function.metadata.name
                raise HostError(f"timer {name}: storage refuses: {fault}") from fault
            else:
                self._outage.over()
                return result


def datum(status: Status | None, *, past_due: bool) -> Datum:
    """Return what a timer function gets; *status*: as it was before this run, if one is kept."""
    shown = status_json(status) if status else None
    data = {"Schedule": {"AdjustForDST": True}, "ScheduleStatus": shown, "IsPastDue": past_due}
    return Datum(json.dumps(data), "json")


def status_json(status: Status) -> dict[str, str]:
    """Return *status* as the real host writes it, in its blob and to the function."""
    return {
        "Last": _json_time(status.last),
        "Next": _json_time(status.next),
        "LastUpdated": _json_time(status.last_updated),
    }


def _json_time(moment: datetime | None) -> str:
    # The year 1 stands for "never".
    return "0001-01-01T00:00:00" if moment is None else moment.isoformat()
