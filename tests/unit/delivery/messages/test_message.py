"""Queue messages: written, read again, and split. Design §2."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given

from pushgrid.testing.memory import START
from shared.delivery.delivery import Attempt
from shared.delivery.messages.message import (
    DeliveryMessage,
    Part,
    encode,
    encode_fan_out,
)
from shared.delivery.messages.message_reader import decode
from shared.delivery.messages.packing import (
    EVENT_WIDTH,
    HEADER_WIDTH,
    MAX_STORED,
    fits_inline,
    origins_width,
    pack,
    unpack,
)
from shared.delivery.outcome import Outcome
from shared.delivery.policy import EndReason
from shared.delivery.requests.custom_headers import dead_letter_headers
from shared.subscriptions.subscription import (
    UNMATCHED,
    DeadLetterDestination,
    DeliverySchema,
    DynamicHeader,
    StaticHeader,
)
from tests.builders import (
    LONGEST_TRACE,
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
from tests.strategies import messages
from tests.unit.delivery.messages.wire import joined, read, read_parts, wire

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

    assert decode(text.encode()) == (a_message(),)


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


def test_the_computed_widths_are_never_exceeded() -> None:
    """The longest names there can be, every counter at its longest."""
    widest = Attempt(max(Outcome, key=len), 599, START)
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

    header = document | {"runs": [], "origins": []}
    assert len(compact(header)) <= HEADER_WIDTH
    assert len(compact(document["runs"])) <= EVENT_WIDTH
    assert len(compact(document["origins"])) <= origins_width(origins[:1])


FORM = {
    "pushgrid": 2,
    "kind": "delivery",
    "topic": "orders",
    "subscription": "crm",
    "generation": "g-1",
    "due": 1770638400000000,
    "rounds": 2,
    "batch": 10,
    "origins": [
        ["00000000000000000000000000000001", 1770638400000000, None],
        ["00000000000000000000000000000001", 1770638400000000, PARKED.payload],
    ],
    "runs": [[0, [0, 2, 2, 1], 0], [0, [5, 1], 2, "Busy", 503, 1770638400000000], [1, [6, 1], 0]],
}
NOTE = [
    "MaxDeliveryAttemptsExceeded",
    1770652800000000,
    "dead",
    "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.EventGrid/topics/orders",
    "EventGridSchema",
    "CloudEventSchemaV1_0",
    [["x-team", "crm"], ["x-id", ["data", "id"]]],
]


FANOUT = {
    "pushgrid": 2,
    "kind": "fanout",
    "origins": [
        ["00000000000000000000000000000001", 1770638400000000, None],
        ["00000000000000000000000000000001", 1770638400000000, PARKED.payload, 12],
    ],
    "events": [[0, [0, 2, 2, 1]], [1, [6, 1]]],
    "parts": [
        ["orders", "crm", "g-1", 1, [0, 4]],
        ["returns", "audit", "g-2", 10, [1, 1, 1, 1]],
    ],
}


def test_the_form_of_a_version_never_changes() -> None:
    """Messages wait on the queues while the app is updated: another form needs another VERSION."""
    group = [a_delivery(number) for number in (0, 1, 4)]
    group += [a_delivery(5, attempts=2, last=an_attempt())]
    group += [a_delivery(6, origin=PARKED, text=None)]
    headers = (
        StaticHeader(name="x-team", value="crm"),
        DynamicHeader(name="x-id", path=("data", "id")),
    )
    note = a_note(delivery_schema=DeliverySchema.CLOUD_EVENTS, headers=headers)
    message = a_message(group, due=START, rounds=2, batch_size=10)

    written, dead = wire(message), wire(replace(message, dead_letter=note))

    texts = [each.text for each in group if each.text is not None]
    assert [unpack(document.pop("packed"), 4) for document in (written, dead)] == [texts, texts]
    assert written == FORM
    assert dead == FORM | {"kind": "deadletter", "note": NOTE}
    for version in (1, 2, 3):
        assert read(compact(FORM | {"pushgrid": version, "packed": pack(texts)})) == message


def test_the_form_of_a_fan_out_message_never_changes() -> None:
    events = [a_delivery(number) for number in (0, 1, 4)]
    events += [a_delivery(6, origin=PARKED._replace(first_line=12), text=None)]
    texts = [each.text for each in events if each.text is not None]
    parts = [Part("orders", "crm", "g-1", 1, (0, 1, 2, 3))]
    parts += [Part("returns", "audit", "g-2", 10, (1, 3))]

    text = encode_fan_out(events, parts, pack(texts))

    assert json.loads(text) == FANOUT | {"packed": pack(texts)}
    assert read_parts(text) == (
        a_message(events),
        a_message(
            [events[1], events[3]],
            topic="returns",
            subscription="audit",
            generation="g-2",
            batch_size=10,
        ),
    )


def test_a_line_of_a_shared_blob_stays_with_its_delivery() -> None:
    tried = a_delivery(
        3, origin=PARKED._replace(first_line=7), text=None, attempts=1, last=an_attempt()
    )

    for note in (None, a_note()):
        assert read(encode(a_message([tried], dead_letter=note))[0]).deliveries == (tried,)


def test_a_dead_letter_with_all_its_headers_fits_into_a_queue_message() -> None:
    """The service's limit is 64 KiB; a single event may take all of ours, of 48."""
    header = StaticHeader(name="x", value='"' * 4000)
    note = a_note(headers=dead_letter_headers([header] * 10))
    size = next(
        size for size in range(47_000, 0, -100) if fits_inline(compact(noise(size)), ORIGIN)
    )

    (message,) = encode(a_message([a_delivery(text=compact(noise(size)))], dead_letter=note))

    assert note.headers
    assert len(message) < 64 * 1024
    assert read(message).dead_letter == note


def test_what_is_still_to_be_matched_is_for_this_version() -> None:
    """An instance of the version before would drop it: no subscription has that generation."""
    kept = a_message(generation=UNMATCHED)
    event = a_delivery()
    parts = [Part("orders", "crm", "g-1", 1, (0,)), Part("orders", "audit", UNMATCHED, 1, (0,))]
    shared = encode_fan_out([event], parts, pack([event.text or ""]))

    assert wire(kept)["pushgrid"] == json.loads(shared)["pushgrid"] == 3
    assert read(encode(kept)[0]) == kept
    assert [part.generation for part in read_parts(shared)] == ["g-1", UNMATCHED]
