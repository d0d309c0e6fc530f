"""Messages of subscriptions with output batching: whole batches, now and at every retry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START
from shared.delivery.delivery import Delivery, LastAttempt
from shared.delivery.messages.packing import EVENT_WIDTH, GAP_WIDTH, most_events
from shared.delivery.messages.run_length import positions_by_origin, positions_of, run_lengths
from shared.delivery.outcome import Outcome
from shared.subscriptions.subscription import Batching, EventSubscription
from tests.builders import (
    PARKED,
    a_delivery,
    a_message,
    a_note,
    a_subscription,
    an_event,
    an_outcome,
    compact,
    encode,
    noise,
)
from tests.unit.delivery.messages.wire import published, read_all, wire

WIDEST = an_outcome(max(Outcome, key=len), 599)
PIECE = timedelta(microseconds=1)


def parked(positions: Sequence[int], **overrides: object) -> list[Delivery]:
    return [a_delivery(number, origin=PARKED, text=None, **overrides) for number in positions]


def batching(most: int, **overrides: object) -> EventSubscription:
    return a_subscription(batching=Batching(max_events=most), **overrides)


@pytest.mark.parametrize(
    ("batch", "most"),
    [(1, 64), (2, 64), (10, 60), (33, 33), (50, 50), (64, 64), (65, 65), (5000, 5000)],
)
def test_a_message_holds_whole_batches(batch: int, most: int) -> None:
    _, messages = published([an_event()] * (most + 1), batching(batch))

    assert most_events(batch) == most
    assert [len(message.deliveries) for message in messages] == [most, 1]
    assert {message.batch_size for message in messages} == {batch}


@pytest.mark.parametrize(
    ("data", "batch", "parked", "messages"),
    [
        pytest.param([None] * 1000, 1000, [False] * 1000, [1000], id="small events need no blob"),
        pytest.param(
            [noise(1000, number) for number in range(200)],
            100,
            [True] * 200,
            [100, 100],
            id="a batch that no message can hold is parked whole",
        ),
        pytest.param(
            [None, noise(60_000), None],
            100,
            [False, True, False],
            [3],
            id="batches that fit stay inline beside an event that does not",
        ),
        # They would pack well, but whoever reads the message unpacks them all.
        pytest.param(["x" * 6000] * 100, 100, [True] * 100, [100], id="more than memory may hold"),
    ],
)
def test_batches_are_inline_as_far_as_they_fit(
    data: list[str | None], batch: int, parked: list[bool], messages: list[int]
) -> None:
    events = [an_event(id=f"e-{number}", data=each) for number, each in enumerate(data)]
    texts = [event.text for event in events]

    lines, found = published(events, batching(batch))

    assert [len(message.deliveries) for message in found] == messages
    in_blob = [text if is_parked else "" for text, is_parked in zip(texts, parked, strict=True)]
    assert lines == (in_blob if any(parked) else [])
    assert [each.text for message in found for each in message.deliveries] == [
        None if is_parked else text for text, is_parked in zip(texts, parked, strict=True)
    ]


@given(
    st.lists(st.integers(0, 4999), min_size=1, max_size=600, unique=True),
    st.lists(st.integers(1, 60), min_size=1, max_size=20),
)
def test_runs_say_which_events_there_are(positions: list[int], sizes: list[int]) -> None:
    """In the order they have; counters that differ begin a run of their own."""
    group = [
        a_delivery(position, attempts=number // sizes[number % len(sizes)])
        for number, position in enumerate(positions)
    ]

    runs = [run.attempts for run in run_lengths(group) for _ in range(run.size)]
    ((_, spans),) = positions_by_origin(group)

    assert [*zip(runs, positions_of(spans, 5000), strict=True)] == [
        (each.attempts, each.position) for each in group
    ]


@given(st.integers(1, 5000), st.integers(0, 2**32))
def test_a_failed_batch_comes_back_in_one_message(count: int, seed: int) -> None:
    """With every counter at its longest, whatever gaps a filter or other headers have left."""
    chosen = sorted(Random(seed).sample(range(5000), count))
    tried = [each.tried(WIDEST, START) for each in parked(chosen, attempts=29)]

    for note in (None, a_note()):
        (message,) = read_all(
            encode(a_message(tried, batch_size=5000, due=START, dead_letter=note))
        )
        assert message.deliveries == tuple(tried)


def test_the_computed_widths_of_a_run_length_are_never_exceeded() -> None:
    scattered = parked(
        range(4999, 0, -2), attempts=30, last=LastAttempt(WIDEST.outcome, 599, START)
    )
    ((_, spans),) = positions_by_origin(scattered)
    document = wire(a_message(scattered, batch_size=5000))

    ((*_, places, counters),) = document["parts"]
    assert places == [0, 2500]
    width = EVENT_WIDTH + GAP_WIDTH * (len(spans) // 2 + 1)
    assert len(compact(document["events"])) + len(compact(counters)) <= width


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=30),
    st.integers(2, 70),
    st.sampled_from([0, 10, 700]),
)
def test_batches_are_never_torn_apart(sizes: list[int], batch: int, length: int) -> None:
    """Failures are merged and divided again on their way; what was one request stays together."""
    group: list[Delivery] = []
    for number, size in enumerate(sizes):
        for _ in range(min(size, batch)):
            position = len(group)
            event = a_delivery(position, text=compact(noise(length, position)) if length else "{}")
            group.append(event.tried(WIDEST, START + number * PIECE))

    messages = read_all(encode(a_message(group, batch_size=batch)))

    assert [each for message in messages for each in message.deliveries] == group
    where = [{each.last for each in message.deliveries} for message in messages]
    assert sum(map(len, where)) == len(sizes)
    assert all(len(message.deliveries) <= most_events(batch) for message in messages)


def test_a_batch_that_has_become_too_large_is_divided() -> None:
    """The subscription asks for smaller ones by now."""
    tried = [each.tried(WIDEST, START) for each in parked(range(100))]

    messages = read_all(encode(a_message(tried, batch_size=30)))

    assert [len(message.deliveries) for message in messages] == [60, 40]


def test_events_that_were_never_tried_belong_to_no_batch() -> None:
    fresh = parked(range(150))
    assert not fresh[0].was_tried_with(fresh[1])

    messages = read_all(encode(a_message(fresh, batch_size=100)))

    assert [len(message.deliveries) for message in messages] == [100, 50]
