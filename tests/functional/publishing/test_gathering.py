"""When commits begin and what they take: whatever the order of arrivals and ends."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.delivery.messages.publication import Load
from shared.engine.publishing.group_commit import MAX_UNDER_WAY, CommitGroup, Gathering, Waiter
from tests.builders import a_subscription
from tests.functional.publishing.publications import a_publication

SMALL = Load(requests=4, deliveries=20, size=10_000)
NO_RESULT: Any = None


def number_of(request: Waiter) -> int:
    return int(request.publication.origin.publish_id, 16)


@dataclass
class Schedule:
    """Arrivals and ends of commits, one after the other; checks what holds at all times."""

    gathering: Gathering = field(default_factory=lambda: Gathering(SMALL))
    waiting: list[Waiter] = field(default_factory=list)
    under_way: list[CommitGroup] = field(default_factory=list)
    begun: list[CommitGroup] = field(default_factory=list)
    #: By topic that waits: the commits that began without it, one after the other.
    passed_over: Counter[str] = field(default_factory=Counter)
    count: int = 0

    def arrive(self, topic: str = "orders", events: int = 1, data: str = "") -> Waiter:
        wanted_by = [a_subscription(topic=topic)]
        publication = a_publication(self.count, events, topic=topic, wanted_by=wanted_by, data=data)
        request = Waiter(publication, NO_RESULT)
        self.count += 1
        was_idle = not self.under_way
        self.waiting.append(request)
        self.gathering.arrive(request)
        self._begin(self.gathering.begin())
        assert not was_idle or self.begun[-1].requests == (request,)  # alone and at once
        return request

    def finish(self, place: int = 0) -> None:
        group = self.under_way.pop(place % len(self.under_way))
        self.gathering.finish(group)
        self._begin(self.gathering.begin())

    def numbers(self) -> list[list[int]]:
        return [[number_of(request) for request in group.requests] for group in self.begun]

    def _begin(self, groups: list[CommitGroup]) -> None:
        for group in groups:
            load = Load()
            for request in group.requests:
                load = load.plus(request.publication.load)
                topics_queue = [
                    each
                    for each in self.waiting
                    if each.publication.topic == request.publication.topic
                ]
                assert topics_queue[0] is request  # in the order of their arrival
                self.waiting.remove(request)
            assert len(group.requests) == 1 or not load.exceeds(SMALL)
            taken = {request.publication.topic for request in group.requests}
            longest = max(self.passed_over.values(), default=0)
            assert not longest or any(self.passed_over[topic] == longest for topic in taken)
            waiting = {each.publication.topic for each in self.waiting} - taken
            self.passed_over = Counter({each: self.passed_over[each] + 1 for each in waiting})
        self.begun += groups
        self.under_way += groups
        assert len(self.under_way) <= MAX_UNDER_WAY
        assert sum(not group.is_full for group in self.under_way) <= 1
        assert self.under_way or not self.waiting


@pytest.mark.parametrize(
    ("events", "data"), [(1, ""), (5, ""), (1, "x" * 3000)], ids=["requests", "deliveries", "size"]
)
def test_full_commits_run_side_by_side(events: int, data: str) -> None:
    """Four at most, beside one that is not full; then requests wait their turn."""
    schedule = Schedule()
    for _ in range(MAX_UNDER_WAY * 4 + 1):
        schedule.arrive(events=events, data=data)

    assert len(schedule.under_way) == MAX_UNDER_WAY
    assert [group.is_full for group in schedule.begun] == [False, True, True, True, True]
    assert schedule.waiting

    schedule.finish(3)

    assert len(schedule.under_way) == MAX_UNDER_WAY


def test_full_commits_leave_room_for_one_that_is_not() -> None:
    """A lone small request does not wait until one of many large ones is stored."""
    schedule = Schedule()
    for _ in range(MAX_UNDER_WAY - 1):
        schedule.arrive("large", events=50)
    schedule.arrive("small")

    assert schedule.numbers()[-1] == [MAX_UNDER_WAY - 1]


def test_topics_take_turns() -> None:
    """What does not fit keeps no other topic's requests out."""
    schedule = Schedule()
    schedule.arrive()
    for topic, events in [("busy", 8), ("busy", 8), ("other", 1), ("busy", 8)]:
        schedule.arrive(topic, events)
    schedule.arrive("other")
    while schedule.under_way:
        schedule.finish()

    assert schedule.numbers() == [[0], [1, 3, 2], [4, 5]]


def test_a_topic_that_was_passed_over_is_first_in_the_next_commit() -> None:
    schedule = Schedule()
    schedule.arrive()
    for _ in range(MAX_UNDER_WAY - 1):
        schedule.arrive("large", 50)
    for topic in ("a", "a", "a", "b", "b"):
        schedule.arrive(topic, 15)
    while schedule.under_way:
        schedule.finish()

    assert schedule.numbers()[MAX_UNDER_WAY:] == [[5], [8], [6], [9], [7]]


def test_a_request_that_waits_no_more_is_in_no_commit() -> None:
    schedule = Schedule()
    first, gone = schedule.arrive(), schedule.arrive()
    alone = schedule.arrive("alone")

    withdrawn = [schedule.gathering.withdraw(each) for each in (gone, alone, gone, first)]
    schedule.waiting.clear()
    schedule.finish()

    assert withdrawn == [True, True, False, False]
    assert (schedule.numbers(), schedule.under_way) == ([[0]], [])


arrivals = st.tuples(
    st.sampled_from(["a", "b", "c"]), st.sampled_from([1, 1, 1, 5, 30]), st.sampled_from([0, 4000])
)


@given(st.lists(arrivals | st.integers(0, 3), max_size=60))
def test_whatever_the_schedule_each_request_is_in_one_commit(
    steps: list[tuple[str, int, int] | int],
) -> None:
    schedule = Schedule()
    for step in steps:
        if isinstance(step, tuple):
            topic, events, size = step
            schedule.arrive(topic, events, "x" * size)
        elif schedule.under_way:
            schedule.finish(step)
    while schedule.under_way:
        schedule.finish()

    assert sorted(itertools.chain(*schedule.numbers())) == list(range(schedule.count))
    orders: dict[str, list[int]] = defaultdict(list)
    for group in schedule.begun:
        for request in group.requests:
            orders[request.publication.topic].append(number_of(request))
    assert all(numbers == sorted(numbers) for numbers in orders.values())
