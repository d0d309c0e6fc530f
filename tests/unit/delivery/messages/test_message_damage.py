"""Members that few messages have; and what is no message of ours, or of another version."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.delivery.delivery import Origin
from shared.delivery.messages.message import VERSION, OtherVersion, ReplayStep
from shared.delivery.messages.message_reader import decode
from shared.delivery.messages.message_writer import encode_step, with_blob
from shared.delivery.messages.packing import MAX_BLOBS
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
    encode,
)
from tests.strategies import messages
from tests.unit.delivery.messages.wire import read, read_parts, together, wire


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


def test_a_step_of_a_replay_is_written_and_read_again() -> None:
    step = ReplayStep(job="20260209120000-5b0c6a0e", number=7)

    assert json.loads(encode_step(step)) == {"pushgrid": VERSION, "job": step.job, "number": 7}
    assert decode(encode_step(step)) == step


@pytest.mark.parametrize("members", [{"number": 0}, {"number": "1"}, {"job": 5}])
def test_a_damaged_step_is_refused(members: dict[str, Any]) -> None:
    step = json.loads(encode_step(ReplayStep(job="a", number=1)))

    with pytest.raises(MalformedMessage):
        decode(json.dumps(step | members))


@pytest.mark.parametrize("version", [1, VERSION - 1, VERSION + 1])
def test_another_version_is_left_to_its_app(version: int) -> None:
    assert decode(compact(wire(pushgrid=version))) == OtherVersion(version)


def _with_headers(headers: object) -> str:
    document = wire(a_message(dead_letter=a_note()))
    return compact(document | {"note": [*document["note"][:-1], headers]})


def _with_blobs(count: int) -> str:
    """Write a message whose every delivery has its event in another payload blob."""
    origins = [
        ORIGIN._replace(publish_id=f"p-{n}", payload=f"blob-{min(n, MAX_BLOBS - 1)}")
        for n in range(count)
    ]
    deliveries = [replace(a_delivery(n), origin=each, text=None) for n, each in enumerate(origins)]
    document = wire(a_message(deliveries))
    for number, origin in enumerate(document["origins"]):
        origin[2] = f"blob-{number}"
    return compact(document)


def test_as_many_blobs_as_a_message_may_have_are_read() -> None:
    assert len(read(_with_blobs(MAX_BLOBS)).deliveries) == MAX_BLOBS


def a_fan_out(**members: object) -> str:
    """Write two events for two subscriptions, with some members replaced."""
    events = [a_delivery(0), a_delivery(1)]
    audit = a_message(events[1:], subscription="audit", generation="g-2", batch_size=10)
    return compact(json.loads(together(a_message(events), audit)) | members)


def a_part(places: object, batch_size: object = 1) -> list[object]:
    return ["orders", "crm", "g-1", batch_size, places]


def _counted(*counters: list[object]) -> str:
    """Write one delivery with these counters."""
    return compact(wire(parts=[[*a_part([0, 1]), counters]]))


DAMAGED = {
    "no JSON": "hello",
    "not UTF-8": b"\xff\xfe\xfd",
    "a list": "[]",
    "an empty object": "{}",
    "too deep": "[" * 200_000,
    "version 0": compact(wire(pushgrid=0)),
    "version true": compact(wire(pushgrid=True)),
    "due is no time": compact(wire(due=0.5)),
    "due is beyond time": compact(wire(due=10**30)),
    "rounds below zero": compact(wire(rounds=-1)),
    "a short note": compact(wire(note=["MaxDeliveryAttemptsExceeded"])),
    "a note of several": a_fan_out(note=wire(a_message(dead_letter=a_note()))["note"]),
    "an unknown reason": compact(
        wire(a_message(dead_letter=a_note()))
        | {"note": ["Tired", 0, "c", "t", "EventGridSchema", "EventGridSchema", []]}
    ),
    "a header without a value": _with_headers([["x", None]]),
    "a path of numbers": _with_headers([["x", [7]]]),
    "packed is no text": compact(wire(packed=None)),
    "packed is no base64": compact(wire(packed="###")),
    "packed is not compressed": compact(wire(packed="aGVsbG8=")),
    "no origins": compact(wire(origins=[])),
    "an origin cut short": compact(wire(origins=[["p", 0]])),
    "a payload without a name": compact(wire(origins=[["p", 0, 5]])),
    "a first line below zero": compact(wire(origins=[["p", 0, "blob", -1]])),
    "too many blobs": _with_blobs(MAX_BLOBS + 1),
    "an origin before the first": compact(wire(events=[[-1, [0, 1]]])),
    "an origin after the last": compact(wire(events=[[1, [0, 1]]])),
    "no events": compact(wire(events=[], packed="")),
    "an event cut short": compact(wire(events=[[0]])),
    "counters of more": _counted([2, 1, "Busy", 503, 0]),
    "counters of less than one": _counted([2, 1], [-1, 1]),
    "an unknown outcome": _counted([1, 1, "Lazy" * 99, 503, 0]),
    "status is no number": _counted([1, 1, "Busy", "503", 0]),
    "last attempt without time": _counted([1, 1, "Busy", 503, None]),
    "attempts below zero": _counted([1, -1]),
    "position below zero": compact(wire(events=[[0, [-1, 1]]])),
    "position is no number": compact(wire(events=[[0, [0.5, 1]]])),
    "places cut short": compact(wire(events=[[0, [0, 1, 1]]])),
    "a place before the first": compact(wire(events=[[0, [0, 1, -2, 1]]])),
    "batch larger than there can be": compact(wire(parts=[a_part([0, 1], 5001)])),
    "count is no number": compact(wire(events=[[0, [0, True]]])),
    "count is zero": compact(wire(events=[[0, [0, 0]]])),
    "fewer events than counted": compact(wire(events=[[0, [0, 2]]], parts=[a_part([0, 2])])),
    "more events than counted": compact(
        wire(
            a_message([a_delivery(0), a_delivery(1)]), events=[[0, [0, 1]]], parts=[a_part([0, 1])]
        )
    ),
    "more events than there can be": compact(
        wire(a_message([a_delivery(origin=PARKED, text=None)]), events=[[0, [0, 10**12]]])
    ),
    "an empty list of parts": a_fan_out(parts=[]),
    "a part cut short": a_fan_out(parts=[a_part([0, 2])[:-1]]),
    "a part of no subscription": a_fan_out(parts=[["orders", None, "g-1", 1, [0, 2]]]),
    "a batch size of zero": a_fan_out(parts=[a_part([0, 2], 0)]),
    "an empty part": a_fan_out(parts=[a_part([0, 2]), a_part([])]),
    "an event after the last": a_fan_out(parts=[a_part([0, 3])]),
    "an event in no part": a_fan_out(parts=[a_part([1, 1])]),
    "more deliveries than a message has": a_fan_out(parts=[a_part([0, 2])] * 33),
    "more events than a part of single events has": a_fan_out(
        origins=[["p", 0, "blob"]], events=[[0, [0, 65]]], parts=[a_part([0, 65])], packed=""
    ),
    "more events than whole batches": a_fan_out(
        origins=[["p", 0, "blob"]], events=[[0, [0, 101]]], parts=[a_part([0, 101], 100)], packed=""
    ),
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_message_is_malformed(text: str | bytes) -> None:
    """What is said of it is short: it goes to the log, and into a record beside the message."""
    with pytest.raises(MalformedMessage, match="not a delivery message") as caught:
        decode(text)
    assert len(caught.value.message) < 300


def test_a_fan_out_message_as_large_as_there_can_be_is_read() -> None:
    shared = read_parts(a_fan_out(parts=[a_part([0, 2])] * 32))
    (whole,) = read_parts(
        a_fan_out(
            origins=[["p", 0, "blob"]],
            events=[[0, [0, 5000]]],
            parts=[a_part([0, 5000], 5000)],
            packed="",
        )
    )

    assert [len(part.deliveries) for part in (*shared, whole)] == [*[2] * 32, 5000]


@given(messages.map(lambda message: encode(message)[0]) | st.just(a_fan_out()), st.data())
def test_any_damage_is_malformed_or_still_well_formed(text: str, data: st.DataObject) -> None:
    """A text that was cut, or had a byte changed, never raises anything else."""
    raw = bytearray(text.encode())
    place = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        del raw[place:]
    else:
        raw[place] = data.draw(st.integers(0, 255))

    try:
        decode(bytes(raw))
    except MalformedMessage as error:
        reason = error.message
    else:
        reason = "not a delivery message"

    assert reason.startswith("not a delivery message")


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_text_at_all_is_malformed(text: str | bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode(text)
