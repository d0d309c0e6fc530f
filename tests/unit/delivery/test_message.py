"""Queue messages: written, read again, split and told from damage. Design §2."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.delivery.delivery import Attempt
from shared.delivery.message import EPOCH, DeliveryMessage, Kind, NewerMessage, encode
from shared.delivery.message_reader import decode
from shared.delivery.outcome import Outcome
from shared.delivery.packing import EVENT_WIDTH, HEADER_WIDTH, MAX_STORED, ORIGIN_WIDTH
from shared.delivery.policy import EndReason
from shared.errors import MalformedMessage
from shared.events.data_plane import MAX_EVENTS
from shared.subscriptions.subscription import DeadLetterDestination
from tests.builders import (
    ORIGIN,
    PARKED,
    a_delivery,
    a_message,
    a_note,
    an_attempt,
    an_outcome,
    compact,
    noise,
)
from tests.fakes import START
from tests.strategies import messages

METADATA = (
    "id",
    "dequeueCount",
    "popReceipt",
    "insertionTime",
    "expirationTime",
    "nextVisibleTime",
    "queueTrigger",
)


def read(text: str | bytes) -> DeliveryMessage:
    message = decode(text)
    assert isinstance(message, DeliveryMessage)
    return message


def joined(texts: list[str]) -> DeliveryMessage:
    """Read the parts of one message and put them together again."""
    parts = [read(text) for text in texts]
    deliveries = tuple(delivery for part in parts for delivery in part.deliveries)
    assert {replace(part, deliveries=()) for part in parts} == {replace(parts[0], deliveries=())}
    return replace(parts[0], deliveries=deliveries)


def wire(message: DeliveryMessage | None = None, **members: Any) -> dict[str, Any]:
    (text,) = encode(message or a_message())
    document: dict[str, Any] = json.loads(text)
    return document | members


@given(messages)
def test_what_is_written_is_read_again(message: DeliveryMessage) -> None:
    """Nothing is lost, nothing comes twice, the order is kept: also where it had to be split."""
    texts = encode(message)

    assert joined(texts) == message
    assert all(len(text) <= MAX_STORED for text in texts)


@given(messages)
def test_a_message_is_ascii_and_legal_xml_without_metadata_names(message: DeliveryMessage) -> None:
    """Design §2: no base64 around it, and no name that the host reserves, whatever its case."""
    for text in encode(message):
        assert text.isascii()
        assert text.isprintable()
        assert not {name.lower() for name in json.loads(text)} & {n.lower() for n in METADATA}


def test_bytes_are_read_as_the_host_hands_them_over() -> None:
    (text,) = encode(a_message())

    assert decode(text.encode()) == a_message()


def test_nothing_is_no_message() -> None:
    assert encode(a_message(())) == []


def test_like_events_take_one_line() -> None:
    """docs/decisions.md: runs."""
    tried = an_attempt()
    group = [a_delivery(number, attempts=1, last=tried) for number in range(4)]
    group += [a_delivery(4, attempts=2, last=tried), a_delivery(6, attempts=2, last=tried)]

    runs = wire(a_message(group))["runs"]

    assert [run[:3] for run in runs] == [[0, [0, 4], 1], [0, [4, 1, 1, 1], 2]]


def test_neighbours_of_two_requests_are_kept_apart() -> None:
    other = ORIGIN._replace(publish_id="other")
    group = [a_delivery(0), a_delivery(1, origin=other), a_delivery(2, origin=PARKED, text=None)]

    assert read(encode(a_message(group))[0]).deliveries == tuple(group)


def test_a_group_still_fits_at_every_retry() -> None:
    """Design §2: judged with all counters at full width, so that 1,000 events never overflow."""
    group = [a_delivery(number, text=compact(noise(98, number))) for number in range(1000)]
    parts = [read(text) for text in encode(a_message(group))]
    for attempt in range(10):
        widest = an_outcome(Outcome.PAYLOAD_TOO_LARGE if attempt % 2 else Outcome.BUSY, 999)
        parts = [
            replace(
                part,
                due=START,
                rounds=3,
                deliveries=tuple(each.tried(widest, START) for each in part.deliveries),
            )
            for part in parts
        ]

        encoded = [encode(part) for part in parts]

        assert [len(texts) for texts in encoded] == [1] * len(parts)
        assert all(len(text) <= MAX_STORED for texts in encoded for text in texts)


@pytest.mark.parametrize("size", range(600, 720, 10))
def test_events_of_many_requests_fit_with_their_origins(size: int) -> None:
    """Merged retries: each event comes with a request of its own, every counter at its longest."""
    widest = Attempt(max(Outcome, key=len), 599, START)
    group = [
        a_delivery(
            4999 - number,
            text=compact(noise(size, number)),
            origin=ORIGIN._replace(publish_id=f"{number:032x}"),
            attempts=30,
            last=widest,
        )
        for number in range(64)
    ]

    texts = encode(a_message(group))

    assert all(len(text) <= MAX_STORED for text in texts)


def test_the_reckoned_widths_are_never_exceeded() -> None:
    """The longest names there can be, every counter at its longest."""
    widest = Attempt(max(Outcome, key=len), 599, START)
    topic_id = f"/subscriptions/{'s' * 64}/resourceGroups/{'r' * 90}/providers/Microsoft.EventGrid"
    note = a_note(
        reason=max(EndReason, key=len),
        destination=DeadLetterDestination(container="c" * 63),
        topic_id=f"{topic_id}/topics/{'t' * 50}",
    )
    origins = [PARKED._replace(publish_id=f"{number:032x}") for number in range(64)]
    group = [
        a_delivery(4999, origin=origin, text=None, attempts=30, last=widest) for origin in origins
    ]
    names = {"topic": "t" * 50, "subscription": "s" * 64, "generation": "g" * 36}

    document = wire(a_message(group[:1], due=START, rounds=3, dead_letter=note, **names))

    header = document | {"runs": [], "origins": []}
    assert len(compact(header)) <= HEADER_WIDTH
    assert len(compact(document["runs"])) <= EVENT_WIDTH
    assert len(compact(document["origins"])) <= ORIGIN_WIDTH


def test_a_message_of_the_version_before_is_read() -> None:
    """Events that wait while the app is replaced by a newer one go on."""
    at = int((START - EPOCH) / timedelta(microseconds=1))
    document = wire(a_message([a_delivery(number) for number in range(4)])) | {
        "pushgrid": 1,
        "runs": [[0, 0, 2, 0], [0, 2, 1, 3, "Busy", 503, at], [0, 3, 1, 1, "TimedOut", None, at]],
    }

    message = read(compact(document))

    assert message == a_message(
        [
            a_delivery(0),
            a_delivery(1),
            a_delivery(2, attempts=3, last=an_attempt()),
            a_delivery(3, attempts=1, last=an_attempt(Outcome.TIMED_OUT, None)),
        ]
    )
    assert encode(message) == [compact(wire(message))]


def test_a_newer_version_is_left_to_a_newer_app() -> None:
    assert decode(compact({"pushgrid": 3, "something": "else"})) == NewerMessage(3)


DAMAGED = {
    "nothing": "",
    "no JSON": "hello",
    "cut off": encode(a_message())[0][:-9],
    "not UTF-8": b"\xff\xfe\xfd",
    "a list": "[]",
    "a number": "7",
    "null": "null",
    "an empty object": "{}",
    "too deep": "[" * 200_000,
    "no version": compact({"kind": "delivery"}),
    "version 0": compact(wire(pushgrid=0)),
    "version true": compact(wire(pushgrid=True)),
    "version text": compact(wire(pushgrid="1")),
    "version infinite": compact(wire()).replace('"pushgrid":2', '"pushgrid":2e999'),
    "a reserved kind": compact(wire(kind="fanout")),
    "no kind": compact({k: v for k, v in wire().items() if k != "kind"}),
    "topic is no text": compact(wire(topic=["orders"])),
    "due is no time": compact(wire(due="soon")),
    "due is infinite": compact(wire()).replace('"pushgrid":2', '"pushgrid":2,"due":1e999'),
    "due is beyond time": compact(wire(due=10**30)),
    "rounds below zero": compact(wire(rounds=-1)),
    "no note": compact(wire(kind="deadletter")),
    "a short note": compact(wire(kind="deadletter", note=["MaxDeliveryAttemptsExceeded"])),
    "an unknown reason": compact(
        wire(a_message(dead_letter=a_note()))
        | {"note": ["Tired", 0, "a", "c", "t", "EventGridSchema", "EventGridSchema"]}
    ),
    "packed is no text": compact(wire(packed=None)),
    "packed is no base64": compact(wire(packed="###")),
    "packed is not compressed": compact(wire(packed="aGVsbG8=")),
    "no origins": compact(wire(origins=[])),
    "an origin cut short": compact(wire(origins=[["p", 0]])),
    "a payload without a name": compact(wire(origins=[["p", 0, 5]])),
    "an origin before the first": compact(wire(runs=[[-1, [0, 1], 0]])),
    "an origin after the last": compact(wire(runs=[[1, [0, 1], 0]])),
    "no runs": compact(wire(runs=[], packed="")),
    "a run cut short": compact(wire(runs=[[0, [0, 1]]])),
    "a run too long": compact(wire(runs=[[0, [0, 1], 1, "Busy", 503, 0, 0]])),
    "an unknown outcome": compact(wire(runs=[[0, [0, 1], 1, "Lazy", 503, 0]])),
    "status is no number": compact(wire(runs=[[0, [0, 1], 1, "Busy", "503", 0]])),
    "last attempt without time": compact(wire(runs=[[0, [0, 1], 1, "Busy", 503, None]])),
    "attempts are no number": compact(wire(runs=[[0, [0, 1], "x"]])),
    "attempts below zero": compact(wire(runs=[[0, [0, 1], -1]])),
    "position below zero": compact(wire(runs=[[0, [-1, 1], 0]])),
    "position is no number": compact(wire(runs=[[0, [0.5, 1], 0]])),
    "no places": compact(wire(runs=[[0, [], 0]])),
    "places cut short": compact(wire(runs=[[0, [0, 1, 1], 0]])),
    "places are a number": compact(wire(runs=[[0, 7, 0]])),
    "a place before the first": compact(wire(runs=[[0, [0, 1, -2, 1], 0]])),
    "count is no number": compact(wire(runs=[[0, [0, True], 0]])),
    "batch below one": compact(wire(batch=0)),
    "batch larger than there can be": compact(wire(batch=5001)),
    "count is zero": compact(wire(runs=[[0, [0, 0], 0]])),
    "fewer events than counted": compact(wire(runs=[[0, [0, 2], 0]])),
    "more events than counted": compact(wire(a_message([a_delivery(0), a_delivery(1)]))).replace(
        "[0,[0,2],0]", "[0,[0,1],0]"
    ),
    "more events than there can be": compact(
        wire(a_message([a_delivery(origin=PARKED, text=None)]), runs=[[0, [0, 10**12], 0]])
    ),
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_message_is_told(text: str | bytes) -> None:
    with pytest.raises(MalformedMessage, match="not a delivery message"):
        decode(text)


def test_what_is_said_of_damage_is_short() -> None:
    """It goes to the log and into a record, beside the message itself."""
    with pytest.raises(MalformedMessage) as caught:
        decode(b"\xff" * 60_000)

    assert len(caught.value.message) < 300


def test_as_many_events_as_a_request_may_have_can_be_read() -> None:
    parked = a_message([a_delivery(origin=PARKED, text=None)])

    most = read(compact(wire(parked, runs=[[0, [0, MAX_EVENTS], 0]])))

    assert [each.position for each in most.deliveries] == list(range(5000))


@given(messages, st.data())
def test_any_damage_is_malformed_or_still_well_formed(
    message: DeliveryMessage, data: st.DataObject
) -> None:
    """A text that was cut, or had a byte changed, never raises anything else."""
    raw = bytearray(encode(message)[0].encode())
    place = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        del raw[place:]
    else:
        raw[place] = data.draw(st.integers(0, 255))

    try:
        decode(bytes(raw))
    except MalformedMessage as error:
        told = error.message
    else:
        told = "not a delivery message"

    assert told.startswith("not a delivery message")


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_text_at_all_is_malformed(text: str | bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode(text)


def test_the_kinds_are_named_as_designed() -> None:
    kinds = [wire()["kind"], wire(a_message(dead_letter=a_note()))["kind"]]

    assert kinds == ["delivery", "deadletter"] == list(Kind)
