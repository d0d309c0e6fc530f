"""Queue messages: written, read again, and split. Design §2."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START
from shared.delivery.delivery import Delivery, LastAttempt
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import (
    dead_letter_headers,
    encode_remaining,
    encode_together,
)
from shared.delivery.messages.packing import (
    EVENT_WIDTH,
    HEADER_WIDTH,
    MAX_BLOBS,
    fits_inline,
    origins_width,
    pack,
)
from shared.delivery.outcome import Outcome
from shared.delivery.policy import EndReason
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    DeliverySchema,
    DynamicHeader,
    StaticHeader,
)
from tests.builders import (
    LONGEST_TRACE,
    MESSAGE_SIZE,
    ORIGIN,
    PARKED,
    a_delivery,
    a_message,
    a_note,
    an_attempt,
    compact,
    encode,
    noise,
)
from tests.strategies import messages, shared_parts
from tests.unit.delivery.messages.wire import joined, read, read_parts, together, wire

METADATA = (
    "id",
    "dequeueCount",
    "popReceipt",
    "insertionTime",
    "expirationTime",
    "nextVisibleTime",
    "queueTrigger",
)


@given(messages)
def test_what_is_written_is_read_again(message: MessagePart) -> None:
    """Nothing is lost, nothing comes twice, the order is kept: also where it had to be split."""
    texts = encode(message)

    assert joined(texts) == message
    assert all(len(text) <= MESSAGE_SIZE for text in texts)


@given(messages)
def test_a_message_is_ascii_and_legal_xml_without_metadata_names(message: MessagePart) -> None:
    """Design §2: no base64 around it, and no name that the host reserves, whatever its case."""
    for text in encode(message):
        assert text.isascii()
        assert text.isprintable()
        assert not {name.lower() for name in json.loads(text)} & {n.lower() for n in METADATA}


@pytest.mark.parametrize("size", range(600, 720, 10))
def test_events_of_many_requests_fit_with_their_origins(size: int) -> None:
    """Merged retries: each event comes with a request of its own, every counter at its longest."""
    widest = LastAttempt(max(Outcome, key=len), 599, START)
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

    assert all(len(text) <= MESSAGE_SIZE for text in texts)


def test_the_computed_widths_are_never_exceeded() -> None:
    """The longest names there can be, every counter at its longest."""
    widest = LastAttempt(max(Outcome, key=len), 599, START)
    topic_id = f"/subscriptions/{'s' * 64}/resourceGroups/{'r' * 90}/providers/Microsoft.EventGrid"
    note = a_note(
        reason=max(EndReason, key=len),
        destination=DeadLetterDestination(container="c" * 63, account="a" * 24),
        topic_id=f"{topic_id}/namespaces/{'n' * 50}/topics/{'t' * 50}",
    )
    parked = PARKED._replace(trace=LONGEST_TRACE)
    origins = [parked._replace(publish_id=f"{number:032x}") for number in range(64)]
    group = [
        a_delivery(4999, origin=origin, text=None, attempts=30, last=widest) for origin in origins
    ]
    names = {"topic": f"{'n' * 50}.{'t' * 50}", "subscription": "s" * 64, "generation": "g" * 36}

    document = wire(a_message(group[:1], due=START, rounds=3, dead_letter=note, **names))

    ((*_, counters),) = document["parts"]
    header = document | {"events": [], "origins": []}
    counted = len(compact(counters)) + len(compact(document["events"]))
    assert len(compact(header)) - len(compact(counters)) <= HEADER_WIDTH
    assert counted <= EVENT_WIDTH
    assert len(compact(document["origins"])) <= origins_width(origins[:1])


TIME = 1770638400000000
NOTE = [
    "MaxDeliveryAttemptsExceeded",
    1770652800000000,
    "dead",
    "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.EventGrid/topics/orders",
    "EventGridSchema",
    "CloudEventSchemaV1_0",
    [["x-team", "crm"], ["x-id", ["data", "id"]]],
]
FORM: dict[str, Any] = {
    "pushgrid": 5,
    "due": TIME,
    "rounds": 2,
    "origins": [
        ["00000000000000000000000000000001", TIME, None],
        ["00000000000000000000000000000001", TIME, PARKED.payload, 12],
    ],
    "events": [[0, [0, 2, 2, 2]], [1, [6, 1]]],
    "parts": [
        ["orders", "crm", "g-1", 1, [0, 5], [[3, 0], [1, 2, "Busy", 503, TIME], [1, 0]]],
        ["returns", "audit", "g-2", 10, [1, 1, 2, 1]],
    ],
}
TEXTS = [a_delivery(number).text or "" for number in (0, 1, 4, 5)]


def test_the_form_of_a_version_never_changes() -> None:
    """Messages wait on the queues while the app is updated: another form needs another VERSION."""
    events = [a_delivery(number) for number in (0, 1, 4, 5)]
    events[3] = replace(events[3], attempts=2, last=an_attempt())
    events += [a_delivery(6, origin=PARKED._replace(first_line=12), text=None)]
    common: dict[str, Any] = {"due": START, "rounds": 2}
    crm = a_message(events, **common)
    names = {"topic": "returns", "subscription": "audit", "generation": "g-2"}
    audit = a_message([events[1], events[4]], batch_size=10, **names, **common)
    headers = (
        StaticHeader(name="x-team", value="crm"),
        DynamicHeader(name="x-id", path=("data", "id")),
    )
    note = a_note(delivery_schema=DeliverySchema.CLOUD_EVENTS, headers=headers)

    shared, dead = together(crm, audit), wire(replace(crm, dead_letter=note))

    assert json.loads(shared) == FORM | {"packed": pack(TEXTS)}
    assert dead == FORM | {"note": NOTE, "parts": FORM["parts"][:1], "packed": pack(TEXTS)}
    assert read_parts(shared) == (crm, audit)


@given(shared_parts())
def test_parts_that_are_due_together_share_messages(parts: list[MessagePart]) -> None:
    """Nothing is lost, nothing comes twice; batches that were tried together stay together."""
    written = [*encode_together(parts, MESSAGE_SIZE)]

    assert [read_parts(text) for _, text in written] == [parts for parts, _ in written]
    assert all(len(text) <= MESSAGE_SIZE for _, text in written)
    found = [part for parts, _ in written for part in parts]
    assert {part.due for part in found} == {part.due for part in parts}
    for part in parts:
        own = [each for each in found if each.subscription == part.subscription]
        got = [delivery for each in own for delivery in each.deliveries]
        assert Counter(got) == Counter(part.deliveries)
        groups = [(tried, len([*group])) for tried, group in groupby(part.deliveries, _tried)]
        for tried, count in groups:
            if (
                tried[1]
                and count <= part.batch_size
                and [each for each, _ in groups].count(tried) == 1
            ):
                assert sum(tried in map(_tried, piece.deliveries) for piece in own) == 1


def _tried(delivery: Delivery) -> tuple[int, LastAttempt | None]:
    return delivery.attempts, delivery.last


@given(shared_parts(), st.data())
def test_a_message_shrinks_by_one_late_answer_after_another(
    parts: list[MessagePart], data: st.DataObject
) -> None:
    left, text = next(encode_together(parts, MESSAGE_SIZE))
    while sum(len(part.deliveries) for part in left) > 1:
        number = data.draw(st.integers(0, len(left) - 1))
        part = left[number]
        gone = data.draw(st.sets(st.sampled_from(range(len(part.deliveries))), min_size=1))
        rest = [each for place, each in enumerate(part.deliveries) if place not in gone]
        shrunk = replace(part, deliveries=tuple(rest))
        left = tuple(
            each for each in (*left[:number], shrunk, *left[number + 1 :]) if each.deliveries
        )
        if not left:
            break
        text = encode_remaining(*left)

        assert read_parts(text) == left
        assert len(text) <= 64 * 1024  # the service's limit: gaps take some bytes


@pytest.mark.parametrize(
    ("count", "events", "messages"), [(500, 1, 8), (64, 1, 1), (65, 1, 2), (10, 6, 1), (1, 64, 1)]
)
def test_what_fails_together_takes_few_messages(count: int, events: int, messages: int) -> None:
    """500 subscriptions behind a gateway that answers 503 cost 500 puts an event."""
    failed = [a_delivery(number, attempts=1, last=an_attempt()) for number in range(events)]
    names = {"topic": "t" * 50, "generation": "g" * 36}
    parts = [
        a_message(failed, subscription=f"{number:064}", due=START, **names)
        for number in range(count)
    ]

    written = [*encode_together(parts, MESSAGE_SIZE)]

    assert len(written) == messages
    assert [part for parts, _ in written for part in parts] == parts


def test_what_differs_in_time_or_ends_shares_no_message() -> None:
    parts = [a_message(subscription=f"s-{number}", due=START) for number in range(2)]
    later = [replace(each, due=START + timedelta(seconds=1)) for each in parts]
    again = [replace(each, rounds=1) for each in parts]
    ended = [replace(each, dead_letter=a_note()) for each in parts]

    written = [
        parts for parts, _ in encode_together([*parts, *later, *again, *ended], MESSAGE_SIZE)
    ]

    assert written == [tuple(parts), tuple(later), tuple(again), *[(each,) for each in ended]]


def test_few_payload_blobs_share_a_message_of_several_subscriptions() -> None:
    """Whoever delivers it holds them all in memory."""
    parts = [
        a_message(
            [a_delivery(origin=PARKED._replace(payload=f"blob-{number}"), text=None)],
            subscription=f"s-{number}",
        )
        for number in range(MAX_BLOBS + 1)
    ]

    written = [parts for parts, _ in encode_together(parts, MESSAGE_SIZE)]

    assert [len(parts) for parts in written] == [MAX_BLOBS, 1]


def test_an_event_that_came_twice_is_written_once() -> None:
    """A failing delete repeats a retry; both are merged as they wait."""
    group = [a_delivery(0), a_delivery(1), a_delivery(0, attempts=1, last=an_attempt())]

    written = wire(a_message(group))

    assert written["events"] == [[0, [0, 2]]]
    assert read(compact(written)).deliveries == tuple(group)


def test_a_dead_letter_with_all_its_headers_fits_into_a_queue_message() -> None:
    """The service's limit is 64 KiB; a single event may take all of ours, of 48."""
    header = StaticHeader(name="x", value='"' * 4000)
    note = a_note(headers=dead_letter_headers([header] * 10))
    size = next(
        size
        for size in range(47_000, 0, -100)
        if fits_inline(compact(noise(size)), ORIGIN, MESSAGE_SIZE)
    )

    (message,) = encode(a_message([a_delivery(text=compact(noise(size)))], dead_letter=note))

    assert note.headers
    assert len(message) < 64 * 1024
    assert read(message).dead_letter == note
