"""Storage that fails in each of its ways, as the adapters meet it."""

from __future__ import annotations

import gc
import json
import logging
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from azure.core.pipeline.transport import HttpTransport

from pushgrid.testing.memory import START, FakeClock
from shared.adapters.storage import bounded_retry, day_tables, message_put, tries
from shared.adapters.storage.attempts import StorageAttempts
from shared.adapters.storage.blobs import StorageDeadLetters, StoragePayloads
from shared.adapters.storage.clients import StorageClients
from shared.adapters.storage.metrics import StorageMetrics
from shared.adapters.storage.queues import StorageQueues
from shared.adapters.storage.tables import StorageResources
from shared.deadletter.reader import UnreadableBlob
from shared.engine.ports import Queue, Receipt, Received, Table
from shared.errors import StorageUnavailable, StorageUnreachable
from tests.builders import DEAD, a_minute, a_record
from tests.contract.scripted_storage import STORED, Answer, ScriptedStorage
from tests.senders import OnLoopSender, sender_of
from tests.serving import serving

MESSAGE = Received(text="one", receipt=Receipt("1", "r"))
ORDERS = Table.TOPICS, "topic", "orders"


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the pauses between tries, which take no time."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(HttpTransport, "sleep", lambda _, seconds: pauses.append(seconds))
    monkeypatch.setattr(message_put, "sleep", sleep)
    return pauses


@pytest.fixture
def storage() -> Iterator[ScriptedStorage]:
    with serving(ScriptedStorage()) as server:
        yield server


@pytest.fixture
def queues(storage: ScriptedStorage) -> StorageQueues:
    return StorageQueues(account_at(storage.server_port))


@pytest.fixture
def sender(storage: ScriptedStorage) -> Iterator[OnLoopSender]:
    with sender_of(account_at(storage.server_port)) as sender:
        yield sender


def account_at(port: int) -> StorageClients:
    services = ("Blob", "Queue", "Table")
    urls = ";".join(f"{service}Endpoint=http://127.0.0.1:{port}/acc" for service in services)
    return StorageClients({"": f"AccountName=acc;AccountKey=a2V5;{urls}"})


Work = Callable[[StorageClients], object]

HOUR = timedelta(hours=1)


def put_message(account: StorageClients) -> None:
    with sender_of(account) as sender:
        sender.put(Queue.WAITING, "one")


def payloads(account: StorageClients) -> StoragePayloads:
    return StoragePayloads(account, FakeClock())


WORK: dict[str, Work] = {
    "put message": put_message,
    "hide message": lambda account: StorageQueues(account).hide(Queue.WAITING, MESSAGE, HOUR),
    "delete message": lambda account: StorageQueues(account).delete(Queue.WAITING, MESSAGE),
    "read queue": lambda account: StorageQueues(account).receive(Queue.WAITING, HOUR),
    "read table": lambda account: StorageResources(account).list(Table.TOPICS, "topic"),
    "insert row": lambda account: StorageResources(account).put(*ORDERS, {}, None),
    "replace row": lambda account: StorageResources(account).put(*ORDERS, {}, "etag"),
    "delete row": lambda account: StorageResources(account).delete(*ORDERS),
    "write payload": lambda account: payloads(account).write("publish-1", START, ["a"]),
    "read payload": lambda account: payloads(account).read("2026020912/publish-1"),
    "delete payloads": lambda account: payloads(account).delete_expired(START, START + HOUR),
    "write dead letter": lambda account: StorageDeadLetters(account).write(DEAD, "a.json", b"[]"),
    "read dead letter": lambda account: StorageDeadLetters(account).read(DEAD, "a.json", 100),
    "find dead letter": lambda account: StorageDeadLetters(account).find(DEAD, "a.json"),
    "write attempt": lambda account: StorageAttempts(account, FakeClock()).write([a_record()]),
    "write count": lambda account: StorageMetrics(account, FakeClock()).write([a_minute({})]),
}
EVERYTHING = [
    *("read queue", "read table", "write payload", "read payload"),
    *("write dead letter", "read dead letter", "write attempt"),
]


@pytest.mark.parametrize(("status", "code"), [(409, "BlobArchived"), (412, "LeaseIdMissing")])
def test_what_concerns_one_blob_is_no_outage(
    storage: ScriptedStorage, status: int, code: str
) -> None:
    storage.script = [Answer(status, code)]

    with pytest.raises(UnreadableBlob, match=code):
        WORK["read dead letter"](account_at(storage.server_port))


@pytest.mark.parametrize("work", EVERYTHING)
def test_a_repeated_request_leaves_no_connection_open(storage: ScriptedStorage, work: str) -> None:
    storage.script = [Answer(503, "ServerBusy")]
    with pytest.raises(StorageUnavailable):
        WORK[work](account_at(storage.server_port))

    with warnings.catch_warnings(record=True, action="always") as caught:
        gc.collect()
    assert [each for each in caught if each.category is ResourceWarning] == []


def test_messages_never_expire(storage: ScriptedStorage, sender: OnLoopSender) -> None:
    sender.put(Queue.WAITING, "one", visible_in=timedelta(days=9))

    (request,) = storage.requests
    assert "messagettl=-1" in request
    assert "visibilitytimeout=604800" in request


def test_the_environment_names_no_proxy(
    storage: ScriptedStorage, sender: OnLoopSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")

    sender.put(Queue.WAITING, "one")

    assert len(storage.requests) == 1


@pytest.mark.parametrize("fault", [Answer(500), Answer(503, "ServerBusy"), Answer(0)])
def test_a_short_fault_is_nobodys_business(
    storage: ScriptedStorage, sender: OnLoopSender, fault: Answer
) -> None:
    storage.script.insert(0, fault)

    sender.put(Queue.WAITING, "one")

    assert len(storage.requests) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404, "MessageNotFound"),
        Answer(404, "QueueNotFound"),
        Answer(400, "PopReceiptMismatch"),
        Answer(409, "QueueBeingDeleted"),
    ],
    ids=lambda answer: answer.code,
)
def test_a_message_that_somebody_else_has_is_left_to_them(
    storage: ScriptedStorage, queues: StorageQueues, answer: Answer
) -> None:
    storage.script = [answer]

    queues.delete(Queue.WAITING, MESSAGE)
    queues.hide(Queue.WAITING, MESSAGE, timedelta(seconds=1))

    assert len(storage.requests) == 2


def test_a_queue_that_another_process_makes_first_is_used(
    storage: ScriptedStorage, sender: OnLoopSender
) -> None:
    storage.script = [
        Answer(404, "QueueNotFound"),
        Answer(409, "QueueAlreadyExists"),
        Answer(201, body=STORED),
    ]

    sender.put(Queue.WAITING, "one")

    assert [request.split()[0] for request in storage.requests] == ["POST", "PUT", "POST"]


@pytest.mark.parametrize(
    ("act", "verb"),
    [
        ("put message", "POST"),
        ("read queue", "GET"),
        ("hide message", "PUT"),
        ("delete message", "DELETE"),
        ("insert row", "POST"),
        ("read table", "GET"),
        ("replace row", "PUT"),
        ("delete row", "DELETE"),
        ("write attempt", "PUT"),
        ("write count", "PUT"),
        ("delete payloads", "POST"),
        ("read payload", "GET"),
        ("write payload", "PUT"),
        ("find dead letter", "HEAD"),
        ("write dead letter", "PUT"),
        ("read dead letter", "GET"),
    ],
)
@pytest.mark.parametrize("status", [429, 503, 0], ids=["throttled", "busy", "closed"])
def test_a_request_is_tried_three_times_however_long_storage_asks_to_wait(
    storage: ScriptedStorage,
    slept: list[float],
    act: str,
    verb: str,
    status: int,
) -> None:
    """Publishers waited as long as the answer to a table request said."""
    busy = Answer(status, "ServerBusy", retry_after="60")
    expired = b"<Blob><Name>2020010100/a</Name></Blob>"
    listed = b"<EnumerationResults><Blobs>%b</Blobs></EnumerationResults>" % expired
    storage.choose = lambda _: (
        Answer(200, body=listed) if "comp=list" in storage.requests[-1] else busy
    )

    with pytest.raises(StorageUnavailable):
        WORK[act](account_at(storage.server_port))

    tried = [each for each in storage.requests if "comp=list" not in each]
    assert [each.split()[0] for each in tried] == [verb] * tries.TRIES
    assert sum(slept) < tries.LIMIT_SECONDS / 2


@pytest.mark.parametrize("cut", [1, len(STORED), len(STORED) + 60])
def test_a_put_whose_answer_is_cut_off_is_stored(
    storage: ScriptedStorage, sender: OnLoopSender, cut: int
) -> None:
    """It failed all requests of its commit, and their publishers put it again."""
    storage.script = [Answer(201, body=STORED, cut=cut), Answer(500)]

    receipt = sender.put(Queue.WAITING, "one")

    assert len(storage.requests) == 1
    if cut > 1:  # Nobody knows how to delete it: it counts as received.
        assert sender.take_back(Queue.WAITING, receipt) is False
        assert sender.replace(Queue.WAITING, receipt, "two", timedelta()) is None
        assert len(storage.requests) == 1


def test_a_payload_whose_answer_is_cut_off_is_stored(storage: ScriptedStorage) -> None:
    storage.script = [Answer(201, cut=30), Answer(500)]

    WORK["write payload"](account_at(storage.server_port))

    assert len(storage.requests) == 1


@pytest.mark.parametrize(
    ("act", "tries"),
    [
        ("read queue", 1),
        ("hide message", 1),
        ("read table", 1),
        ("write attempt", 1),
        ("put message", 2),
        ("write payload", 2),
        ("read payload", 2),
        ("write dead letter", 2),
        ("read dead letter", 2),
    ],
)
def test_a_request_that_hangs_is_repeated_once_where_that_does_no_harm(
    storage: ScriptedStorage,
    act: str,
    tries: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log of attempts has a limit of its own: nobody waits for it as long as for the others."""
    is_log = act == "write attempt"
    for module in (bounded_retry, message_put):
        monkeypatch.setattr(module, "READ_SECONDS", 300 if is_log else 0.3)
        monkeypatch.setattr(module, "LIMIT_SECONDS", 300)
    monkeypatch.setattr(day_tables, "WRITE_SECONDS", 0.3 if is_log else 300)
    go_on = threading.Event()
    storage.choose = lambda _: Answer(0) if go_on.wait(30) else Answer(500)

    with pytest.raises(StorageUnavailable):
        WORK[act](account_at(storage.server_port))

    go_on.set()
    assert len(storage.requests) == tries


@pytest.mark.parametrize(
    ("act", "status"),
    [
        *((act, 403) for act in [*EVERYTHING, "delete message"]),
        *(("put message", status) for status in (400, 403, 409, 413)),
    ],
)
def test_a_refusal_by_any_service_is_unavailable_and_not_repeated(
    storage: ScriptedStorage,
    act: str,
    status: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A role that is not assigned (yet) loses nothing, and the operator reads why."""
    storage.script = [Answer(status, "AuthorizationPermissionMismatch")]

    with pytest.raises(StorageUnavailable) as caught, caplog.at_level(logging.ERROR):
        WORK[act](account_at(storage.server_port))

    assert caught.value.__cause__ is not None
    assert not isinstance(caught.value, StorageUnreachable)
    assert len(storage.requests) == 1
    (line,) = [json.loads(record.message) for record in caplog.records]
    assert (line["event"], line["status"]) == ("storage.failed", status)
    assert line["code"] == "AuthorizationPermissionMismatch"


def test_an_account_that_does_not_answer_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        away = account_at(unused.getsockname()[1])
        with pytest.raises(StorageUnreachable):
            WORK["write dead letter"](away)


def test_a_container_that_is_being_deleted_is_missing(storage: ScriptedStorage) -> None:
    storage.script = [Answer(409, "ContainerBeingDeleted")]
    store = StorageDeadLetters(account_at(storage.server_port))

    assert not store.write(DEAD, "a.json", b"[]")


def test_a_table_that_is_being_deleted_is_not_empty(storage: ScriptedStorage) -> None:
    storage.script = [Answer(409, "TableBeingDeleted")]

    with pytest.raises(StorageUnavailable):
        WORK["read table"](account_at(storage.server_port))
