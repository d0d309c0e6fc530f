"""Where storage is, and what its answers mean."""

import base64
from datetime import UTC, datetime

import pytest

from devhost import queue_storage, storage_account
from devhost.errors import BadFunctionError
from devhost.queue_storage import (
    QueueGoneError,
    StaleReceiptError,
    StorageBusyError,
    StorageRefusedError,
)

KEY = base64.b64encode(b"secret").decode()


@pytest.mark.parametrize(
    ("text", "queue_url", "blob_url"),
    [
        (
            f"DefaultEndpointsProtocol=https;AccountName=acc;AccountKey={KEY};EndpointSuffix=core.windows.net",
            "https://acc.queue.core.windows.net",
            "https://acc.blob.core.windows.net",
        ),
        (
            f"AccountName=acc;AccountKey={KEY};QueueEndpoint=http://127.0.0.1:1/acc/;BlobEndpoint=http://127.0.0.1:2/acc",
            "http://127.0.0.1:1/acc",
            "http://127.0.0.1:2/acc",
        ),
        (
            "UseDevelopmentStorage=true",
            "http://127.0.0.1:10001/devstoreaccount1",
            "http://127.0.0.1:10000/devstoreaccount1",
        ),
    ],
    ids=["azure", "endpoints", "development"],
)  # fmt: skip
def test_connection_strings(text, queue_url, blob_url):
    account = storage_account.find_account("S", {"S": text})

    assert (account.queue_url, account.blob_url) == (queue_url, blob_url)
    assert account.key


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "setting S (where storage is) is missing"),
        ({"S": ""}, "setting S (where storage is) is missing"),
        ({"S": "nonsense"}, "setting S is not a storage connection string"),
        ({"S": "AccountName=a;AccountKey=%"}, "the AccountKey in setting S is not base64"),
        ({"S__credential": "managedidentity"}, "setting S__queueServiceUri is missing"),
    ],
)
def test_missing_or_unreadable(environ, words):
    with pytest.raises(BadFunctionError) as raised:
        storage_account.find_account("S", environ)

    assert str(raised.value) == words


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "PopReceiptMismatch", StaleReceiptError),
        (404, "MessageNotFound", StaleReceiptError),
        (404, "QueueNotFound", QueueGoneError),
        (409, "QueueBeingDeleted", QueueGoneError),
        (409, "QueueDisabled", QueueGoneError),
        (500, "InternalError", StorageBusyError),
        (503, "ServerBusy", StorageBusyError),
        (403, "AuthenticationFailed", StorageRefusedError),
        (400, "OutOfRangeInput", StorageRefusedError),
    ],
)
def test_refusals(status, code, kind):
    assert type(queue_storage._refusal(status, code)) is kind


def test_received_messages_are_read_as_stored():
    body = b"""<?xml version="1.0" encoding="utf-8"?><QueueMessagesList><QueueMessage>
    <MessageId>i</MessageId><InsertionTime>Sat, 21 Nov 2026 12:00:00 GMT</InsertionTime>
    <ExpirationTime>Fri, 31 Dec 9999 23:59:59 GMT</ExpirationTime><PopReceipt>p</PopReceipt>
    <TimeNextVisible>Sat, 21 Nov 2026 12:10:00 GMT</TimeNextVisible><DequeueCount>2</DequeueCount>
    <MessageText>a &lt;b&gt; &amp; c</MessageText></QueueMessage></QueueMessagesList>"""

    (message,) = queue_storage._parse_messages(body)

    assert message.text == "a <b> & c"
    assert (message.id, message.pop_receipt, message.dequeue_count) == ("i", "p", 2)
    assert message.next_visible_time == datetime(2026, 11, 21, 12, 10, tzinfo=UTC)
    assert queue_storage._parse_messages(b"<QueueMessagesList />") == []
