"""Filters: everything must match; case is ours to ignore unless the filter says otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.events.event import Event
from shared.events.topic import InputSchema
from shared.subscriptions.filters import matches
from shared.subscriptions.subscription import EventFilter

TYPES = frozenset({"Shop.OrderPlaced", "Shop.OrderPaid"})


def an_event(subject: str | None = "/orders/42", kind: str = "Shop.OrderPlaced") -> Event:
    members: dict[str, Any] = {"eventType": kind}
    if subject is not None:
        members["subject"] = subject
    return Event(schema=InputSchema.EVENT_GRID, members=members, text="")


@pytest.mark.parametrize(
    ("members", "event", "expected"),
    [
        pytest.param({}, an_event(), True, id="no filter takes all"),
        pytest.param({}, an_event(None), True, id="no filter takes an event without subject"),
        pytest.param({"included_event_types": TYPES}, an_event(), True, id="type included"),
        pytest.param(
            {"included_event_types": TYPES}, an_event(kind="sHOP.oRDERpAID"), True, id="type's case"
        ),
        pytest.param(
            {"included_event_types": TYPES}, an_event(kind="Shop.Order"), False, id="part of a type"
        ),
        pytest.param(
            {"included_event_types": frozenset({"SHOP.X"})}, an_event(), False, id="other type"
        ),
        pytest.param({"included_event_types": frozenset()}, an_event(), False, id="no type at all"),
        pytest.param({"subject_begins_with": "/orders/"}, an_event(), True, id="prefix"),
        pytest.param({"subject_begins_with": "/ORDERS/"}, an_event(), True, id="prefix's case"),
        pytest.param({"subject_begins_with": "orders"}, an_event(), False, id="not at the start"),
        pytest.param({"subject_begins_with": "/orders/42"}, an_event(), True, id="whole as prefix"),
        pytest.param({"subject_begins_with": "/orders/421"}, an_event(), False, id="longer prefix"),
        pytest.param({"subject_begins_with": "/*/"}, an_event(), False, id="no wildcards"),
        pytest.param({"subject_begins_with": "/"}, an_event(None), False, id="prefix, no subject"),
        pytest.param({"subject_ends_with": "/42"}, an_event(), True, id="suffix"),
        pytest.param({"subject_ends_with": "/4"}, an_event(), False, id="not at the end"),
        pytest.param({"subject_ends_with": ".JPG"}, an_event("a.jpg"), True, id="suffix's case"),
        pytest.param(
            {"subject_begins_with": "/orders", "subject_ends_with": "/41"},
            an_event(),
            False,
            id="both must match",
        ),
        pytest.param(
            {"included_event_types": TYPES, "subject_ends_with": "/41"},
            an_event(),
            False,
            id="type and suffix must match",
        ),
        pytest.param(
            {"subject_begins_with": "/Orders", "is_subject_case_sensitive": True},
            an_event(),
            False,
            id="sensitive prefix",
        ),
        pytest.param(
            {"subject_ends_with": ".JPG", "is_subject_case_sensitive": True},
            an_event("a.JPG"),
            True,
            id="sensitive suffix",
        ),
        pytest.param(
            {"included_event_types": TYPES, "is_subject_case_sensitive": True},
            an_event(kind="shop.orderpaid"),
            True,
            id="types never have a case",
        ),
        pytest.param({"subject_begins_with": "ΟΔΟΣ"}, an_event("οδοσα"), True, id="final sigma"),
    ],
)
def test_a_filter_matches(members: dict[str, Any], event: Event, expected: bool) -> None:  # noqa: FBT001
    assert matches(EventFilter(**members), event) is expected


def test_cloud_events_are_matched_by_their_type() -> None:
    event = Event(schema=InputSchema.CLOUD_EVENTS, members={"type": "a.b"}, text="")

    assert matches(EventFilter(included_event_types=frozenset({"A.B"})), event)


@given(st.text(), st.text(), st.text())
def test_every_beginning_and_end_of_a_subject_matches(begin: str, middle: str, end: str) -> None:
    wanted = EventFilter(subject_begins_with=begin, subject_ends_with=end)

    assert matches(wanted, an_event(begin + middle + end))


def test_what_is_derived_is_no_part_of_a_filters_value() -> None:
    assert EventFilter(subject_begins_with="A") == EventFilter(subject_begins_with="A")
    assert EventFilter(subject_begins_with="A") != EventFilter(subject_begins_with="a")
