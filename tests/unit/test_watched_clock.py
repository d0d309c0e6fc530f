"""A clock that notices when it is wrong: by the wall clock, the monotonic one and storage's."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import pytest

from pushgrid.testing.memory import START, FakeClock
from shared.clock import STORAGE, ClockNote
from shared.watched_clock import WatchedClock

SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=n) for n in (1, 60, 3600, 86400))


class Jumps(list[tuple[timedelta, datetime]]):
    """What was told of jumps, and apart from it of storage's time."""

    def __init__(self) -> None:
        self.from_storage: list[tuple[timedelta, datetime]] = []

    def add(self, note: ClockNote) -> None:
        told = (timedelta(seconds=round(note.seconds)), note.at)
        (self.from_storage if note.what == STORAGE else self).append(told)


@pytest.fixture
def jumps() -> Jumps:
    return Jumps()


@pytest.fixture
def wall() -> FakeClock:
    return FakeClock()


@pytest.fixture
def clock(wall: FakeClock, jumps: Jumps) -> WatchedClock:
    return WatchedClock(wall.now, wall.monotonic, jumps.add)


def started(wall: FakeClock, jumps: Jumps) -> WatchedClock:
    """Return the clock of a process that has had no answer of storage."""
    return WatchedClock(wall.now, wall.monotonic, jumps.add, awaits_storage=True)


def answer(clock: WatchedClock, at: datetime, took: float = 0.0) -> None:
    clock.storage_answered(at.replace(microsecond=0), took)


@pytest.mark.parametrize("by", [6 * HOUR, -6 * HOUR, 30 * HOUR, 11 * SECOND])
def test_a_jump_is_told_once_and_the_first_answer_after_ten_minutes_makes_it_trusted(
    wall: FakeClock, clock: WatchedClock, jumps: Jumps, by: timedelta
) -> None:
    """Until then it reads the later time: what is stored will not look older than it is."""
    assert clock.is_trusted
    wall.advance(HOUR)
    wall.jump(by)

    assert clock.now() == clock.now() == START + HOUR + max(by, 0 * HOUR)
    assert jumps == [(by, START + HOUR + by)]
    wall.advance(10 * MINUTE - SECOND)
    answer(clock, wall.now())
    assert not clock.is_trusted
    wall.advance(HOUR)
    assert not clock.is_trusted
    answer(clock, wall.now())
    assert clock.is_trusted
    assert clock.now() == wall.now()


@pytest.mark.parametrize("by", [30 * HOUR, -30 * HOUR])
def test_after_a_jump_and_an_idle_hour_storages_time_counts(
    wall: FakeClock, clock: WatchedClock, jumps: Jumps, by: timedelta
) -> None:
    wall.jump(by)
    assert clock.now() == max(wall.now(), wall.elsewhere.now())
    wall.advance(HOUR)
    assert clock.now() == max(wall.now(), wall.elsewhere.now())

    answer(clock, wall.elsewhere.now())

    assert clock.is_trusted
    assert abs(clock.now() - wall.elsewhere.now()) <= SECOND
    assert (len(jumps), jumps.from_storage) == (1, [])


def test_a_jump_back_is_a_jump_as_well(wall: FakeClock, clock: WatchedClock, jumps: Jumps) -> None:
    for by in (6 * HOUR, -6 * HOUR):
        wall.jump(by)
        clock.now()

    assert [by for by, _ in jumps] == [6 * HOUR, -6 * HOUR]


@pytest.mark.parametrize("step", [9 * SECOND, -9 * SECOND])
def test_a_clock_that_is_corrected_little_by_little_does_not_jump(
    wall: FakeClock, clock: WatchedClock, jumps: Jumps, step: timedelta
) -> None:
    for _ in range(100):
        wall.advance(HOUR)
        wall.jump(step)
        clock.now()

    assert jumps == []
    assert clock.is_trusted


@pytest.mark.parametrize("by", [30 * HOUR, -30 * HOUR, 12 * SECOND, -12 * SECOND, -20_000 * DAY])
def test_a_process_that_starts_with_a_wrong_clock_goes_by_storage_after_ten_minutes(
    wall: FakeClock, jumps: Jumps, by: timedelta
) -> None:
    wall.jump(by)
    clock = started(wall, jumps)
    told: list[bool] = []

    for _ in range(600):
        answer(clock, wall.elsewhere.now())
        told.append(clock.is_trusted)
        assert clock.now() >= max(wall.now(), wall.elsewhere.now())
        wall.advance(SECOND)
    answer(clock, wall.elsewhere.now())

    assert not any(told)
    assert clock.is_trusted
    assert abs(clock.now() - wall.elsewhere.now()) <= SECOND
    assert (jumps, len(jumps.from_storage)) == ([], 1)
    [(told_by, at)] = jumps.from_storage
    assert abs(told_by - by) <= SECOND
    assert abs(at - START) <= SECOND


@pytest.mark.parametrize("idle", [0 * MINUTE, 11 * MINUTE, 30 * HOUR])
def test_before_the_first_answer_nothing_is_known(
    wall: FakeClock, jumps: Jumps, idle: timedelta
) -> None:
    """However long that takes: a process of many that has nothing to do."""
    clock = started(wall, jumps)
    wall.advance(idle)
    assert not clock.is_trusted

    answer(clock, wall.now())

    assert clock.is_trusted
    assert jumps == jumps.from_storage == []


def test_the_first_answer_tells_of_a_wrong_clock_however_late_it_comes(
    wall: FakeClock, jumps: Jumps
) -> None:
    wall.jump(-2 * HOUR)
    clock = started(wall, jumps)
    wall.advance(11 * MINUTE)

    answer(clock, wall.elsewhere.now())

    assert not clock.is_trusted
    assert abs(clock.now() - wall.elsewhere.now()) <= SECOND
    assert len(jumps.from_storage) == 1


@pytest.mark.parametrize("told", [None, START.replace(year=9999), START.replace(year=1)])
def test_what_is_no_time_says_nothing(wall: FakeClock, jumps: Jumps, told: datetime | None) -> None:
    """Storage without a time: its answers make the clock trusted after ten minutes."""
    clock = started(wall, jumps)
    for number in range(10):
        clock.storage_answered(told, number)
        wall.advance(MINUTE)
        assert not clock.is_trusted

    clock.storage_answered(told, 1.0)

    assert clock.is_trusted
    assert clock.now() == wall.now()
    assert jumps == jumps.from_storage == []


def test_an_answer_without_a_time_contradicts_none_that_has_one(
    wall: FakeClock, clock: WatchedClock
) -> None:
    answer(clock, START + 30 * HOUR)
    wall.advance(HOUR)

    clock.storage_answered(None, 0.0)

    assert (clock.is_trusted, clock.now()) == (False, wall.now() + 30 * HOUR + SECOND / 2)


@pytest.mark.parametrize("took", [0.0, 1.0, 16.0])
@pytest.mark.parametrize("made_after", [0.0, 0.5, 1.0])  # a share of the exchange
@pytest.mark.parametrize("off", [9.9, -9.9])
def test_a_slow_answer_is_no_jump(
    wall: FakeClock, clock: WatchedClock, jumps: Jumps, took: float, made_after: float, off: float
) -> None:
    """A date is whole seconds, and of some moment between request and answer."""
    for _ in range(40):
        wall.advance(0.37 * SECOND)
        made = wall.now() + took * made_after * SECOND
        wall.advance(took * SECOND)
        answer(clock, made + off * SECOND, took)

    assert (clock.is_trusted, jumps.from_storage) == (True, [])


def test_an_answer_during_which_the_clock_was_set_says_nothing(
    wall: FakeClock, clock: WatchedClock, jumps: Jumps
) -> None:
    """A machine that slept twice while it waited: the answer was made before."""
    for _ in range(2):
        wall.jump(8 * HOUR)
        clock.now()
    answer(clock, START, 3.0)
    assert len(jumps) == 2

    assert jumps.from_storage == []

    for _ in range(2):
        wall.advance(10 * MINUTE)
        answer(clock, wall.now())

    assert (clock.is_trusted, jumps.from_storage) == (True, [])
    assert clock.now() == wall.now()


def test_one_jump_is_told_once_though_storage_says_it_too(
    wall: FakeClock, clock: WatchedClock, jumps: Jumps
) -> None:
    answer(clock, START)
    wall.jump(30 * HOUR)
    clock.now()
    for _ in range(11):
        wall.advance(MINUTE)
        answer(clock, wall.elsewhere.now())

    assert (len(jumps), jumps.from_storage) == (1, [])
    assert clock.is_trusted
    assert abs(clock.now() - wall.elsewhere.now()) <= SECOND


@pytest.mark.parametrize("by", [30 * HOUR, -30 * HOUR])
def test_a_clock_that_is_set_right_is_followed_at_once(
    wall: FakeClock, jumps: Jumps, by: timedelta
) -> None:
    """Before it is trusted, and long after."""
    wall.jump(by)
    clock = started(wall, jumps)
    answer(clock, START)
    wall.jump(-by)
    assert clock.now() == wall.now()

    wall.advance(10 * MINUTE)
    wall.jump(by)
    for _ in range(11):
        wall.advance(MINUTE)
        answer(clock, wall.elsewhere.now())
    wall.jump(-by)

    assert abs(clock.now() - wall.now()) <= SECOND


def test_other_times_of_storage_begin_the_ten_minutes_anew(
    wall: FakeClock, clock: WatchedClock
) -> None:
    """Its clock stands still, or there are two: neither counts, and the later time is read."""
    for _ in range(30):
        wall.advance(MINUTE)
        answer(clock, START - HOUR)
        answer(clock, START - 2 * HOUR)
        assert (clock.is_trusted, clock.now()) == (False, wall.now())


def test_one_strange_answer_is_over_after_ten_minutes(wall: FakeClock, clock: WatchedClock) -> None:
    answer(clock, START + 30 * HOUR)
    wall.advance(SECOND)
    answer(clock, wall.now())
    assert (clock.is_trusted, clock.now()) == (False, wall.now())

    wall.advance(10 * MINUTE)
    answer(clock, wall.now())

    assert (clock.is_trusted, clock.now()) == (True, wall.now())


def test_threads_that_see_one_jump_tell_it_once(wall: FakeClock, jumps: Jumps) -> None:
    clock = WatchedClock(wall.now, wall.monotonic, jumps.add)
    wall.jump(-30 * HOUR)
    begin = threading.Barrier(8)

    def read() -> None:
        begin.wait()
        clock.now()

    threads = [threading.Thread(target=read) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert len(jumps) == 1
    assert clock.now() == START
