"""A dead letter per delivery schema; `conformance/dead-letters` has the documented ones. §4.2."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.deadletter.record import record
from shared.delivery.delivery import LastAttempt
from shared.delivery.outcome import Outcome
from shared.delivery.policy import EndReason
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import DeliverySchema
from tests.builders import TOPIC_ID, a_delivery, a_note, compact, text

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


def test_a_published_cloud_event_keeps_its_extensions() -> None:
    note = a_note(
        input_schema=InputSchema.CLOUD_EVENTS, delivery_schema=DeliverySchema.CLOUD_EVENTS
    )
    event = {"specversion": "1.0", "id": "a", "source": "/s", "type": "t", "tenant": "x"}

    found = json.loads(record(TRIED, compact(event), note))

    assert found.items() >= event.items()
    assert all(name == name.lower() and name.isalnum() for name in found)


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


@pytest.mark.parametrize("reason", EndReason)
def test_the_reason_is_written_as_it_is_named(reason: EndReason) -> None:
    found = json.loads(record(TRIED, text(), a_note(reason=reason)))

    assert found["deadLetterReason"] == reason.value


def test_a_record_is_one_line_of_ascii() -> None:
    line = record(TRIED, text(subject="ü\n😀"), a_note())

    assert line.isascii()
    assert "\n" not in line
