"""What is known of a message without unpacking it is what unpacking tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START
from shared.delivery.messages.message import MessagePart, ReplayStep
from shared.delivery.messages.message_reader import decode
from shared.delivery.messages.message_writer import encode_step, encode_together
from shared.delivery.messages.outline import Outline, PartOutline, outline_of
from tests.builders import a_delivery, a_message, a_note

SIZE = 48 * 1024
positions = st.lists(st.integers(0, 40), min_size=1, max_size=8, unique=True).map(sorted)
publishes = st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True)


def part(name: str, positions: list[int], publishes: list[int]) -> MessagePart:
    origins = [
        a_delivery().origin._replace(
            publish_id=f"p-{number}",
            published_at=START.replace(minute=number),
            payload=f"2026020912/{number}" if number % 2 else None,
        )
        for number in publishes
    ]
    deliveries = [
        a_delivery(position, origin=each, text=None if each.payload else "{}")
        for each in origins
        for position in positions
    ]
    return a_message(deliveries, subscription=name)


@given(
    st.lists(
        st.builds(part, st.sampled_from("abcdef"), positions, publishes),
        min_size=1,
        max_size=4,
        unique_by=lambda each: each.subscription,
    )
)
def test_an_outline_tells_what_the_parts_of_a_message_are(parts: list[MessagePart]) -> None:
    for _, text in encode_together(parts, SIZE):
        found, outline = decode(text), outline_of(text)
        assert isinstance(found, tuple)
        assert outline.parts == [
            PartOutline(
                each.topic,
                each.subscription,
                len(each.deliveries),
                min(one.origin.published_at for one in each.deliveries),
            )
            for each in found
            if isinstance(each, MessagePart)
        ]
        named = {
            one.origin.payload
            for each in found
            if isinstance(each, MessagePart)
            for one in each.deliveries
        }
        assert outline.payloads == named - {None}
        assert not outline.is_dead_letter


def test_a_dead_letter_is_told() -> None:
    ((_, text),) = encode_together([a_message(dead_letter=a_note())], SIZE)

    assert outline_of(text).is_dead_letter


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one",
        "[]",
        "{}",
        '{"pushgrid":4}',
        '{"pushgrid":5}',
        encode_step(ReplayStep(job="j", number=1)),
    ],
)
def test_what_has_no_events_has_an_empty_outline(text: str) -> None:
    assert outline_of(text) == Outline()
