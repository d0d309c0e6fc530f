"""A dead letter of a namespace; contract §4.2 (members) and §4.3 (reasons)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given

from pushgrid.testing.memory import START
from shared.deadletter.namespace_record import namespace_record
from shared.delivery.delivery import LastAttempt
from shared.delivery.outcome import Outcome
from shared.delivery.policy import EndReason
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import DeliverySchema, DynamicHeader, StaticHeader
from tests.builders import a_delivery, a_note, compact
from tests.strategies import json_values

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


def test_it_is_the_event_beside_what_was_tried() -> None:
    assert letter() == {
        "deadLetterProperties": {
            "deadletterreason": "Maximum delivery attempts was exceeded.",
            "deliveryattempts": 10,
            "deliveryresult": "Busy",
            "publishutc": "2026-02-09T12:00:00.0000000Z",
            "deliveryattemptutc": "2026-02-09T12:05:00.7654320Z",
        },
        "event": EVENT,
    }


@pytest.mark.parametrize("reason", EndReason)
def test_whatever_was_refused_is_a_client_error(reason: EndReason) -> None:
    texts = {
        "MaxDeliveryAttemptsExceeded": "Maximum delivery attempts was exceeded.",
        "TimeToLiveExceeded": "Time to live was exceeded.",
    }

    properties = letter(reason=reason)["deadLetterProperties"]

    expected = texts.get(reason.value, "Undeliverable due to client error")
    assert properties["deadletterreason"] == expected


def test_without_an_attempt_there_is_no_time_of_one() -> None:
    properties = letter(last=None)["deadLetterProperties"]

    assert properties["deliveryresult"] == "Event was not acknowledged nor rejected."
    assert "deliveryattemptutc" not in properties


def test_where_nothing_was_answered_the_result_is_the_documented_one() -> None:
    """The edition's example has one attempt, and this result."""
    timed_out = LastAttempt(Outcome.TIMED_OUT, None, START)

    answered, unanswered = (
        letter(last=last)["deadLetterProperties"]
        for last in (timed_out._replace(status=408), timed_out)
    )

    assert answered["deliveryresult"] == "TimedOut"
    assert unanswered["deliveryresult"] == "Event was not acknowledged nor rejected."
    assert unanswered["deliveryattemptutc"] == "2026-02-09T12:00:00.0000000Z"


def test_custom_headers_are_those_that_were_sent() -> None:
    """The documented "Custom-Header-1: value1" as set, "34" for a number of the event."""
    headers = (
        StaticHeader(name="Custom-Header-1", value="value1"),
        DynamicHeader(name="Custom-Header-2", path=("data", "n")),
        DynamicHeader(name="Custom-Header-3", path=("data", "missing")),
    )

    properties = letter(headers=headers)["customDeliveryProperties"]

    assert properties == {"Custom-Header-1": "value1", "Custom-Header-2": "1"}


@given(json_values)
def test_the_event_is_kept_as_it_is(data: Any) -> None:
    event = EVENT | {"data": data}

    written = namespace_record(a_delivery(), compact(event), note())

    assert compact(json.loads(written)["event"]) == compact(event)


@pytest.mark.parametrize("damaged", ["[]", "null", "7", "{"])
def test_of_what_is_no_event_no_letter_is_made(damaged: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        namespace_record(a_delivery(), damaged, note())
