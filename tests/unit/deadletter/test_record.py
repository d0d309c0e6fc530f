"""A dead letter as it is written; conformance/dead-letters has the documented ones. §4.2, §4.3."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given

from pushgrid.testing.memory import START
from shared.deadletter.record import namespace_record, record
from shared.delivery.delivery import LastAttempt
from shared.delivery.outcome import Outcome
from shared.delivery.policy import EndReason
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import DeliverySchema
from tests.builders import TOPIC_ID, a_delivery, a_note, compact, text
from tests.strategies import json_values
from tests.unit.events.publishing import (
    bad_json,
    body_of,
    cloud_members,
    read_cloud,
    read_grid,
    refusal,
    unexpected,
)

TIMED_OUT = LastAttempt(Outcome.TIMED_OUT, 408, START + timedelta(minutes=5, microseconds=765432))
TRIED = a_delivery(attempts=5, last=TIMED_OUT)
TO_CLOUD = a_note(delivery_schema=DeliverySchema.CLOUD_EVENTS)


def test_a_converted_event_has_extension_names() -> None:
    assert json.loads(record(TRIED, text(), TO_CLOUD)) == {
        "specversion": "1.0",
        "id": "e-0",
        "source": TOPIC_ID,
        "type": "Shop.OrderPlaced",
        "time": "2026-02-09T12:00:00Z",
        "subject": "/orders/17",
        "dataschema": "#1.0",
        "data": {"total": 12.5},
        "deadletterreason": "MaxDeliveryAttemptsExceeded",
        "deliveryattempts": 5,
        "lastdeliveryoutcome": "TimedOut",
        "publishtime": "2026-02-09T12:00:00.0000000Z",
        "lastdeliveryattempttime": "2026-02-09T12:05:00.7654320Z",
    }


NATIVE = a_note(input_schema=InputSchema.CLOUD_EVENTS, delivery_schema=DeliverySchema.CLOUD_EVENTS)


@pytest.mark.parametrize(
    ("event", "note"), [(text(), TO_CLOUD), (compact(cloud_members()), NATIVE)]
)
def test_a_cloud_event_s_record_can_be_published_as_it_is(event: str, note: Any) -> None:
    """Where it ends again, nothing is left of its first end."""
    first = record(TRIED, event, note)

    (published,) = read_cloud(f"[{first}]".encode())
    again = json.loads(record(a_delivery(), published.text, NATIVE))

    assert published.text == first
    assert again == json.loads(record(a_delivery(), event, note))


def test_records_of_other_forms_are_no_events() -> None:
    """Of a namespace the member ``event`` is one. Source: contract §4.2."""
    of_namespace = json.loads(namespace_record(TRIED, compact(cloud_members()), NATIVE))

    assert refusal(read_grid, f"[{record(TRIED, text(), a_note())}]".encode()) == bad_json(
        unexpected("EventGridEvent", "deadLetterReason")
    )
    assert "'deadLetterProperties'" in refusal(read_cloud, body_of([of_namespace]))[3]
    assert read_cloud(body_of([of_namespace["event"]]))


@pytest.mark.parametrize("note", [a_note(), TO_CLOUD], ids=["event grid", "cloud events"])
def test_without_an_attempt_there_is_nothing_to_say_of_the_last(note: Any) -> None:
    found = json.loads(record(a_delivery(), text(), note))

    names = {name.lower(): value for name, value in found.items()}
    assert names["deliveryattempts"] == 0
    assert not {"lastdeliveryoutcome", "lasthttpstatuscode", "lastdeliveryattempttime"} & set(names)


def test_without_an_answer_there_is_no_status() -> None:
    refused = a_delivery(attempts=1, last=LastAttempt(Outcome.SOCKET_ERROR, None, START))

    found = json.loads(record(refused, text(), a_note()))

    assert "lastHttpStatusCode" not in found
    assert found["lastDeliveryOutcome"] == "SocketError"


def test_a_record_is_one_line_of_ascii() -> None:
    line = record(TRIED, text(subject="ü\n😀"), a_note())

    assert line.isascii()
    assert "\n" not in line


EVENT = {"specversion": "1.0", "id": "a", "source": "/s", "type": "t", "data": {"n": 1}, "x": 5}
BUSY = LastAttempt(Outcome.BUSY, 503, START + timedelta(minutes=5, microseconds=765432))


def note(**overrides: Any) -> Any:
    schemas = {
        "input_schema": InputSchema.CLOUD_EVENTS,
        "delivery_schema": DeliverySchema.CLOUD_EVENTS,
    }
    return a_note(**schemas | overrides)


def letter(last: LastAttempt | None = BUSY, **overrides: Any) -> dict[str, Any]:
    delivery = a_delivery(attempts=10 if last else 0, last=last)
    written = namespace_record(delivery, compact(EVENT), note(**overrides))
    assert written.isascii()
    assert "\n" not in written
    document: dict[str, Any] = json.loads(written)
    return document


@pytest.mark.parametrize("reason", EndReason)
def test_whatever_was_refused_is_a_client_error(reason: EndReason) -> None:
    texts = {
        "MaxDeliveryAttemptsExceeded": "Maximum delivery attempts was exceeded.",
        "TimeToLiveExceeded": "Time to live was exceeded.",
    }

    properties = letter(reason=reason)["deadLetterProperties"]

    expected = texts.get(reason.value, "Undeliverable due to client error")
    assert properties["deadletterreason"] == expected


@given(json_values)
def test_the_event_is_kept_as_it_is(data: Any) -> None:
    event = EVENT | {"data": data}

    written = namespace_record(a_delivery(), compact(event), note())

    assert compact(json.loads(written)["event"]) == compact(event)


@pytest.mark.parametrize("damaged", ["[]", "null", "7", "{"])
def test_of_what_is_no_event_no_letter_is_made(damaged: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        namespace_record(a_delivery(), damaged, note())
