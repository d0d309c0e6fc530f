"""What slow subscriptions leave to the others. Design §2, Isolation."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from shared.delivery.slots.shares import Share, Speed
from shared.delivery.slots.slots import IN_FLIGHT, SLOT, THREADS, Slots, Visit
from tests.fakes import Seconds
from tests.unit.delivery.slots.keys import entered, quick, slots_of, taken


def slow(slots: Slots, name: str, seconds: float = 3.0) -> None:
    """Let *name* become a key that is known to be slow."""
    visit = entered(slots, name)
    assert visit.key.seconds is None
    slots.take(visit)
    slots.pushed(visit, seconds, succeeded=True)
    slots.release_slot(visit)
    slots.leave(visit)


def hanging(slots: Slots, time: Seconds, count: int) -> list[Visit]:
    """Let many keys hang, each with as many slots as it gets."""
    visits = []
    for number in range(count):
        if visit := slots.enter(f"hanging-{number}"):
            taken(slots, visit)
            visits.append(visit)
    time.seconds += 1.1
    return visits


def test_messages_in_flight_are_as_many_as_the_host_has() -> None:
    root = Path(__file__).parents[4]
    queues = json.loads((root / "host.json").read_text())["extensions"]["queues"]

    assert IN_FLIGHT.total == queues["batchSize"] + queues["newBatchThreshold"]


@pytest.mark.parametrize(
    ("speed", "own", "taken", "room"),
    [
        (Speed.SLOW, 0, 63, True),
        (Speed.SLOW, 0, 64, False),
        (Speed.SLOW, 25, 25, True),
        (Speed.SLOW, 26, 26, False),
        (Speed.SLOW, 1, 50, True),
        (Speed.SLOW, 1, 51, False),  # the last ones are for those that have none
        (Speed.NEW, 0, 95, True),  # a first try
        (Speed.NEW, 0, 96, False),
        (Speed.NEW, 1, 51, False),
        (Speed.QUICK, 63, 63, True),
        (Speed.QUICK, 64, 64, False),
        (Speed.QUICK, 0, 127, True),
        (Speed.QUICK, 0, 128, False),
    ],
)
def test_slow_ones_have_half_and_nobody_more_than_is_left(
    speed: Speed,
    own: int,
    taken: int,
    room: bool,  # noqa: FBT001
) -> None:
    assert THREADS.has_room(speed, own, taken) is room


@pytest.mark.parametrize("count", [1, 2, 5, 12, 40, 200])
def test_slow_keys_together_hold_at_most_half_of_the_threads(count: int) -> None:
    slots, _ = slots_of()
    for number in range(count):
        slow(slots, f"slow-{number}")

    visits = [visit for n in range(count) if (visit := slots.enter(f"slow-{n}"))]
    held = sum(taken(slots, visit) for visit in visits)

    assert held <= 64
    assert len(visits) <= 12
    assert all(visit.slots for visit in visits)


def test_keys_that_nothing_is_known_of_count_as_slow() -> None:
    """Half, and one slot each for a first try up to a quarter more."""
    slots, _ = slots_of()

    visits = [entered(slots, f"new-{number}") for number in range(60)]
    held = [taken(slots, visit) for visit in visits]

    assert sum(held) <= 64 + 12
    assert sum(1 for each in held if each) == 18  # of the host's 24 in_flight


def test_a_quick_key_is_not_refused_because_of_slow_ones() -> None:
    slots, time = slots_of()
    visit = quick(slots, "quick")
    hanging(slots, time, 60)

    assert taken(slots, visit) >= 16
    assert taken(slots, quick(slots, "other")) >= 8


def test_a_new_key_is_tried_though_slow_ones_have_their_half() -> None:
    slots, time = slots_of()
    for number in range(40):
        slow(slots, f"hanging-{number}")
    hanging(slots, time, 40)

    assert taken(slots, entered(slots, "new")) == 1


def test_many_quick_keys_that_suddenly_hang_leave_threads_for_others() -> None:
    """Each had earned 64 slots: two of them would have filled the pool."""
    slots, time = slots_of()
    names = [f"quick-{number}" for number in range(5)]
    visits = [quick(slots, name) for name in [*names, "healthy"]]
    while sum(map(slots.take, visits[:-1])):  # All of them are busy at the same time …
        pass

    time.seconds += 1.1  # … and hang.

    assert taken(slots, visits[-1]) > 8
    assert not any(slots.take(visit) for visit in visits[:-1])


def test_a_quick_key_that_hangs_leaves_others_room_in_flight() -> None:
    """24 single events of one subscription, which the host has in flight, hang at once."""
    slots, time = slots_of()
    healthy = quick(slots, "healthy")
    quick(slots, "key")

    visits = [entered(slots, "key") for _ in range(24)]
    begun = [visit for visit in visits if slots.take(visit)]
    time.seconds += 1.1

    assert len(begun) == 12
    assert sum(slots.is_starved(visit) for visit in visits) == 12
    assert slots.enter("key") is None
    assert slots.take(healthy)


def test_a_new_key_waits_for_a_second_at_most() -> None:
    slots, time = slots_of()
    visits = [entered(slots, f"new-{number}") for number in range(40)]
    waiting = [visit for visit in visits if not slots.take(visit)]
    assert waiting
    assert not any(slots.is_starved(visit) for visit in waiting)

    time.seconds += 1.1

    assert all(slots.is_starved(visit) for visit in waiting)


def test_of_a_slow_key_only_one_job_waits() -> None:
    """5,000 events of a request are 79 messages: they must not wait in the host's 24 in_flight."""
    slots, _ = slots_of()
    slow(slots, "key")
    first = entered(slots, "key")
    taken(slots, first)
    second = entered(slots, "key")

    slots.wait(second)

    assert slots.enter("key") is None


def test_what_one_gives_back_another_gets() -> None:
    """All new keys of a start are served in the order in which they asked, if they are quick."""
    slots, _ = slots_of()
    visits = [entered(slots, f"new-{number}") for number in range(40)]
    waiting = [visit for visit in visits if not slots.take(visit)]
    for visit in waiting:
        slots.wait(visit)

    for visit in visits:
        slots.pushed(visit, 0.01, succeeded=True)
        slots.release_slot(visit)

    assert all(visit.inbox.get_nowait() is SLOT for visit in waiting)


def test_every_one_of_a_hundred_slow_keys_gets_its_turn() -> None:
    """Pushes of 30 s; a key that is refused keeps away, but for one that sends on."""
    slots, time = slots_of()
    back_at = {f"key-{number}": 0.0 for number in range(100)}
    for name in back_at:
        slow(slots, name, 30.0)
    turns = dict.fromkeys(back_at, 0)
    pushing: list[tuple[float, Visit]] = []
    while time.seconds < 1200:
        while pushing and pushing[0][0] <= time.seconds:
            _, ended = pushing.pop(0)
            slots.pushed(ended, 30.0, succeeded=True)
            slots.release_slot(ended)
            slots.leave(ended)
        for name in [name for name, at in back_at.items() if at <= time.seconds]:
            visit = slots.enter(name)
            if visit and slots.take(visit):
                turns[name] += 1
                pushing.append((time.seconds + 30, visit))
                back_at[name] = time.seconds + 0.5
                continue
            if visit:
                slots.leave(visit)
            away = slots.pace(name, 1).total_seconds()
            back_at[name] = time.seconds + (0.5 if name == "key-0" else away)
        time.seconds += 0.5

    assert min(turns.values()) >= 2
    assert max(turns.values()) <= 8
    assert sum(turns.values()) >= 1200 / 30 * 12 * 0.7  # and the in_flight are not left empty


def test_who_is_turned_away_comes_back_after_those_before() -> None:
    slots, _ = slots_of(start=1)
    slow(slots, "key", 5.0)

    waits = [slots.pace("key", 1) for _ in range(3)]

    assert [round(wait.total_seconds()) for wait in waits] == [10, 15, 20]
    slots.pace("key", 1000)
    assert slots.pace("key", 1) == timedelta(minutes=5)


def test_what_is_booked_passes_with_time() -> None:
    slots, time = slots_of(start=1, most=1)
    slow(slots, "key", 2.0)
    slots.pace("key", 30)

    time.seconds += 60

    assert slots.pace("key", 1) < timedelta(seconds=13)


def test_of_many_slow_keys_each_stays_away_until_its_turn() -> None:
    """The longer the line, the less often one looks whether its turn has come."""
    slots, time = slots_of()
    hanging(slots, time, 60)

    waits = [round(slots.pace(f"hanging-{n}", 1).total_seconds()) for n in range(60)]

    assert waits == sorted(waits)
    assert waits[0] == 10
    assert waits[-1] == 50


def test_the_turn_of_one_that_does_not_come_passes_on() -> None:
    """Another process may have taken its messages."""
    time = Seconds()
    slots = Slots(8, 64, time, in_flight=Share(total=2))
    for name in ("gone", "here"):
        slow(slots, name)
        slots.pace(name, 1)

    time.seconds += 12
    assert slots.enter("here") is None
    slots.pace("here", 1)
    time.seconds += 12

    assert slots.enter("here")
