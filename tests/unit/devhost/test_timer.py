"""The runs of a timer on a driven clock; tests/host has the rules that show from outside."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from devhost.errors import BadFunctionError, HostError, InvocationError
from devhost.storage.errors import StorageBusyError, StorageRefusedError
from devhost.timer.listener import TimerListener, TimerStatus, local_moment, make_schedule


class Statuses:
    """The status blob."""

    def __init__(self) -> None:
        self.known: TimerStatus | None = None
        self.writes: list[TimerStatus] = []
        self.faults: list[Exception] = []

    async def read(self):
        if self.faults:
            raise self.faults.pop()
        return self.known

    async def write(self, status):
        self.known = status
        self.writes.append(status)


class Lock:
    """A lease that is free after some tries."""

    recovery_interval = timedelta(minutes=1)

    def __init__(self) -> None:
        self.taken_for = 0
        self.tries = 0
        self.lost_after = 0.0
        self.released = False

    async def acquire(self, lost):
        self.tries += 1
        if self.lost_after:
            asyncio.get_running_loop().call_later(self.lost_after, lost)
            self.lost_after, self.taken_for = 0.0, self.tries + 1
            return True
        return self.tries > self.taken_for

    async def release(self):
        self.released = True


@pytest.fixture
def statuses():
    return Statuses()


@pytest.fixture
def lock():
    return Lock()


@pytest.fixture
def runs():
    return []


@pytest.fixture
def tick(loop, run, timer_function, *, statuses, lock, runs):
    """Run a timer for *seconds*; each run takes *takes* seconds."""

    def go(schedule, seconds, *, takes=0.0, fails=False, clock=loop.now, local=None, **trigger):
        async def invoke(_function, data, _metadata):
            runs.append((loop.now(), json.loads(data.value)))
            await asyncio.sleep(takes)
            if fails:
                raise InvocationError

        timer = TimerListener(
            function=timer_function(schedule=schedule, **trigger),
            statuses=statuses,
            lock=lock,
            invoke=invoke,
            now=clock,
            local=local or (lambda wall: wall.replace(tzinfo=UTC)),
        )

        async def scene() -> None:
            running = asyncio.create_task(timer.run())
            await asyncio.sleep(seconds)
            timer.stop()
            await running

        run(scene())
        return [(at - began).total_seconds() for at, _ in runs]

    began = loop.now()
    return go


def test_a_frequent_timer_keeps_no_status(tick, statuses, runs):
    assert tick("*/2 * * * * *", 7) == [2, 4, 6]
    assert statuses.writes == []
    assert runs[0][1] == {
        "Schedule": {"AdjustForDST": True},
        "ScheduleStatus": None,
        "IsPastDue": False,
    }


def test_a_rare_timer_remembers_each_run(tick, statuses, runs, loop):
    start = loop.now()

    assert tick("0 * * * * *", 130) == [60, 120]
    assert statuses.known == TimerStatus(
        last=start + timedelta(minutes=2),
        next=start + timedelta(minutes=3),
        last_updated=start + timedelta(minutes=2),
    )
    assert runs[0][1]["ScheduleStatus"]["Last"] == "0001-01-01T00:00:00"
    assert runs[1][1]["ScheduleStatus"]["Last"] == "2026-11-21T12:01:00+00:00"


def test_missed_runs_are_made_up_for_once(tick, statuses, runs, loop):
    last = loop.now() - timedelta(minutes=5)
    statuses.known = TimerStatus(last=last, next=last + timedelta(minutes=1), last_updated=last)

    assert tick("0 * * * * *", 70) == [0, 60]
    assert [data["IsPastDue"] for _, data in runs] == [True, False]
    start = last + timedelta(minutes=5)
    after_it = TimerStatus(last=start, next=start + timedelta(minutes=1), last_updated=start)
    assert statuses.writes[0] == after_it


def test_a_changed_schedule_is_not_past_due(tick, statuses, loop):
    last = loop.now() - timedelta(minutes=65)
    statuses.known = TimerStatus(last=last, next=last + timedelta(minutes=2), last_updated=last)

    assert tick("0 0 * * * *", 70) == []
    assert statuses.known.next == loop.now().replace(hour=13, minute=0, second=0, microsecond=0)
    assert statuses.known.last is None


def test_nothing_is_past_due_when_monitoring_is_off(tick, statuses, loop):
    last = loop.now() - timedelta(minutes=5)
    statuses.known = TimerStatus(last=last, next=last + timedelta(minutes=1), last_updated=last)

    assert tick("0 * * * * *", 70, use_monitor=False) == [60]


def test_run_on_startup(tick, runs):
    assert tick("0 0 * * * *", 5, run_on_startup=True) == [0]
    assert runs[0][1]["IsPastDue"] is False


def test_a_run_longer_than_the_period_drops_what_it_missed(tick):
    assert tick("*/2 * * * * *", 12, takes=3) == [2, 6, 10]


def test_a_failure_does_not_end_the_schedule(tick):
    assert tick("*/2 * * * * *", 5, fails=True) == [2, 4]


def test_a_clock_that_is_set_is_noticed_within_half_a_minute(tick, loop):
    """So is a machine that slept: no wait is longer without a look at the clock."""

    def clock():
        return loop.now() + timedelta(minutes=58 if loop.seconds > 100 else 0)

    (at,) = tick("0 0 * * * *", 200, clock=clock)

    assert 120 <= at <= 150


def test_a_clock_that_is_set_back_stops_no_schedule(tick, loop):
    """A timer of every minute was silent for six hours."""

    def clock():
        return loop.now() - timedelta(hours=6 if loop.seconds > 70 else 0)

    assert tick("0 * * * * *", 250, clock=clock) == [60, 120, 180, 240]


#: No name: it does not depend on what the machine knows of zones.
BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"


@pytest.fixture
def in_berlin(monkeypatch, loop):
    """Set the process's time zone; return the runs of a schedule from *day* on, in UTC."""

    def go(tick, runs, schedule, day, hours):
        loop.seconds = (day - loop.now()).total_seconds()
        tick(
            schedule,
            hours * 3600,
            clock=lambda: loop.now().astimezone(),
            local=local_moment,
        )
        return [f"{at:%d %H:%M}" for at, _ in runs]

    monkeypatch.setenv("TZ", BERLIN)
    time.tzset()
    yield go
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("schedule", "from_utc", "hours", "expected"),
    [
        ("0 30 2 * * *", "2026-10-24T12:00Z", 72, "25 00:30, 26 01:30, 27 01:30"),
        ("0 30 2 * * *", "2027-03-26T12:00Z", 72, "27 01:30, 28 01:30, 29 00:30"),
        ("0 */20 * * * *", "2026-10-25T00:30Z", 1.5, "25 00:40, 25 01:00, 25 01:20, 25 01:40"),
    ],
    ids=["back", "on", "back, every hour"],
)
def test_a_schedule_goes_by_the_wall_clock(
    tick, runs, in_berlin, *, schedule, from_utc, hours, expected
):
    """
    In Berlin clocks go back on 25 October 2026 and on on 28 March 2027.

    What names an hour runs once a day, at that hour; what does not name one runs on evenly.
    Source: docs, functions-bindings-timer, NCRONTAB time zones (2026).
    """
    day = datetime.fromisoformat(from_utc)

    assert ", ".join(in_berlin(tick, runs, schedule, day, hours)) == expected


def test_only_the_host_with_the_lock_fires(tick, lock):
    lock.taken_for = 2

    assert tick("0 * * * * *", 200) == [180]
    assert lock.tries == 3


def test_a_host_that_lost_the_lock_tries_for_it_again(tick, lock, caplog):
    lock.lost_after = 5.0

    assert tick("*/2 * * * * *", 69) == [2, 4, 66, 68]
    assert lock.tries == 3
    assert "lost its lease" in caplog.text


def test_a_status_that_was_not_read_in_time_is_not_overwritten(tick, statuses, lock, loop):
    """Stopped during an outage, the host leaves the status for the next one."""
    last = loop.now() - timedelta(minutes=5)
    due = TimerStatus(last=last, next=last + timedelta(minutes=1), last_updated=last)
    statuses.known = due
    statuses.faults = [StorageBusyError("connection refused")]

    assert tick("0 * * * * *", 1) == []
    assert statuses.known == due
    assert statuses.writes == []
    assert lock.released


def test_storage_that_rejects_the_host_stops_it(tick, statuses):
    statuses.faults = [StorageRefusedError("403 AuthenticationFailed")]

    with pytest.raises(HostError, match="timer work: storage rejects the host: 403"):
        tick("0 * * * * *", 70)


def test_an_outage_is_logged_and_retried(tick, statuses, caplog):
    statuses.faults = [StorageBusyError("connection refused") for _ in range(3)]

    assert tick("0 * * * * *", 70) == [60]
    assert "retrying: connection refused" in caplog.text
    assert "storage is available again" in caplog.text


@pytest.mark.parametrize("text", ["every day", "61 * * * * *", "00:00:03"])
def test_other_schedules_are_refused(text):
    with pytest.raises(BadFunctionError, match="schedule"):
        make_schedule(text)
