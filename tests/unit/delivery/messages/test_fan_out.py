"""From a publish request to messages. Design §2: a message carries a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from shared.delivery.delivery import Delivery
from shared.delivery.messages.fan_out import fan_out, match, parked_lines
from shared.delivery.messages.message import DeliveryMessage
from shared.delivery.messages.packing import split
from shared.subscriptions.filters import EventFilter
from tests.builders import ORIGIN, PARKED, a_subscription, an_event, noise
from tests.unit.delivery.messages.wire import read_all

EVENTS = [an_event(id=f"e-{n}", subject=f"/orders/{n}", eventType=f"T{n % 2}") for n in range(4)]
ALL = a_subscription(name="all")
ODD = a_subscription(name="odd", filter=EventFilter(included_event_types=frozenset({"t1"})))
NONE = a_subscription(name="none", filter=EventFilter(subject_begins_with="/returns"))


def test_each_subscription_gets_what_its_filter_wants() -> None:
    assert match(EVENTS, [ALL, ODD, NONE]) == [(ALL, (0, 1, 2, 3)), (ODD, (1, 3))]


def test_nothing_matches_without_subscriptions() -> None:
    assert match(EVENTS, []) == []
    assert fan_out([], [], [], ORIGIN) == []


def test_a_subscription_gets_one_message_for_what_fits_into_one() -> None:
    texts = [event.text for event in EVENTS]

    messages = read_all(fan_out(match(EVENTS, [ALL, ODD]), EVENTS, [], ORIGIN))

    assert messages == [
        DeliveryMessage(
            topic="orders",
            subscription=subscription.name,
            generation="g-1",
            deliveries=tuple(
                Delivery(origin=ORIGIN, position=number, text=texts[number]) for number in positions
            ),
        )
        for subscription, positions in [(ALL, (0, 1, 2, 3)), (ODD, (1, 3))]
    ]


@pytest.mark.parametrize(
    ("events", "subscriptions", "messages"),
    [(1, 1, 1), (64, 1, 1), (65, 1, 2), (64, 10, 10), (130, 3, 9)],
)
def test_messages_are_as_few_as_can_be(events: int, subscriptions: int, messages: int) -> None:
    matched = [
        (a_subscription(name=f"s-{number}"), tuple(range(events)))
        for number in range(subscriptions)
    ]

    found = read_all(fan_out(matched, [an_event()] * events, [], ORIGIN))

    assert len(found) == messages
    for number in range(subscriptions):
        positions = [
            delivery.position
            for message in found
            if message.subscription == f"s-{number}"
            for delivery in message.deliveries
        ]
        assert positions == list(range(events))


def test_subscriptions_with_the_same_events_share_the_packing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed: list[int] = []

    def counted(deliveries: Sequence[Delivery], batch: int) -> object:
        packed.append(len(deliveries))
        return split(deliveries, batch)

    monkeypatch.setattr("shared.delivery.messages.fan_out.split", counted)
    same = [replace(ALL, name=f"s-{number}") for number in range(5)]

    fan_out(match(EVENTS, [*same, ODD]), EVENTS, [], ORIGIN)

    assert packed == [4, 2]


def test_inline_and_parked_events_travel_together() -> None:
    lines = ["", EVENTS[1].text, "", EVENTS[3].text]

    (message,) = read_all(fan_out([(ALL, (0, 1, 2, 3))], EVENTS, lines, PARKED))

    found = [(each.origin.payload, each.position, each.text) for each in message.deliveries]
    assert found == [
        (None, 0, EVENTS[0].text),
        (PARKED.payload, 1, None),
        (None, 2, EVENTS[2].text),
        (PARKED.payload, 3, None),
    ]


def test_a_group_too_large_for_one_message_is_split_and_loses_nothing() -> None:
    events = [an_event(data=noise(9000, number)) for number in range(20)]
    texts = [event.text for event in events]

    messages = read_all(fan_out([(ALL, tuple(range(20)))], events, [], ORIGIN))

    found = [each.text for message in messages for each in message.deliveries]
    assert (found, len(messages)) == (texts, 4)


def test_only_what_is_wanted_and_too_large_is_parked() -> None:
    large = an_event(data=noise(60_000))
    events = [an_event(), large, large]

    assert parked_lines([(ALL, (0, 1))], events) == ["", large.text, ""]
    assert parked_lines([(ALL, (0,))], events) == []
