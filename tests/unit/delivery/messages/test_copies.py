"""Copies of a delivery: which one is kept, and what is no copy."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pushgrid.testing.memory import START
from shared.delivery.delivery import Delivery
from shared.delivery.messages.copies import without_copies
from shared.delivery.messages.message import MessagePart
from tests.builders import ORIGIN, a_delivery, a_message, an_attempt

MINUTE = timedelta(minutes=1)
LATER = an_attempt()._replace(at=START + MINUTE)
TRIED = a_delivery(1, attempts=1, last=an_attempt())


@pytest.mark.parametrize("order", [1, -1], ids=["earlier first", "later first"])
@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        pytest.param(a_message([a_delivery(1)]), a_message([TRIED]), id="attempts"),
        pytest.param(
            a_message([TRIED], due=START),
            a_message([replace(TRIED, last=LATER)], due=START + MINUTE),
            id="last attempt",
        ),
        pytest.param(
            a_message([replace(TRIED, last=LATER)]),
            a_message([replace(TRIED, attempts=2)]),
            id="attempts before times",
        ),
        pytest.param(
            a_message([TRIED], due=START + MINUTE), a_message([TRIED], due=START), id="due sooner"
        ),
    ],
)
def test_the_later_state_is_kept(earlier: MessagePart, later: MessagePart, order: int) -> None:
    messages = [(earlier,), (later,)][::order]

    assert without_copies(messages) == [(), (later,)][::order]


@pytest.mark.parametrize(
    "other",
    [
        a_message([a_delivery(2)]),
        a_message([a_delivery(1)], generation="g-2"),
        a_message([a_delivery(1)], subscription="billing"),
        a_message([a_delivery(1)], topic="returns"),
        a_message([a_delivery(1, origin=ORIGIN._replace(publish_id="again"))]),
    ],
    ids=["event", "generation", "subscription", "topic", "publish request"],
)
def test_what_differs_is_no_copy(other: MessagePart) -> None:
    messages = [(a_message([a_delivery(1)]),), (other,)]

    assert without_copies(messages) == messages


@pytest.mark.parametrize(
    "copy",
    [
        a_message([a_delivery(1)], subscription="CRM"),
        # A clock that was behind has cut the time when it was published.
        a_message([a_delivery(1, origin=ORIGIN._replace(published_at=START - MINUTE))]),
        a_message([a_delivery(1)], rounds=2, batch_size=10),
    ],
    ids=["case", "publish time", "part"],
)
def test_what_has_the_same_event_id_is_a_copy(copy: MessagePart) -> None:
    first = a_message([a_delivery(1)])

    assert without_copies([(first,), (copy,)]) == [(first,), ()]


def test_copies_are_found_in_all_parts_and_others_stay_as_they_are() -> None:
    def part(name: str, *deliveries: Delivery) -> MessagePart:
        return a_message(deliveries, subscription=name)

    one, two, three = map(a_delivery, (1, 2, 3))

    found = without_copies([(part("a", one, two, one), part("b", one)), (part("b", three, one),)])

    assert found == [(part("a", one, two), part("b", one)), (part("b", three),)]
