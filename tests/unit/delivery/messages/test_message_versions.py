"""Members of messages that were added after version 2, and messages without them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.delivery.delivery import Origin
from shared.delivery.messages.message import VERSION, Part, encode, encode_fan_out, with_blob
from shared.delivery.messages.packing import pack
from shared.subscriptions.subscription import DeadLetterDestination
from tests.builders import (
    ORIGIN,
    PARKED,
    TRACE,
    a_delivery,
    a_message,
    a_note,
    compact,
)
from tests.unit.delivery.messages.wire import read, read_parts, wire


def test_another_account_needs_the_latest_version() -> None:
    """An earlier app requeues the message, where it would write to its own account."""
    note = a_note(destination=DeadLetterDestination(container="dead", account="archive1"))

    written = wire(message := a_message(dead_letter=note))

    assert written["pushgrid"] == VERSION
    assert written["note"][-1] == "archive1"
    assert read(compact(written)) == message


@pytest.mark.parametrize(
    ("origin", "written"),
    [
        (ORIGIN._replace(trace=TRACE), [None, 0, *TRACE]),
        (ORIGIN._replace(trace=TRACE._replace(state="")), [None, 0, TRACE.parent]),
        (PARKED._replace(first_line=7, trace=TRACE), [PARKED.payload, 7, *TRACE]),
    ],
)
def test_a_trace_travels_with_its_publish_request(origin: Origin, written: list[Any]) -> None:
    """An earlier app requeues the message, where it would reject it."""
    text = None if origin.payload else "{}"
    traced, plain = a_delivery(0, origin=origin, text=text), a_delivery(1)
    (part,) = [Part("orders", "crm", "g-1", 1, (0, 1))]
    packed = pack([each.text for each in (traced, plain) if each.text is not None])
    shared = encode_fan_out([traced, plain], [part], packed)

    for message in (a_message([traced, plain]), a_message([traced, plain], dead_letter=a_note())):
        document = wire(message)

        assert document["pushgrid"] == VERSION
        assert document["origins"] == [
            [origin.publish_id, 1770638400000000, *written],
            [ORIGIN.publish_id, 1770638400000000, None],
        ]
        assert read(compact(document)) == message
    assert json.loads(shared)["pushgrid"] == VERSION
    assert read_parts(shared) == (a_message([traced, plain]),)
    assert wire(a_message([plain]))["pushgrid"] < VERSION


def test_dead_letters_are_told_their_blob() -> None:
    (text,) = encode(a_message(dead_letter=a_note()))

    told = read(with_blob(with_blob(text, "other"), "CRM/2026/2/9/12/1.json"))

    assert told == a_message(dead_letter=a_note(), blob="CRM/2026/2/9/12/1.json")
