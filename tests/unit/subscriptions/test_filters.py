"""Filters: everything must match; case is ours to ignore unless the filter says otherwise."""

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


@pytest.mark.parametrize(
    ("members", "event", "expected"),
    [
        pytest.param({}, an_event(), True, id="no filter takes all"),
        pytest.param({}, an_event(None), True, id="no filter takes an event without subject"),
        pytest.param({"includedEventTypes": TYPES}, an_event(), True, id="type included"),
        pytest.param(
            {"includedEventTypes": TYPES}, an_event(kind="sHOP.oRDERpAID"), True, id="type's case"
        ),
        pytest.param(
            {"includedEventTypes": TYPES}, an_event(kind="Shop.Order"), False, id="part of a type"
        ),
        pytest.param({"includedEventTypes": ["SHOP.X"]}, an_event(), False, id="other type"),
        pytest.param({"subjectBeginsWith": "/orders/"}, an_event(), True, id="prefix"),
        pytest.param({"subjectBeginsWith": "/ORDERS/"}, an_event(), True, id="prefix's case"),
        pytest.param({"subjectBeginsWith": "orders"}, an_event(), False, id="not at the start"),
        pytest.param({"subjectBeginsWith": "/orders/42"}, an_event(), True, id="whole as prefix"),
        pytest.param({"subjectBeginsWith": "/orders/421"}, an_event(), False, id="longer prefix"),
        pytest.param({"subjectBeginsWith": "/*/"}, an_event(), False, id="no wildcards"),
        pytest.param({"subjectBeginsWith": "/"}, an_event(None), False, id="prefix, no subject"),
        pytest.param({"subjectEndsWith": "/42"}, an_event(), True, id="suffix"),
        pytest.param({"subjectEndsWith": "/4"}, an_event(), False, id="not at the end"),
        pytest.param({"subjectEndsWith": ".JPG"}, an_event("a.jpg"), True, id="suffix's case"),
        pytest.param(
            {"subjectBeginsWith": "/orders", "subjectEndsWith": "/41"},
            an_event(),
            False,
            id="both must match",
        ),
        pytest.param(
            {"includedEventTypes": TYPES, "subjectEndsWith": "/41"},
            an_event(),
            False,
            id="type and suffix must match",
        ),
        pytest.param(
            {"subjectBeginsWith": "/Orders", "isSubjectCaseSensitive": True},
            an_event(),
            False,
            id="sensitive prefix",
        ),
        pytest.param(
            {"subjectEndsWith": ".JPG", "isSubjectCaseSensitive": True},
            an_event("a.JPG"),
            True,
            id="sensitive suffix",
        ),
        pytest.param(
            {"includedEventTypes": TYPES, "isSubjectCaseSensitive": True},
            an_event(kind="shop.orderpaid"),
            True,
            id="types never have a case",
        ),
        pytest.param({"subjectBeginsWith": "ΟΔΟΣ"}, an_event("οδοσα"), True, id="final sigma"),
    ],
)
def test_a_filter_matches(members: dict[str, Any], event: Event, expected: bool) -> None:  # noqa: FBT001 - a row
    assert a_filter(**members).matches(EventValues(event)) is expected


def test_cloud_events_are_matched_by_their_type() -> None:
    event = Event(schema=InputSchema.CLOUD_EVENTS, members={"type": "a.b"}, text="")

    assert a_filter(includedEventTypes=["A.B"]).matches(EventValues(event))


@given(st.text(), st.text(), st.text())
def test_every_beginning_and_end_of_a_subject_matches(begin: str, middle: str, end: str) -> None:
    wanted = a_filter(subjectBeginsWith=begin, subjectEndsWith=end)

    assert wanted.matches(EventValues(an_event(begin + middle + end)))
