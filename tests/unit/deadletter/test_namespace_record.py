"""A dead letter of a namespace; `conformance/dead-letters` has the documented ones. §4.2, §4.3."""

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
from shared.subscriptions.subscription import DeliverySchema
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
