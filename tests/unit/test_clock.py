"""A clock that notices when it jumps: by the wall clock and the monotonic one, two readings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pushgrid.testing.memory import START, FakeClock
from shared.clock import WatchedClock, is_pending, timestamp

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def test_a_timestamp_has_a_fixed_width_in_every_year():
    assert timestamp(datetime.min.replace(tzinfo=UTC)) == "0001-01-01T00:00:00.0000000Z"
    assert timestamp(datetime.max.replace(tzinfo=UTC)) == "9999-12-31T23:59:59.9999990Z"


class Jumps(list[tuple[timedelta, datetime]]):
    """What was told of jumps."""

    def add(self, by: timedelta, now: datetime) -> None:
        self.append((timedelta(seconds=round(by.total_seconds())), now))


@pytest.fixture
def jumps() -> Jumps:
    return Jumps()


@pytest.fixture
def wall() -> FakeClock:
    return FakeClock()


@pytest.fixture
def clock(wall: FakeClock, jumps: Jumps) -> WatchedClock:
    return WatchedClock(wall.now, wall.monotonic, jumps.add)


@pytest.mark.parametrize("by", [6 * HOUR, -6 * HOUR, 30 * HOUR, 11 * SECOND])
def test_a_jump_is_told_once_and_the_clock_settles_after_ten_minutes(
    wall: FakeClock, clock: WatchedClock, jumps: Jumps, by: timedelta
) -> None:
    assert clock.is_settled
    wall.advance(HOUR)
    wall.jump(by)

    assert clock.now() == clock.now() == START + HOUR + by
    assert jumps == [(by, START + HOUR + by)]
    wall.advance(10 * MINUTE - SECOND)
    assert not clock.is_settled
    wall.advance(SECOND)
    assert clock.is_settled


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
    assert clock.is_settled


@pytest.mark.parametrize(
    ("seconds", "pending"), [(0, False), (1, True), (5, True), (6, False), (21600, False)]
)
def test_what_no_process_can_wait_for_is_not_pending(seconds: int, *, pending: bool) -> None:
    assert is_pending(START + seconds * SECOND, START, 5 * SECOND) is pending
