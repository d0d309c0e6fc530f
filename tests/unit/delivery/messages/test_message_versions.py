"""Members that few messages have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.delivery.delivery import Origin
from shared.delivery.messages.message import VERSION, ReplayStep
from shared.delivery.messages.message_reader import decode
from shared.delivery.messages.message_writer import encode, encode_step, with_blob
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
from tests.unit.delivery.messages.wire import read, wire


def test_dead_letters_name_another_account() -> None:
    note = a_note(destination=DeadLetterDestination(container="dead", account="archive1"))

    written = wire(message := a_message(dead_letter=note))

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
    text = None if origin.payload else "{}"
    traced, plain = a_delivery(0, origin=origin, text=text), a_delivery(1)

    for message in (a_message([traced, plain]), a_message([traced, plain], dead_letter=a_note())):
        document = wire(message)

        assert document["origins"] == [
            [origin.publish_id, 1770638400000000, *written],
            [ORIGIN.publish_id, 1770638400000000, None],
        ]
        assert read(compact(document)) == message


def test_dead_letters_are_told_their_blob() -> None:
    (text,) = encode(a_message(dead_letter=a_note()))

    told = read(with_blob(with_blob(text, "other"), "CRM/2026/2/9/12/1.json"))

    assert told == a_message(dead_letter=a_note(), blob="CRM/2026/2/9/12/1.json")


def test_a_step_of_a_replay_is_read_as_version_4_wrote_it_too() -> None:
    step = ReplayStep(job="20260209120000-5b0c6a0e", number=7)

    assert json.loads(encode_step(step))["pushgrid"] == VERSION
    assert decode(encode_step(step)) == step
    older = {"pushgrid": 4, "kind": "replay", "job": step.job, "number": step.number}
    assert decode(compact(older)) == step


@pytest.mark.parametrize("members", [{"number": 0}, {"number": "1"}, {"job": 5}])
def test_a_damaged_step_is_refused(members: dict[str, Any]) -> None:
    step = json.loads(encode_step(ReplayStep(job="a", number=1)))

    with pytest.raises(MalformedMessage):
        decode(json.dumps(step | members))
