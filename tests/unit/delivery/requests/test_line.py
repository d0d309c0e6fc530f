"""What shares a request: contract §2.4 (output batching) and §2.5 (equal header sets)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START
from shared.delivery.delivery import Batch, Delivery, LastAttempt
from shared.delivery.outcome import Outcome
from shared.delivery.policy import DeliveryTerms
from shared.delivery.requests.line import Line, requests_for
from shared.delivery.requests.push_request import push_request
from shared.subscriptions.subscription import (
    Batching,
    DeliverySchema,
    DynamicHeader,
    EventSubscription,
    StaticHeader,
)
from tests.builders import a_delivery, a_subscription, an_attempt, an_outcome, terms, text

KIND = DynamicHeader(name="x-kind", path=("data", "kind"))
CRM = a_subscription()
CLOUD = a_subscription(delivery_schema=DeliverySchema.CLOUD_EVENTS)
ASKED = [
    None,
    an_attempt(),
    an_attempt(Outcome.TIMED_OUT, None),
    LastAttempt(Outcome.BUSY, 503, START + timedelta(microseconds=1)),
]


def add(
    line: Line[str],
    owner: str,
    events: Iterable[Delivery],
    subscription: EventSubscription,
    rules: DeliveryTerms,
) -> None:
    line.add(owner, events, subscription, rules)


def loaded(position: int = 0, last: LastAttempt | None = None, **members: Any) -> Delivery:
    event = text(id=f"e-{position}", **members)
    return a_delivery(position, text=event, attempts=1 if last else 0, last=last)


@pytest.mark.parametrize(
    ("batching", "texts", "requests"),
    [
        (Batching(), ["x"] * 3, 3),
        (Batching(), ["x" * 100_000, None], 2),
        (Batching(max_events=10), ["x"] * 5, 0.5),
        (Batching(max_events=10, preferred_kilobytes=1), ["x" * 512] * 4, 2),
        (Batching(max_events=10, preferred_kilobytes=1), ["x" * 9999, None, ""], 2),
    ],
    ids=["no batching", "no batching, any size", "the number", "the size", "large or unread"],
)
def test_how_many_requests_events_take(
    batching: Batching, texts: list[str | None], requests: float
) -> None:
    assert requests_for(batching, texts) == requests


def drained(line: Line[str]) -> list[Batch]:
    """Take every request."""
    batches: list[Batch] = []
    while line:
        batches.append(tuple(each for its in line.take().values() for each in its))
    return batches


def batches_of(
    subscription: EventSubscription, rules: DeliveryTerms, events: Iterable[Delivery]
) -> list[Batch]:
    """Divide what one message brings into requests."""
    line: Line[str] = Line()
    add(line, "a", events, subscription, rules)
    return drained(line)


def positions(batches: Iterable[Batch]) -> list[list[int]]:
    return [[each.position for each in batch] for batch in batches]


def divided(
    events: list[Delivery], most: int, kilobytes: int = 64, *headers: DynamicHeader, **options: Any
) -> list[list[int]]:
    """Divide events into requests and return their positions."""
    batching = Batching(max_events=most, preferred_kilobytes=kilobytes)
    subscription = options.get("subscription", CRM)
    return positions(batches_of(subscription, terms(batching=batching, headers=headers), events))


def test_without_batching_every_event_goes_alone() -> None:
    assert divided([loaded(0), loaded(1)], 1) == [[0], [1]]
    assert divided([loaded(0), loaded(1)], 1, 64, KIND) == [[0], [1]]
    assert divided([], 1) == []


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


def body_size(batch: Batch, batching: Batching, **overrides: Any) -> int:
    return len(
        push_request(a_subscription(**overrides), terms(batching=batching), batch, START).body
    )


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
    broken = [a_delivery(number, text=bad) for number, bad in enumerate(["{", "7"])]
    events = [loaded(5), *broken, loaded(6)]

    assert divided(events, 9, 64, KIND) == [[5, 6], [0], [1]]
    assert divided(events, 9, subscription=CLOUD) == [[5, 6], [0], [1]]


_EVENTS = st.lists(
    st.tuples(st.integers(0, 1500), st.sampled_from("ab"), st.sampled_from(ASKED)), max_size=40
)


@given(_EVENTS, st.integers(2, 20), st.integers(1, 4))
def test_requests_partition_what_is_there_within_the_limits(
    given_events: list[tuple[int, str, LastAttempt | None]], most: int, kilobytes: int
) -> None:
    """Nothing is lost and nothing comes twice, order is kept, one header set for all."""
    events = [
        loaded(number, last, data={"kind": kind, "filler": "x" * size})
        for number, (size, kind, last) in enumerate(given_events)
    ]
    batching = Batching(max_events=most, preferred_kilobytes=kilobytes)
    rules = terms(batching=batching, headers=(KIND, StaticHeader(name="x-a", value="1")))

    found = batches_of(CRM, rules, events)

    places = positions(found)
    assert sorted(place for batch in places for place in batch) == list(range(len(events)))
    assert all(batch == sorted(batch) for batch in places)
    for batch in found:
        request = push_request(CRM, rules, batch, START)
        alone = {push_request(CRM, rules, (each,), START).headers["x-kind"] for each in batch}
        assert alone == {request.headers["x-kind"]}
        assert len({(each.attempts, each.last) for each in batch}) == 1
        assert 1 <= len(batch) <= most
        assert len(request.body) <= kilobytes * 1024 or len(batch) == 1
        assert [event["id"] for event in json.loads(request.body)] == [
            f"e-{each.position}" for each in batch
        ]


@given(_EVENTS, st.integers(2, 20), st.integers(1, 4))
def test_a_failed_request_is_made_again_as_it_was(
    given_events: list[tuple[int, str, LastAttempt | None]], most: int, kilobytes: int
) -> None:
    """Also if others of the same message failed at other times, or have been delivered."""
    events = [
        loaded(number, last, data={"kind": kind, "filler": "x" * size})
        for number, (size, kind, last) in enumerate(given_events)
    ]
    rules = terms(
        batching=Batching(max_events=most, preferred_kilobytes=kilobytes), headers=(KIND,)
    )

    first = batches_of(CRM, rules, events)
    failed = [
        [each.tried(an_outcome(), START + number * timedelta(microseconds=1)) for each in batch]
        for number, batch in enumerate(first)
        if number % 3
    ]
    again = batches_of(CRM, rules, [each for batch in failed for each in batch])

    assert again == [tuple(batch) for batch in failed]


HUNDRED = terms(batching=Batching(max_events=100, preferred_kilobytes=1024))
THREE = terms(batching=Batching(max_events=3), headers=(KIND,))


def owners_in(line: Line[str]) -> list[list[tuple[str, int]]]:
    """Take every request, and return whose its events are."""
    found = []
    while line:
        found.append([(owner, each.position) for owner, its in line.take().items() for each in its])
    return found


def test_events_of_several_messages_share_a_request() -> None:
    """Issue: single publishes become batches under load."""
    line: Line[str] = Line()
    for owner, places in (("a", (0, 1)), ("b", (0,)), ("c", (5,))):
        add(line, owner, [loaded(each) for each in places], CRM, HUNDRED)

    assert owners_in(line) == [[("a", 0), ("a", 1), ("b", 0), ("c", 5)]]


def test_a_request_is_filled_with_what_comes_later() -> None:
    """None waits for others: what is there when a request is taken is in it."""
    line: Line[str] = Line()
    add(line, "a", [loaded(number) for number in range(4)], CRM, THREE)
    assert len(line.take()["a"]) == 3

    add(line, "b", [loaded(4)], CRM, THREE)

    assert owners_in(line) == [[("a", 3), ("b", 4)]]
    assert not line


def test_events_that_were_tried_share_no_request_with_new_ones() -> None:
    """Nor with those that were tried in other requests, whoever brings them."""
    line: Line[str] = Line()
    for number, last in enumerate([*ASKED, *ASKED]):
        add(line, "ab"[number // 4], [loaded(number, last)], CRM, HUNDRED)

    assert owners_in(line) == [[("a", number), ("b", number + 4)] for number in range(4)]


def test_events_that_may_not_share_requests_take_turns() -> None:
    line: Line[str] = Line()
    for owner, kind in (("a", "x"), ("b", "y"), ("c", "z")):
        events = [loaded(number, data={"kind": kind}) for number in range(7)]
        add(line, owner, events, CRM, THREE)

    found = owners_in(line)

    assert [batch[0][0] for batch in found] == ["a", "b", "c"] * 3
    assert [len(batch) for batch in found] == [3] * 6 + [1] * 3


def test_a_subscription_that_changed_shares_no_request_with_what_it_was() -> None:
    """Another endpoint, another profile: a request is made by one subscription and its terms."""
    line: Line[str] = Line()
    changed = a_subscription(endpoint_url="https://new.example/hook")
    other = replace(HUNDRED, max_attempts=3)
    add(line, "a", [loaded(0)], CRM, HUNDRED)
    add(line, "b", [loaded(0)], changed, HUNDRED)
    add(line, "c", [loaded(0)], CRM, other)
    add(line, "d", [loaded(0)], CRM, replace(other, max_attempts=30))

    assert owners_in(line) == [[("a", 0), ("d", 0)], [("b", 0)], [("c", 0)]]


@pytest.mark.parametrize("rules", [terms(), THREE], ids=["alone", "batches"])
def test_what_is_withdrawn_is_in_no_request(rules: DeliveryTerms) -> None:
    line: Line[str] = Line()
    one, other = "one", "other"
    for number in range(8):
        event = loaded(number, data={"kind": "xyz"[number // 3]})
        add(line, (one, other)[number % 2], [event], CRM, rules)

    withdrawn = line.withdraw([one])

    assert [each.position for each in withdrawn[one]] == [0, 2, 4, 6]
    assert line.withdraw([one]) == {}
    assert [each.position for each in line.withdraw([other])[other]] == [1, 3, 5, 7]
    assert not line
