"""Dead letters are read back, whoever wrote them; contract §4.2."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START
from shared.deadletter.reader import (
    MAX_BLOB,
    MAX_RECORD,
    MAX_RECORDS,
    DeadLetter,
    RecordForm,
    UnreadableBlob,
    UnreadableRecord,
    elements,
    read_record,
)
from shared.deadletter.record import blob_body, namespace_record, record
from shared.delivery.delivery import LastAttempt
from shared.delivery.outcome import Outcome
from shared.events.literals import dumps
from shared.events.schema_rules import MAX_EVENT_SIZE
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import DeliverySchema, StaticHeader
from tests.azure_dead_letters import NAMESPACE
from tests.builders import a_delivery, a_note, compact, members, read_blob, text
from tests.strategies import json_values
from tests.unit.events.publishing import requires

LATER = START + timedelta(minutes=5, microseconds=765432)
TRIED = a_delivery(attempts=5, last=LastAttempt(Outcome.TIMED_OUT, 408, LATER))
CLOUD_EVENT = {"specversion": "1.0", "id": "a", "source": "/s", "type": "t", "tenant": "x"}

# As Azure Event Grid writes them: the documents' samples and captured blobs (contract §4.2, §4.3).
BY_AZURE = {
    "id": "93902694-901e-008f-6f95-7153a806873c",
    "eventTime": "2020-08-13T17:18:13.1647262Z",
    "eventType": "Microsoft.Storage.BlobDeleted",
    "dataVersion": "",
    "metadataVersion": "1",
    "topic": "/subscriptions/0/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/acc",
    "subject": "/blobServices/default/containers/c/blobs/file.txt",
    "deadLetterReason": "MaxDeliveryAttemptsExceeded",
    "deliveryAttempts": 1,
    "lastDeliveryOutcome": "NotFound",
    "publishTime": "2020-08-13T17:18:14.0265758Z",
    "lastDeliveryAttemptTime": "2020-08-13T17:18:14.0465788Z",
    "data": {"api": "DeleteBlob", "contentLength": 524288},
}
CLOUD_BY_AZURE = {
    "id": "caee971c-3ca0-4254-8f99-1395b394588e",
    "source": "mysource",
    "dataversion": "1.0",
    "subject": "mySubject",
    "type": "fooEventType",
    "datacontenttype": "application/json",
    "data": {"prop1": "value1"},
    "specversion": "1.0",
    "deadletterreason": "UndeliverableDueToProbationCausedByClientError",
    "deliveryattempts": "1",
    "lastdeliveryoutcome": "Probation",
    "publishtime": "2020-08-13T17:18:14.0265758Z",
}


def only(body: object) -> DeadLetter:
    """Read a blob that has one dead letter."""
    (found,) = read_blob(json.dumps([body]).encode())
    assert isinstance(found, DeadLetter)
    return found


@pytest.mark.parametrize(
    ("note", "written", "form", "event"),
    [
        (a_note(), text(), RecordForm.EVENT_GRID, members()),
        (
            a_note(
                input_schema=InputSchema.CLOUD_EVENTS, delivery_schema=DeliverySchema.CLOUD_EVENTS
            ),
            compact(CLOUD_EVENT),
            RecordForm.CLOUD_EVENTS,
            CLOUD_EVENT,
        ),
        (
            a_note(input_schema=InputSchema.CUSTOM, delivery_schema=DeliverySchema.CUSTOM_INPUT),
            text(data={"key": 1}),
            RecordForm.EVENT_GRID,
            members(data={"key": 1}),
        ),
    ],
    ids=["event grid", "cloud events", "custom"],
)
def test_what_was_written_is_read(note: Any, written: str, form: RecordForm, event: Any):
    body = blob_body([record(TRIED, written, note), record(a_delivery(), written, note)])
    tried, untried = read_blob(body)

    assert tried == DeadLetter(
        form=form,
        event=event,
        reason="MaxDeliveryAttemptsExceeded",
        attempts=5,
        last_outcome="TimedOut",
        last_status=408 if form is RecordForm.EVENT_GRID else None,
        published_at=START,
        last_attempt_at=LATER,
    )
    assert isinstance(untried, DeadLetter)
    assert (untried.attempts, untried.last_outcome, untried.last_attempt_at) == (0, None, None)


def test_what_was_written_of_a_namespace_is_read():
    note = a_note(
        input_schema=InputSchema.CLOUD_EVENTS,
        delivery_schema=DeliverySchema.CLOUD_EVENTS,
        headers=(StaticHeader(name="X-Shop", value="berlin"),),
    )

    (found,) = read_blob(blob_body([namespace_record(TRIED, compact(CLOUD_EVENT), note)]))

    assert found == DeadLetter(
        form=RecordForm.NAMESPACE,
        event=CLOUD_EVENT,
        reason="Maximum delivery attempts was exceeded.",
        attempts=5,
        last_outcome="TimedOut",
        last_status=None,
        published_at=START,
        last_attempt_at=LATER,
        headers={"X-Shop": "berlin"},
    )


@given(st.dictionaries(st.text(max_size=3), json_values, max_size=3))
def test_an_event_keeps_what_its_publisher_wrote(data: Any):
    written = text(data=data)
    line = record(TRIED, written, a_note())

    (found,) = read_blob(blob_body([line]))

    assert isinstance(found, DeadLetter)
    assert json.loads(dumps({**found.event})) == json.loads(written)


def test_numbers_keep_their_literals():
    line = record(TRIED, text().replace("12.5", "12.50"), a_note())

    (found,) = read_blob(blob_body([line]))

    assert isinstance(found, DeadLetter)
    assert '"total":12.50' in dumps({**found.event})


def test_azure_s_own_event_grid_record():
    found = only(BY_AZURE)

    assert found.form is RecordForm.EVENT_GRID
    assert (found.reason, found.attempts) == ("MaxDeliveryAttemptsExceeded", 1)
    assert (found.last_outcome, found.last_status) == ("NotFound", None)
    assert found.published_at == datetime(2020, 8, 13, 17, 18, 14, 26575, UTC)
    assert [*found.event][-1] == "data"
    assert not {"deadLetterReason", "publishTime"} & {*found.event}


def test_azure_s_own_cloud_event():
    found = only(CLOUD_BY_AZURE)

    assert (found.form, found.attempts) == (RecordForm.CLOUD_EVENTS, 1)
    assert found.event["dataversion"] == "1.0"
    assert "lastdeliveryoutcome" not in found.event


@pytest.mark.parametrize(
    "wrapper", ["deadLetterProperties", "deadletterProperties", "brokerProperties"]
)
def test_azure_s_own_record_of_a_namespace(wrapper: str):
    properties = NAMESPACE["deadLetterProperties"]

    found = only({wrapper: properties, "event": CLOUD_EVENT})

    assert (found.form, found.event) == (RecordForm.NAMESPACE, CLOUD_EVENT)
    assert found.last_outcome == "Event was not acknowledged nor rejected."


@pytest.mark.parametrize(
    ("element", "fault"),
    [
        ("text", "it is not a JSON object"),
        ({}, "it has no deadLetterReason"),
        (BY_AZURE | {"deadLetterReason": None}, "it has no deadLetterReason"),
        (CLOUD_EVENT, "it has no deadletterreason"),
        ({"deadLetterProperties": {}, "event": {}}, "it has no deadletterreason"),
        (
            {"deadLetterProperties": [], "event": {}},
            "its event or its properties are not JSON objects",
        ),
        (
            BY_AZURE | {"Subject": "/a"},
            requires("EventGridEvent", "subject", "to be set once, in one spelling"),
        ),
    ],
)
def test_what_is_no_dead_letter_is_said_and_harms_no_other(element: object, fault: str):
    first, second = read_blob(json.dumps([element, BY_AZURE]).encode())

    assert first == UnreadableRecord(fault=fault)
    assert isinstance(second, DeadLetter)


@pytest.mark.parametrize(
    "changed",
    [
        {"deliveryAttempts": "many", "publishTime": "soon", "lastDeliveryOutcome": 7},
        {"deliveryAttempts": True, "publishTime": "9999-12-31T23:59:59-23:59"},
        {"deliveryAttempts": "1" * 30, "publishTime": 5},
    ],
)
def test_a_member_of_another_type_is_unknown(changed: dict[str, object]):
    found = only(BY_AZURE | changed)

    assert found.published_at is None
    assert not isinstance(found.attempts, str | bool)
    assert found.reason == "MaxDeliveryAttemptsExceeded"


def test_a_single_record_is_read_with_a_byte_order_mark():
    (found,) = read_blob(b"\xef\xbb\xbf" + json.dumps(BY_AZURE).encode())

    assert isinstance(found, DeadLetter)


def test_an_event_as_deep_as_publishing_allows_is_read():
    deep = json.loads("[" * 61 + "]" * 61)  # with array, event and data 64 levels
    envelope = BY_AZURE | {"data": {"original": {"custom": deep}}}

    assert only(envelope).event["data"] == {"original": {"custom": deep}}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "It is not a JSON array"),
        (b"\xff", "It is not a JSON array"),
        (b"7", "It is not a JSON array"),
        (b"[" + b" " * MAX_BLOB, "16 MiB"),
    ],
)
def test_a_blob_that_is_no_list_is_unreadable(body: bytes, why: str):
    with pytest.raises(UnreadableBlob, match=why):
        read_blob(body)


@pytest.mark.parametrize(
    ("element", "fault"),
    [
        (b"NaN", "not JSON: NaN"),
        (b"\xff", "not valid UTF-8"),
        (b'"\\ud800"', "half of a surrogate pair"),
        (b"", "Unexpected end"),
        (b"{]", "malformed"),
        (b"[" * 100_000 + b"]" * 100_000, "nested deeper"),
        (b'"' + b"x" * MAX_RECORD + b'"', "which no event has"),
        (b"[" + b"{}," * (MAX_RECORD // 3) + b"{}]", "which no event has"),
        (b'"' + rb"\\u" * MAX_RECORD + b'"', "which no event has"),
    ],
    ids=lambda each: each[:9] if isinstance(each, bytes) else "",
)
def test_an_element_that_is_no_json_or_too_large_harms_no_other(element: bytes, fault: str):
    good = json.dumps(BY_AZURE).encode()

    first, bad, last = read_blob(b"[" + good + b",\n" + element + b"," + good + b"]")

    assert isinstance(bad, UnreadableRecord)
    assert fault in bad.fault
    assert isinstance(first, DeadLetter)
    assert first == last


@pytest.mark.parametrize(
    ("rest", "fault"),
    [
        (b",", "cut off"),
        (b',"no end', "cut off"),
        (b"," + b"[" * 100_000, "cut off"),
        (b"] 7", "more after the end"),
        (b',"' + b"x" * 6 * MAX_RECORD + b'"]', "the rest is not read"),
        (b",7" * MAX_RECORDS + b"]", f"more than {MAX_RECORDS} records"),
    ],
    ids=lambda each: each[:9] if isinstance(each, bytes) else "",
)
def test_records_before_a_damage_are_read(rest: bytes, fault: str):
    first, *_, last = read_blob(b"[" + json.dumps(BY_AZURE).encode() + rest)

    assert isinstance(first, DeadLetter)
    assert isinstance(last, UnreadableRecord)
    assert fault in last.fault


@pytest.mark.parametrize("character", ["\x7f", "\u00fc", "\u2713", "\U0001f600"])
def test_the_largest_event_is_read_whatever_it_is_escaped_to(character: str):
    count = (MAX_EVENT_SIZE - 200) // len(character.encode())

    assert only(BY_AZURE | {"data": character * count}).event["data"] == character * count


def test_records_are_read_from_any_on():
    body = json.dumps([BY_AZURE | {"id": str(number)} for number in range(9)]).encode()

    found = [*map(read_record, elements(body, 7))]

    assert [each.event["id"] for each in found if isinstance(each, DeadLetter)] == ["7", "8"]
    assert [*elements(body, 9)] == []


@given(json_values)
def test_any_json_is_read_or_said_to_be_unreadable(value: object):
    try:
        found = read_blob(json.dumps(value).encode())
    except UnreadableBlob:
        assert not isinstance(value, list | dict)
    else:
        assert len(found) == (len(value) if isinstance(value, list) else 1)
