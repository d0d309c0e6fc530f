"""Filters on type and subject: all conditions must match, in any case unless set otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.arm.subscription_codec import to_subscription
from shared.events.event import Event
from shared.events.topic import InputSchema
from shared.subscriptions.event_values import EventValues
from shared.subscriptions.filters import EventFilter
from tests.unit.arm.documents import subscription

TYPES = ["Shop.OrderPlaced", "Shop.OrderPaid"]


def an_event(subject: str | None = "/orders/42", kind: str = "Shop.OrderPlaced") -> Event:
    members: dict[str, Any] = {"eventType": kind}
    if subject is not None:
        members["subject"] = subject
    return Event(schema=InputSchema.EVENT_GRID, members=members, text="")


def a_filter(**members: Any) -> EventFilter:
    return to_subscription(subscription(filter=members)).filter


EXACT = {"isSubjectCaseSensitive": True}


@pytest.mark.parametrize(
    ("members", "event"),
    [
        ({}, an_event()),
        ({}, an_event(None)),
        ({"includedEventTypes": TYPES}, an_event()),
        ({"includedEventTypes": TYPES}, an_event(kind="sHOP.oRDERpAID")),
        ({"includedEventTypes": TYPES, **EXACT}, an_event(kind="shop.orderpaid")),
        ({"subjectBeginsWith": "/ORDERS/"}, an_event()),
        ({"subjectBeginsWith": "/orders/42"}, an_event()),
        ({"subjectBeginsWith": "ΟΔΟΣ"}, an_event("οδοσα")),  # final sigma
        ({"subjectEndsWith": "/42"}, an_event()),
        ({"subjectEndsWith": ".JPG"}, an_event("a.jpg")),
        ({"subjectEndsWith": ".JPG", **EXACT}, an_event("a.JPG")),
    ],
)
def test_a_filter_matches(members: dict[str, Any], event: Event) -> None:
    assert a_filter(**members).matches(EventValues(event))


@pytest.mark.parametrize(
    ("members", "event"),
    [
        ({"includedEventTypes": TYPES}, an_event(kind="Shop.Order")),
        ({"subjectBeginsWith": "orders"}, an_event()),
        ({"subjectBeginsWith": "/orders/421"}, an_event()),
        ({"subjectBeginsWith": "/*/"}, an_event()),
        ({"subjectBeginsWith": "/"}, an_event(None)),
        ({"subjectBeginsWith": "/Orders", **EXACT}, an_event()),
        ({"subjectEndsWith": "/4"}, an_event()),
        ({"subjectBeginsWith": "/orders", "subjectEndsWith": "/41"}, an_event()),
        ({"includedEventTypes": TYPES, "subjectEndsWith": "/41"}, an_event()),
    ],
)
def test_all_conditions_must_match(members: dict[str, Any], event: Event) -> None:
    assert not a_filter(**members).matches(EventValues(event))


def test_cloud_events_are_matched_by_their_type() -> None:
    event = Event(schema=InputSchema.CLOUD_EVENTS, members={"type": "a.b"}, text="")

    assert a_filter(includedEventTypes=["A.B"]).matches(EventValues(event))


@given(st.text(), st.text(), st.text())
def test_every_beginning_and_end_of_a_subject_matches(begin: str, middle: str, end: str) -> None:
    wanted = a_filter(subjectBeginsWith=begin, subjectEndsWith=end)

    assert wanted.matches(EventValues(an_event(begin + middle + end)))
