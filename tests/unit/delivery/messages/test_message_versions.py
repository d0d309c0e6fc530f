"""Members of messages that were added after version 2, and messages without them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.delivery.delivery import Origin
from shared.delivery.messages.message import (
    Part,
    ReplayStep,
    encode,
    encode_fan_out,
    encode_step,
    with_blob,
)
from shared.delivery.messages.message_reader import decode
from shared.delivery.messages.packing import pack
from shared.errors import MalformedMessage
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

ADDED_IN = 3  # the version that can read traces and accounts


def test_another_account_needs_the_version_that_added_it() -> None:
    """An earlier app requeues the message, where it would write to its own account."""
    note = a_note(destination=DeadLetterDestination(container="dead", account="archive1"))

    written = wire(message := a_message(dead_letter=note))

    assert written["pushgrid"] == ADDED_IN
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

        assert document["pushgrid"] == ADDED_IN
        assert document["origins"] == [
            [origin.publish_id, 1770638400000000, *written],
            [ORIGIN.publish_id, 1770638400000000, None],
        ]
        assert read(compact(document)) == message
    assert json.loads(shared)["pushgrid"] == ADDED_IN
    assert read_parts(shared) == (a_message([traced, plain]),)
    assert wire(a_message([plain]))["pushgrid"] < ADDED_IN


def test_dead_letters_are_told_their_blob() -> None:
    (text,) = encode(a_message(dead_letter=a_note()))

    told = read(with_blob(with_blob(text, "other"), "CRM/2026/2/9/12/1.json"))

    assert told == a_message(dead_letter=a_note(), blob="CRM/2026/2/9/12/1.json")


def test_a_step_of_a_replay_is_read_by_the_version_that_added_it() -> None:
    step = ReplayStep(job="20260209120000-5b0c6a0e", number=7)

    assert json.loads(encode_step(step))["pushgrid"] == 4
    assert decode(encode_step(step)) == step


@pytest.mark.parametrize("members", [{"number": 0}, {"number": "1"}, {"job": 5}])
def test_a_damaged_step_is_refused(members: dict[str, Any]) -> None:
    step = json.loads(encode_step(ReplayStep(job="a", number=1)))

    with pytest.raises(MalformedMessage):
        decode(json.dumps(step | members))
