"""What shares a request: contract §2.4 (output batching) and §2.5 (equal header sets)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.delivery.delivery import Attempt
from shared.delivery.outcome import Outcome
from shared.delivery.requests.push_batch import Loaded, PushBatch, push_batches
from shared.delivery.requests.push_request import push_request
from shared.subscriptions.subscription import (
    Batching,
    DeliverySchema,
    DynamicHeader,
    StaticHeader,
)
from tests.builders import a_delivery, a_subscription, an_attempt, an_outcome, terms, text
from tests.fakes import START

KIND = DynamicHeader(name="x-kind", path=("data", "kind"))
CLOUD = a_subscription(delivery_schema=DeliverySchema.CLOUD_EVENTS)
ASKED = [
    None,
    an_attempt(),
    an_attempt(Outcome.TIMED_OUT, None),
    Attempt(Outcome.BUSY, 503, START + timedelta(microseconds=1)),
]


def loaded(position: int = 0, last: Attempt | None = None, **members: Any) -> Loaded:
    attempts = 1 if last else 0
    event = text(id=f"e-{position}", **members)
    return Loaded(a_delivery(position, text=event, attempts=attempts, last=last), event)


def divided(
    events: list[Loaded], most: int, kilobytes: int = 64, *headers: DynamicHeader, **options: Any
) -> list[list[int]]:
    """Divide events into requests and return their positions."""
    batching = Batching(max_events=most, preferred_kilobytes=kilobytes)
    found = push_batches(
        options.get("subscription", a_subscription()),
        terms(batching=batching, headers=headers),
        events,
    )
    return [[each.delivery.position for each in batch] for batch in found]


def test_without_batching_every_event_goes_alone() -> None:
    assert divided([loaded(0), loaded(1)], 1) == [[0], [1]]
    assert push_batches(a_subscription(), terms(), []) == []


@pytest.mark.parametrize(
    ("events", "most", "sizes"),
    [(0, 2, []), (1, 2, [1]), (2, 2, [2]), (3, 2, [2, 1]), (100, 100, [100]), (101, 100, [100, 1])],
)
def test_a_request_never_has_more_events_than_allowed(
    events: int, most: int, sizes: list[int]
) -> None:
    found = divided([loaded(number) for number in range(events)], most)

    assert [len(batch) for batch in found] == sizes
    assert [position for batch in found for position in batch] == list(range(events))


def body_size(batch: PushBatch, batching: Batching, **overrides: Any) -> int:
    return len(push_request(a_subscription(**overrides), terms(batching=batching), batch).body)


@pytest.mark.parametrize("schema", [DeliverySchema.EVENT_GRID, DeliverySchema.CLOUD_EVENTS])
@pytest.mark.parametrize("letter", ["x", "\u00fc", "\u2603"])
def test_the_size_is_that_of_the_body_as_it_is_sent(schema: DeliverySchema, letter: str) -> None:
    """Two events that fill it to the last byte share a request; a byte more, and they do not."""
    batching = Batching(max_events=9, preferred_kilobytes=1)
    subscription = a_subscription(delivery_schema=schema)
    empty = (loaded(0, data=""), loaded(1, data=""))
    room = 1024 - body_size(empty, batching, delivery_schema=schema)
    filler = letter * (room // len(letter.encode())) + "x" * (room % len(letter.encode()))
    full = [loaded(0, data=filler), loaded(1, data="")]

    assert body_size(tuple(full), batching, delivery_schema=schema) == 1024
    assert divided(full, 9, 1, subscription=subscription) == [[0, 1]]
    full[0] = loaded(0, data=f"{filler}x")
    assert divided(full, 9, 1, subscription=subscription) == [[0], [1]]


def test_one_larger_event_goes_alone() -> None:
    events = [loaded(0), loaded(1, data="x" * 2000), loaded(2), loaded(3)]

    assert divided(events, 9, 1) == [[0], [1], [2, 3]]


def test_events_with_other_headers_do_not_share_a_request() -> None:
    kinds = ["a", "b", "a", None, "b", [1], "a"]
    events = [loaded(number, data={"kind": kind}) for number, kind in enumerate(kinds)]

    assert divided(events, 9, 64, KIND) == [[0, 2, 6], [1, 4], [3, 5]]
    assert divided(events, 2, 64, KIND) == [[0, 2], [1, 4], [3, 5], [6]]
    assert divided(events, 9) == [list(range(7))]


def test_an_event_of_which_no_request_can_be_made_goes_alone() -> None:
    """Storage was damaged; the others of its message are not to blame."""
    broken = [Loaded(a_delivery(number, text=bad), bad) for number, bad in enumerate(["{", "7"])]
    events = [loaded(5), *broken, loaded(6)]

    assert divided(events, 9, 64, KIND) == [[5, 6], [0], [1]]
    assert divided(events, 9, subscription=CLOUD) == [[5, 6], [0], [1]]


_EVENTS = st.lists(
    st.tuples(st.integers(0, 1500), st.sampled_from("ab"), st.sampled_from(ASKED)), max_size=40
)


@given(_EVENTS, st.integers(2, 20), st.integers(1, 4))
def test_requests_partition_what_is_there_within_the_limits(
    given_events: list[tuple[int, str, Attempt | None]], most: int, kilobytes: int
) -> None:
    """Nothing is lost and nothing comes twice, order is kept, one header set for all."""
    events = [
        loaded(number, last, data={"kind": kind, "filler": "x" * size})
        for number, (size, kind, last) in enumerate(given_events)
    ]
    batching = Batching(max_events=most, preferred_kilobytes=kilobytes)
    rules = terms(batching=batching, headers=(KIND, StaticHeader(name="x-a", value="1")))

    found = push_batches(a_subscription(), rules, events)

    positions = [[each.delivery.position for each in batch] for batch in found]
    assert sorted(position for batch in positions for position in batch) == list(range(len(events)))
    assert all(batch == sorted(batch) for batch in positions)
    for batch in found:
        request = push_request(a_subscription(), rules, batch)
        alone = {push_request(a_subscription(), rules, (each,)).headers["x-kind"] for each in batch}
        assert alone == {request.headers["x-kind"]}
        assert len({(each.delivery.attempts, each.delivery.last) for each in batch}) == 1
        assert 1 <= len(batch) <= most
        assert len(request.body) <= kilobytes * 1024 or len(batch) == 1
        assert [event["id"] for event in json.loads(request.body)] == [
            f"e-{each.delivery.position}" for each in batch
        ]


@given(_EVENTS, st.integers(2, 20), st.integers(1, 4))
def test_a_failed_request_is_made_again_as_it_was(
    given_events: list[tuple[int, str, Attempt | None]], most: int, kilobytes: int
) -> None:
    """Also if others of the same message failed at other times, or have been delivered."""
    events = [
        loaded(number, last, data={"kind": kind, "filler": "x" * size})
        for number, (size, kind, last) in enumerate(given_events)
    ]
    rules = terms(
        batching=Batching(max_events=most, preferred_kilobytes=kilobytes), headers=(KIND,)
    )

    first = push_batches(a_subscription(), rules, events)
    failed = [
        [
            Loaded(
                each.delivery.tried(an_outcome(), START + number * timedelta(microseconds=1)),
                each.text,
            )
            for each in batch
        ]
        for number, batch in enumerate(first)
        if number % 3
    ]
    again = push_batches(a_subscription(), rules, [each for batch in failed for each in batch])

    assert again == [tuple(batch) for batch in failed]
