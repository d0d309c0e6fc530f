"""Connection settings, and the responses of storage."""

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from devhost.errors import BadFunctionError
from devhost.queue.storage import RestQueue
from devhost.storage import account as storage_account
from devhost.storage.errors import (
    QueueGoneError,
    StaleReceiptError,
    StorageBusyError,
    StorageRefusedError,
)
from tests.host.page import same_page

KEY = base64.b64encode(b"secret").decode()
_MESSAGE = b"""<?xml version="1.0" encoding="utf-8"?><QueueMessagesList><QueueMessage>
<MessageId>i</MessageId><InsertionTime>Sat, 21 Nov 2026 12:00:00 GMT</InsertionTime>
<ExpirationTime>Fri, 31 Dec 9999 23:59:59 GMT</ExpirationTime><PopReceipt>p</PopReceipt>
<TimeNextVisible>Sat, 21 Nov 2026 12:10:00 GMT</TimeNextVisible><DequeueCount>2</DequeueCount>
<MessageText>a &lt;b&gt; &amp; c</MessageText></QueueMessage></QueueMessagesList>"""


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
        ({}, "setting S (the storage account) is missing"),
        ({"S": "nonsense"}, "setting S is not a storage connection string"),
        ({"S__credential": "managedidentity"}, "setting S__queueServiceUri is missing"),
        ({"S": "AccountName=a;AccountKey=ü"}, "setting S: the AccountKey is not base64"),
        (
            {"S": "AccountName=a;SharedAccessSignature=a b"},
            "setting S: the SharedAccessSignature is malformed",
        ),
        ({"S__queueServiceUri": "nowhere"}, "setting S is not a storage address"),
        (
            {"S__queueServiceUri": "http://h/a"},
            "setting S is not https, which tokens require",
        ),
        (
            {"S__accountName": "acc", "S__credential": "azurecli"},
            "setting S__credential: not one of managedidentity, workloadidentity",
        ),
    ],
)
def test_missing_or_unreadable(environ, words):
    with pytest.raises(BadFunctionError) as raised:
        storage_account.find_account("S", environ)

    assert str(raised.value) == words


def test_a_section_says_where_storage_is():
    section = {"S__queueServiceUri": "https://q.example/", "S__blobServiceUri": "https://b.example"}

    account = storage_account.find_account("S", section)
    named = storage_account.find_account("S", section | {"S__accountName": "acc"})
    single = storage_account.find_account("S", {"S__serviceUri": "https://q.example"})

    assert (account.queue_url, account.blob_url) == ("https://q.example", "https://b.example")
    assert named.queue_url == "https://acc.queue.core.windows.net"
    assert named.blob_url == "https://acc.blob.core.windows.net"
    assert single.queue_url == "https://q.example"


@pytest.mark.parametrize(
    "url",
    [
        "http://h:0/a",
        "http://[::1/a",
        "ftp://h/a",
        "http://a b/c",
        "http://ü/a",
        f"http://{'a' * 64}/a",
        "http://a..b/c",
    ],
)
def test_a_malformed_address_is_a_fault_of_one_function(url):
    text = f"AccountName=a;AccountKey={KEY};BlobEndpoint=http://h/a;QueueEndpoint={url}"

    with pytest.raises(BadFunctionError, match="is not a storage address"):
        storage_account.find_account("S", {"S": text})


@pytest.mark.parametrize("url", ["http://[::1]:10001/a", "https://h.example.", "http://a_b:1/c"])
def test_odd_addresses_that_are_accepted(url):
    text = f"AccountName=a;AccountKey={KEY};BlobEndpoint={url};QueueEndpoint={url}"

    assert storage_account.find_account("S", {"S": text}).queue_url == url


def asked(
    call: Callable[[RestQueue], Awaitable[Any]], page: bytes, status: int = 200, **headers: str
) -> Any:
    """Return what a call of a queue's gives, which is answered with this page."""

    async def ask(queue: RestQueue) -> Any:
        with contextlib.closing(queue):
            return await call(queue)

    with same_page(page, status, **headers) as url, ThreadPoolExecutor(1) as threads:
        account = storage_account.AccountConnection(name="a", queue_url=url, blob_url=url, key=b"k")
        return asyncio.run(ask(RestQueue(account, "q", threads)))


def receive(queue):
    return queue.receive(1, timedelta(seconds=1))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<!doctype html><p>Sign in",
        b"<html></html>",
        _MESSAGE.replace(b">2<", b">many<"),
    ],
    ids=["nothing", "html", "xhtml", "no number"],
)
def test_a_response_of_another_service_is_an_outage(answer):
    for call in (receive, lambda queue: queue.hide("i", "p", timedelta(seconds=1))):
        with pytest.raises(StorageBusyError, match="not a queue service's"):
            asked(call, answer)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "PopReceiptMismatch", StaleReceiptError),
        (404, "MessageNotFound", StaleReceiptError),
        (409, "QueueBeingDeleted", QueueGoneError),
        (404, "", QueueGoneError),
        (429, "", StorageBusyError),
        (500, "InternalError", StorageBusyError),
        (403, "AuthenticationFailed", StorageRefusedError),
        (400, "OutOfRangeInput", StorageRefusedError),
    ],
)
def test_refusals(status, code, kind):
    with pytest.raises(kind):
        asked(receive, b"", status, x_ms_error_code=code)


def test_received_messages_are_read_as_stored():
    (message,) = asked(receive, _MESSAGE)

    assert message.text == "a <b> & c"
    assert (message.id, message.pop_receipt, message.dequeue_count) == ("i", "p", 2)
    assert message.next_visible_time == datetime(2026, 11, 21, 12, 10, tzinfo=UTC)
    assert asked(receive, b"<QueueMessagesList />") == []
