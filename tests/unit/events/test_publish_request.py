"""The limits of a publish request, and the order of the checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.events.authorization import authorize
from shared.events.publish_http import read_events
from shared.events.topic import InputSchema
from shared.http import HttpRequest
from tests.builders import TOPIC_ID
from tests.unit.events.publishing import (
    ARRIVAL,
    NOW,
    a_request,
    a_topic,
    body_of,
    cloud_members,
    members,
    read_cloud,
    read_grid,
    refusal,
)

_TOO_LARGE = (413, "RequestEntityTooLarge", "PayloadTooLarge")
_REQUEST_TOO_LARGE = (*_TOO_LARGE, "The maximum size (1536000) has been exceeded.")
_EVENT_TOO_LARGE = (*_TOO_LARGE, "The maximum size (1049600) has been exceeded.")
_SDK = json.loads(
    (Path(__file__).parents[2] / "data" / "publish" / "python-sdk-4.22.1.json").read_text("utf-8")
)


def _event_of(size: int, **changes: str) -> dict[str, object]:
    empty = len(body_of(members(data="", **changes)))
    return members(data="a" * (size - empty), **changes)


def test_a_request_has_at_most_1536000_bytes():
    events = [_event_of(768_000), _event_of(767_997)]

    assert len(body_of(events)) == 1_536_000
    assert len(read_grid(body_of(events))) == 2
    assert refusal(read_grid, b"x" * 1_536_001) == _REQUEST_TOO_LARGE
    assert refusal(read_cloud, b"x" * 1_536_001, "text/plain") == _REQUEST_TOO_LARGE


def test_an_event_has_at_most_1049600_bytes():
    too_large = _event_of(1_049_601)
    without_id = _event_of(1_049_601, id="")  # the size is judged before the fields
    cloud = cloud_members(data="a" * 1_049_600)

    assert len(read_grid(body_of([members(), _event_of(1_049_600)]))) == 2
    assert refusal(read_grid, body_of([members(), too_large])) == _EVENT_TOO_LARGE
    assert refusal(read_grid, body_of([without_id])) == _EVENT_TOO_LARGE
    assert refusal(read_cloud, body_of([cloud])) == _EVENT_TOO_LARGE


def test_events_are_measured_in_utf8_without_blanks():
    body = json.dumps([members(data=["é"] * 130_000)], indent=0).encode()

    assert 1_049_600 < len(body) <= 1_536_000
    assert len(read_grid(body)) == 1


@pytest.mark.parametrize("version", ["2024-06-01", ""])
def test_another_api_version_is_refused(version):
    request = a_request(b"x" * 1_536_001, query={"api-version": version})

    assert refusal(read_events, request, a_topic(), ARRIVAL) == (
        400,
        "BadRequest",
        "UnsupportedApiVersion",
        f"The api-version '{version}' is not supported. Use '2018-01-01'.",
    )


@pytest.mark.parametrize("name", _SDK)
def test_requests_of_the_official_python_client_are_accepted(name):
    """Captured from azure-eventgrid 4.22.1, key and SAS credentials."""
    captured = _SDK[name]
    is_cloud = name.startswith("cloudevents")
    topic = a_topic(InputSchema.CLOUD_EVENTS if is_cloud else InputSchema.EVENT_GRID)
    request = HttpRequest(
        method="POST",
        url=captured["url"],
        headers=captured["headers"],
        query={"api-version": "2018-01-01"},
        body=captured["body"].encode(),
    )
    stamps = {} if is_cloud else {"topic": TOPIC_ID, "metadataVersion": "1"}

    authorize(request, topic, NOW)
    events = read_events(request, topic, ARRIVAL)

    assert [json.loads(event.text) for event in events] == [
        event | stamps for event in json.loads(captured["body"])
    ]
