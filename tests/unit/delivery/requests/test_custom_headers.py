"""Custom headers of one event: contract §2.5."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given

from shared.delivery.messages.message_writer import MAX_DEAD_LETTER_HEADERS, dead_letter_headers
from shared.delivery.requests.push_request import (
    custom_headers,
)
from shared.subscriptions.subscription import DynamicHeader, StaticHeader
from tests.builders import TOPIC_ID, compact, text
from tests.strategies import json_values

CLOUD_EVENT = compact(
    {
        "specversion": "1.0",
        "id": "e-0",
        "source": "/shop",
        "type": "placed",
        "time": "2026-02-09T12:00:00Z",
        "subject": "17",
        "tenant": "t1",
        "data": {"kind": "a"},
    }
)


def value(path: str, event: str) -> str | None:
    headers = custom_headers([DynamicHeader(name="x", path=tuple(path.split(".")))], event)
    return headers.get("x")


def of_data(data: Any) -> str | None:
    return value("data.v", text(data={"v": data}))


def test_without_headers_there_are_none_and_the_event_is_not_read() -> None:
    assert custom_headers([], "not even JSON") == {}


def test_static_headers_are_the_same_for_every_event() -> None:
    headers = [
        StaticHeader(name="X-A", value="1"),
        StaticHeader(name="x-b", value="", is_secret=True),
    ]

    assert custom_headers(headers, "not even JSON") == {"X-A": "1", "x-b": ""}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("id", "e-0"),
        ("ID", "e-0"),
        ("topic", TOPIC_ID),
        ("source", TOPIC_ID),
        ("eventType", "Shop.OrderPlaced"),
        ("type", "Shop.OrderPlaced"),
        ("data.total", "12.5"),
        ("Data.total", "12.5"),
        ("data.Total", "12.5"),
        ("DATA.TOTAL", "12.5"),
        ("data", None),
        ("data.total.more", None),
        ("data.missing", None),
        ("missing", None),
    ],
)
def test_paths_into_an_event_of_event_grid(path: str, expected: str | None) -> None:
    assert value(path, text()) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("topic", "/shop"),
        ("eventtype", "placed"),
        ("eventtime", "2026-02-09T12:00:00Z"),
        ("tenant", "t1"),
        ("data.kind", "a"),
        ("dataversion", None),
    ],
)
def test_paths_into_a_cloud_event(path: str, expected: str | None) -> None:
    assert value(path, CLOUD_EVENT) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("a", "a"),
        ("", ""),
        (True, "true"),
        (-7, "-7"),
        (1.5, "1.5"),
        (10**25, "1" + "0" * 25),
        (None, None),
        (["a"], None),
        ({"a": 1}, None),
        ("x" * 4096, "x" * 4096),
        ("x" * 4097, None),
        ("a\r\nX-Evil: 1", None),
        ("gr\u00fcn", None),
        ("\x7f", None),
        ("a\tb", None),
    ],
)
def test_only_what_a_header_can_hold_becomes_one(data: Any, expected: str | None) -> None:
    assert of_data(data) == expected


@given(json_values)
def test_whatever_becomes_a_header_can_be_sent(data: Any) -> None:
    found = of_data(data)

    assert found is None or re.fullmatch(r"[ -~]{0,4096}", found)
    if isinstance(data, (bool, int, float)):
        assert json.loads(found or "") == data


def test_a_dead_letter_names_no_secret_header() -> None:
    kind = DynamicHeader(name="kind", path=("data", "kind"))
    secret = StaticHeader(name="key", value="s3cret" * 600, is_secret=True)
    team = StaticHeader(name="team", value="a")

    assert dead_letter_headers([secret, kind, secret, secret, secret, team]) == (kind, team)


def test_a_dead_letter_names_as_many_headers_as_fit_beside_it() -> None:
    """Ten of 4,096 bytes would be too much for a queue message together with the events."""
    each = StaticHeader(name="x", value="v" * 4096)
    half = StaticHeader(name="x", value="v" * (MAX_DEAD_LETTER_HEADERS // 2 - len('[["x", ""]]')))

    assert dead_letter_headers([each] * 10) == (each,) * 2
    assert dead_letter_headers([half] * 3) == (half,) * 2
