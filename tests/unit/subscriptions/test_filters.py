"""Filters on type and subject: all conditions must match, in any case unless set otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.arm.subscription_codec import to_subscription
from shared.events.event import Event
from shared.events.topic import InputSchema
from shared.subscriptions.event_values import EventValues, fold_case
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


# --- case-insensitive comparison by character, like .NET's OrdinalIgnoreCase


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("straße", "STRASSE", False),
        ("straße", "STRAßE", True),
        ("Grüße", "GRÜßE", True),
        ("ΣΊΣΥΦΟΣ", "σίσυφος", True),
        ("σίσυφος", "σίσυφοσ", True),
        ("İ", "i", False),
        ("İ", "i̇", False),
        ("\u0131", "I", False),
        ("\u017f", "s", False),
        ("ﬁ", "FI", False),
        ("ŉ", "\u02bcN", False),
        ("ᾳ", "ᾼ", True),
        ("µ", "\u039c", True),
        ("\u212a", "k", False),
        ("𐐨", "𐐀", True),
        ("é", "e\u0301", False),
    ],
)
def test_case_is_that_of_each_character(one: str, other: str, *, is_same: bool) -> None:
    assert (fold_case(one) == fold_case(other)) is is_same


@given(st.text(), st.text())
def test_text_is_folded_by_character(one: str, other: str) -> None:
    """So a part is found wherever it is."""
    assert fold_case(one + other) == fold_case(one) + fold_case(other)
    assert len(fold_case(one)) == len(one)
    assert fold_case(fold_case(one)) == fold_case(one)


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_becomes_lower_case(text: str) -> None:
    assert fold_case(text) == text.lower()
