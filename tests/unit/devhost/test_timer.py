"""When a timer function runs: due, past due, at start, and never twice at once."""

import asyncio
import json
from datetime import timedelta

import pytest

from devhost.errors import BadFunctionError, HostError, InvocationError
from devhost.storage_errors import StorageBusyError, StorageRefusedError
from devhost.timer import Status, Timer, make_schedule


class Statuses:
    """The status blob."""

    def __init__(self) -> None:
        self.known: Status | None = None
        self.writes: list[Status] = []
        self.faults: list[Exception] = []

    async def read(self):
        if self.faults:
            raise self.faults.pop()
        return self.known

    async def write(self, status):
        self.known = status
        self.writes.append(status)


class Lock:
    """The lease, free after so many tries."""

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
    """Run a timer for so many seconds; *takes* is how long each run lasts."""

    def go(schedule, seconds, *, takes=0.0, fails=False, **trigger):
        async def invoke(_function, data, _metadata):
            runs.append((loop.now(), json.loads(data.value)))
            await asyncio.sleep(takes)
            if fails:
                raise InvocationError

        timer = Timer(
            function=timer_function(schedule, **trigger),
            statuses=statuses,
            lock=lock,
            invoke=invoke,
            now=loop.now,
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
    assert statuses.known == Status(
        last=start + timedelta(minutes=2),
        next=start + timedelta(minutes=3),
        last_updated=start + timedelta(minutes=2),
    )
    assert runs[0][1]["ScheduleStatus"]["Last"] == "0001-01-01T00:00:00"
    assert runs[1][1]["ScheduleStatus"]["Last"] == "2026-11-21T12:01:00+00:00"


def test_missed_runs_are_made_up_for_once(tick, statuses, runs, loop):
    last = loop.now() - timedelta(minutes=5)
    statuses.known = Status(last=last, next=last + timedelta(minutes=1), last_updated=last)

    assert tick("0 * * * * *", 70) == [0, 60]
    assert [data["IsPastDue"] for _, data in runs] == [True, False]


def test_a_changed_schedule_is_not_past_due(tick, statuses, loop):
    last = loop.now() - timedelta(minutes=65)
    statuses.known = Status(last=last, next=last + timedelta(minutes=2), last_updated=last)

    assert tick("0 0 * * * *", 70) == []
    assert statuses.known.next == loop.now().replace(hour=13, minute=0, second=0, microsecond=0)
    assert statuses.known.last is None


def test_nothing_is_past_due_when_monitoring_is_off(tick, statuses, loop):
    last = loop.now() - timedelta(minutes=5)
    statuses.known = Status(last=last, next=last + timedelta(minutes=1), last_updated=last)

    assert tick("0 * * * * *", 70, use_monitor=False) == [60]


def test_run_on_startup(tick, runs):
    assert tick("0 0 * * * *", 5, run_on_startup=True) == [0]
    assert runs[0][1]["IsPastDue"] is False


def test_a_run_longer_than_the_period_drops_what_it_missed(tick):
    assert tick("*/2 * * * * *", 12, takes=3) == [2, 6, 10]


def test_a_failure_does_not_end_the_schedule(tick):
    assert tick("*/2 * * * * *", 5, fails=True) == [2, 4]


def test_a_time_span_is_a_schedule(tick):
    assert tick("00:00:03", 10) == [3, 6, 9]


def test_only_the_host_with_the_lock_fires(tick, lock):
    lock.taken_for = 2

    assert tick("0 * * * * *", 200) == [180]
    assert lock.tries == 3


def test_a_host_that_lost_the_lock_tries_for_it_again(tick, lock, caplog):
    lock.lost_after = 5.0

    assert tick("*/2 * * * * *", 69) == [2, 4, 66, 68]
    assert lock.tries == 3
    assert "its lease was lost" in caplog.text


def test_a_status_that_was_not_read_in_time_is_not_overwritten(tick, statuses, lock, loop):
    """Stopped while storage is away: what is due must still be known to the next host."""
    last = loop.now() - timedelta(minutes=5)
    due = Status(last=last, next=last + timedelta(minutes=1), last_updated=last)
    statuses.known = due
    statuses.faults = [StorageBusyError("connection refused")]

    assert tick("0 * * * * *", 1) == []
    assert statuses.known == due
    assert statuses.writes == []
    assert lock.released


def test_the_lock_is_given_back(tick, lock):
    tick("*/2 * * * * *", 3)

    assert lock.released


def test_storage_that_refuses_stops_the_host(tick, statuses):
    statuses.faults = [StorageRefusedError("403 AuthenticationFailed")]

    with pytest.raises(HostError, match="timer work: storage refuses: 403"):
        tick("0 * * * * *", 70)


def test_storage_that_does_not_answer_is_kept_trying(tick, statuses, caplog):
    statuses.faults = [StorageBusyError("connection refused") for _ in range(3)]

    assert tick("0 * * * * *", 70) == [60]
    assert "still trying: connection refused" in caplog.text
    assert "storage works again" in caplog.text


@pytest.mark.parametrize("text", ["every day", "61 * * * * *", "00:00:00", "24:00:00", "-00:00:05"])
def test_refuses_what_is_no_schedule(text):
    with pytest.raises(BadFunctionError, match="schedule"):
        make_schedule(text)
