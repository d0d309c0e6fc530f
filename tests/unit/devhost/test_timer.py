"""The runs of a timer on a driven clock; tests/host has the rules that show from outside."""

import asyncio
import json
from datetime import timedelta
from math import inf

import pytest

from devhost.errors import BadFunctionError, HostError, InvocationError
from devhost.storage.errors import LONGEST_OUTAGE, StorageBusyError, StorageUnreachableError
from devhost.timer.listener import TimerListener
from devhost.timer.storage import TimerStatus
from tests.unit.devhost.conftest import seconds_of


class Storage:
    """A status, and a lease that is free."""

    def __init__(self) -> None:
        self.known: TimerStatus | None = None
        self.writes: list[TimerStatus] = []
        self.faults: list[Exception] = []
        self.released = False

    async def read(self):
        if self.faults:
            raise self.faults.pop()
        return self.known

    async def write(self, status):
        self.known = status
        self.writes.append(status)

    async def acquire(self, _lost):
        return True

    async def release(self):
        self.released = True


@pytest.fixture
def storage():
    return Storage()


@pytest.fixture
def runs():
    return []


@pytest.fixture
def tick(clock, loop, timer_function, *, storage, runs):
    """Run a timer for *seconds*; each run takes *takes* seconds."""

    def go(
        schedule, seconds, *, takes=0.0, fails=False, now=clock.now, longest_outage=inf, **trigger
    ):
        async def invoke(_function, data, _metadata):
            runs.append((clock.now(), json.loads(data.value)))
            await asyncio.sleep(takes)
            if fails:
                raise InvocationError

        timer = TimerListener(
            function=timer_function(schedule=schedule, **trigger),
            storage=storage,
            recovery=timedelta(minutes=1),
            invoke=invoke,
            now=now,
            longest_outage=longest_outage,
        )

        async def scene() -> None:
            running = asyncio.create_task(timer.run())
            await asyncio.sleep(seconds)
            timer.stop()
            await running

        loop.run(scene())
        return [(at - began).total_seconds() for at, _ in runs]

    began = clock.now()
    return go


def test_a_rare_timer_remembers_each_run(tick, storage, runs, clock):
    start = clock.now()

    assert tick("0 * * * * *", 130) == [60, 120]
    assert storage.known == TimerStatus(
        last=start + timedelta(minutes=2),
        next=start + timedelta(minutes=3),
        last_updated=start + timedelta(minutes=2),
    )
    assert runs[0][1]["ScheduleStatus"]["Last"] == "0001-01-01T00:00:00"
    assert runs[1][1]["ScheduleStatus"]["Last"] == "2026-11-21T12:01:00+00:00"


def test_nothing_is_past_due_when_monitoring_is_off(tick, storage, clock):
    last = clock.now() - timedelta(minutes=5)
    storage.known = TimerStatus(last=last, next=last + timedelta(minutes=1), last_updated=last)

    assert tick("0 * * * * *", 70, use_monitor=False) == [60]


def test_a_failure_does_not_end_the_schedule(tick):
    assert tick("*/2 * * * * *", 5, fails=True) == [2, 4]


def test_a_timer_without_storage_ends_a_host_that_ends_as_azure(tick, storage):
    storage.faults = [StorageUnreachableError("ConnectionRefusedError")] * 99

    with pytest.raises(HostError, match="out of reach for 2"):
        tick("0 * * * * *", 60, longest_outage=LONGEST_OUTAGE)


def test_a_clock_that_is_set_is_noticed_within_half_a_minute(tick, clock):
    """So is a machine that slept: no wait is longer without a look at the clock."""

    def now():
        return clock.now() + timedelta(minutes=58 if seconds_of(clock) > 100 else 0)

    (at,) = tick("0 0 * * * *", 200, now=now)

    assert 120 <= at <= 150


def test_a_clock_that_is_set_back_stops_no_schedule(tick, clock):
    """A timer of every minute was silent for six hours."""

    def now():
        return clock.now() - timedelta(hours=6 if seconds_of(clock) > 70 else 0)

    assert tick("0 * * * * *", 250, now=now) == [60, 120, 180, 240]


def test_a_status_that_was_not_read_in_time_is_not_overwritten(tick, storage, clock):
    """Stopped during an outage, the host leaves the status for the next one."""
    last = clock.now() - timedelta(minutes=5)
    due = TimerStatus(last=last, next=last + timedelta(minutes=1), last_updated=last)
    storage.known = due
    storage.faults = [StorageBusyError("connection refused")]

    assert tick("0 * * * * *", 1) == []
    assert storage.known == due
    assert storage.writes == []
    assert storage.released


@pytest.mark.parametrize(
    ("takes", "starts"),
    [(1.1, [1, 2.1, 3.2, 4.3, 5.4]), (2.5, [1, 3.5, 6])],
    ids=["one missed", "two missed are made up for by one"],
)
def test_a_run_that_was_missed_is_made_up_for_at_once(tick, takes, starts):
    """Source: azure-webjobs-sdk-extensions Timers/Listener/TimerListener.cs, InvokeJobFunction."""
    assert tick("* * * * * *", 6.2, takes=takes) == starts


def test_a_clock_that_is_set_back_in_a_run_stops_no_schedule(tick, clock):
    def now():
        return clock.now() - timedelta(hours=6 if seconds_of(clock) > 61 else 0)

    assert tick("0 * * * * *", 190, takes=10, now=now) == [60, 120, 180]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("every day", "has 2 fields"),
        ("61 * * * * *", "second is not"),
        ("00:00:03", "time spans are not"),
        ("0 0 0 30 2 *", "is never due"),
    ],
)
def test_other_schedules_are_refused(tick, text, fault):
    with pytest.raises(BadFunctionError, match=f"schedule: .*{fault}"):
        tick(text, 1)
